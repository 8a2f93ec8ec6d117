"""Drawings as SVG: a small graph, and the course of a reduction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from repro_kit.case.stage_results import Reduction
from repro_kit.graph import Program

_WIDTH, _HEIGHT = 640, 260
_LEFT, _TOP, _RIGHT, _BOTTOM = 56, 16, 624, 212  # of the plot within the picture
_MARKS = 5  # on an axis, about


def curve(reduction: Reduction) -> str:
    """An SVG element for a page. It loads nothing, and takes the colour of the surrounding text."""
    points = _points(reduction)
    longest, most = max(1.0, points[-1][0]), max(1, *(statements for _, statements in points))
    across, up = _marks(longest), _marks(most)

    def x(seconds: float) -> str:
        return f"{_LEFT + (_RIGHT - _LEFT) * seconds / longest:.1f}"

    def y(statements: float) -> str:
        return f"{_BOTTOM - (_BOTTOM - _TOP) * statements / most:.1f}"

    path = f"M{x(0)} {y(points[0][1])}" + "".join(f"H{x(at)}V{y(left)}" for at, left in points)
    dots = "".join(f'<circle cx="{x(at)}" cy="{y(left)}" r="2.5"/>' for at, left in points[:-1])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        'fill="currentColor" font-family="sans-serif" font-size="12" style="max-width:100%;height:auto">',
        "<title>Statements left against seconds</title>",
        f"<desc>{_description(reduction)}</desc>",
        '<g stroke="currentColor" stroke-opacity="0.15">',
        *(f'<line x1="{_LEFT}" y1="{y(mark)}" x2="{_RIGHT}" y2="{y(mark)}"/>' for mark in up),
        "</g>",
        *(f'<text x="{_LEFT - 8}" y="{y(mark)}" dy="0.35em" text-anchor="end">{mark:g}</text>' for mark in up),
        *(f'<text x="{x(mark)}" y="{_BOTTOM + 18}" text-anchor="middle">{mark:g}</text>' for mark in across),
        f'<text x="{(_LEFT + _RIGHT) // 2}" y="{_HEIGHT - 8}" text-anchor="middle">seconds</text>',
        f'<text transform="translate(14 {(_TOP + _BOTTOM) // 2}) rotate(-90)" text-anchor="middle">statements</text>',
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="2"/>',
        dots,
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _points(reduction: Reduction) -> list[tuple[float, int]]:
    """(seconds, statements left): the start, every accepted step, the end."""
    steps = [(step.seconds, step.statements) for step in reduction.steps]
    end = max(reduction.seconds, steps[-1][0] if steps else 0.0)
    return [(0.0, reduction.statements_before), *steps, (end, reduction.statements_after)]


def _marks(top: float) -> list[float]:
    """Round numbers from 0 to at most `top`: multiples of 1, 2 or 5 times a power of ten."""
    step = 1.0
    while top / step > _MARKS:
        step *= 2.5 if str(step)[0] == "2" else 2
    return [step * at for at in range(int(top / step) + 1)]


def _description(reduction: Reduction) -> str:
    before, after, steps = reduction.statements_before, reduction.statements_after, len(reduction.steps)
    return (
        f"From {before} to {after} statements in {reduction.seconds:g} seconds, "
        f"{steps} accepted steps and {reduction.queries} tries."
    )


MOST = 40  # boxes; a larger graph is unreadable

_BOX, _GAP, _STEP, _BORDER = 26, 18, 58, 12  # height of a box, space beside it, from row to row, around the picture
_LETTER, _PADDING = 7.3, 10  # of 12 px monospace
_LONGEST = 34  # letters of a label
_SWEEPS = 4


@dataclass(frozen=True)
class DrawnNode:
    """A box: an input, a statement, or the outputs. `text` is the whole line."""

    name: str
    kind: str  # "input", "statement" or "output"
    text: str
    reads: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The text in the box."""
        return self.text if len(self.text) <= _LONGEST else self.text[: _LONGEST - 1] + "…"

    @property
    def width(self) -> float:
        """The width of the box."""
        return len(self.label) * _LETTER + 2 * _PADDING


@dataclass
class _Place:
    """The position of a box in its row. A line that passes through a row has a position there, too."""

    row: int
    width: float
    x: float = 0.0  # the middle of the box


def nodes_of(program: Program) -> list[DrawnNode]:
    """The boxes for `program`, in order. Bodies of higher-order operators stay inside their box."""
    graph = program.graph
    nodes = [DrawnNode(name, "input", name) for name in graph.params]
    names = set(graph.params)
    for at, statement in enumerate(graph.statements):
        name = statement.target or f"<{at}>"
        nodes.append(
            DrawnNode(name, "statement", statement.line, tuple(read for read in statement.reads if read in names))
        )
        names.add(name)
    outputs = tuple(name for name in graph.outputs if name in names)
    return [*nodes, DrawnNode("<return>", "output", f"return {graph.returns.text}", outputs)]


def draw(nodes: Sequence[DrawnNode], name: str, marked: Collection[str] = ()) -> str:
    """An SVG element called `name`, with the statements in `marked` highlighted. Empty for more than `MOST` boxes."""
    if not 0 < len(nodes) <= MOST:
        return ""
    rows, lines = _arranged(nodes)
    width = max(sum(slot.width + _GAP for slot in row.values()) for row in rows) + 2 * _BORDER
    for row in rows:
        _spread(row, width)
    height = _STEP * (len(rows) - 1) + _BOX + 2 * _BORDER
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(name)}" class="graph" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">',
        *(f'<path d="{_curve(path, rows)}"/>' for path in lines),
        *(_box(node, _place_of(node, rows), node.name in marked) for node in nodes),
        "</svg>",
    ]
    return "\n".join(parts)


def _arranged(nodes: Sequence[DrawnNode]) -> tuple[list[dict[str, _Place]], list[list[tuple[int, str]]]]:
    """The rows, each with its boxes from left to right, and every line as the slots that it passes through."""
    row_of = _rows(nodes)
    rows: list[dict[str, _Place]] = [{} for _ in range(max(row_of.values()) + 1)]
    for node in nodes:
        rows[row_of[node.name]][node.name] = _Place(row_of[node.name], node.width)
    lines = []
    for node in nodes:
        for read in dict.fromkeys(node.reads):
            line = [(row_of[read], read)]
            for row in range(row_of[read] + 1, row_of[node.name]):
                passing = f"{read} → {node.name}"
                rows[row][passing] = _Place(row, _GAP)
                line.append((row, passing))
            lines.append([*line, (row_of[node.name], node.name)])
    _untangle(rows, lines)
    return rows, lines


def _rows(nodes: Sequence[DrawnNode]) -> dict[str, int]:
    """The row of each node: below everything that it reads. An input stands right above its first reader."""
    row: dict[str, int] = {}
    for node in nodes:
        row[node.name] = 1 + max((row[read] for read in node.reads), default=-1)
    for node in nodes:
        readers = [row[other.name] for other in nodes if node.name in other.reads]
        if node.kind == "input" and readers:
            row[node.name] = min(readers) - 1
    return row


def _untangle(rows: list[dict[str, _Place]], lines: Sequence[Sequence[tuple[int, str]]]) -> None:
    """Sort each row by the average position of its neighbours, back and forth, so that few lines cross."""
    beside: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for line in lines:
        for upper, lower in pairwise(line):
            beside.setdefault(lower, []).append(upper)
            beside.setdefault(upper, []).append(lower)

    def middle(row: int, name: str, other: int) -> float:
        order = list(rows[other])
        at = [order.index(there) / len(order) for to, there in beside.get((row, name), ()) if to == other]
        return sum(at) / len(at) if at else list(rows[row]).index(name) / len(rows[row])

    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            other = row - 1 if down else row + 1
            rank = {name: middle(row, name, other) for name in rows[row]}
            rows[row] = {name: rows[row][name] for name in sorted(rank, key=lambda name: rank[name])}


def _spread(row: dict[str, _Place], width: float) -> None:
    """Put the boxes of a row side by side, in the middle of the picture."""
    x = (width - sum(slot.width + _GAP for slot in row.values())) / 2
    for slot in row.values():
        slot.x = x + (slot.width + _GAP) / 2
        x += slot.width + _GAP


def _place_of(node: DrawnNode, rows: Sequence[dict[str, _Place]]) -> _Place:
    return next(row[node.name] for row in rows if node.name in row)


def _curve(line: Sequence[tuple[int, str]], rows: Sequence[dict[str, _Place]]) -> str:
    """A line from the bottom of one box through its slots to the top of another."""
    points = list(_points_of_line(line, rows))
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        bend = (y1 - y0) / 2
        path += f"C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
    return path


def _points_of_line(
    line: Sequence[tuple[int, str]], rows: Sequence[dict[str, _Place]]
) -> Iterator[tuple[float, float]]:
    last = len(line) - 1
    for at, (row, name) in enumerate(line):
        x, top = rows[row][name].x, _BORDER + row * _STEP
        yield from [(x, float(top))] * (at > 0) + [(x, float(top + _BOX))] * (at < last)


def _box(node: DrawnNode, slot: _Place, marked: bool) -> str:
    left, top = slot.x - node.width / 2, _BORDER + slot.row * _STEP
    names = f"{node.kind} marked" if marked else node.kind
    return (
        f'<g class="{names}"><title>{escape(node.text)}</title>'
        f'<rect x="{left:.1f}" y="{top}" width="{node.width:.1f}" height="{_BOX}" rx="5"/>'
        f'<text x="{slot.x:.1f}" y="{top + _BOX / 2}" dy="0.35em" text-anchor="middle">{escape(node.label)}</text></g>'
    )
