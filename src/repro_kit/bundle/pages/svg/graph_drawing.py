"""Draw a small graph: values from top to bottom, one box for each statement."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from repro_kit.program import Program

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
    points = list(_points(line, rows))
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        bend = (y1 - y0) / 2
        path += f"C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
    return path


def _points(line: Sequence[tuple[int, str]], rows: Sequence[dict[str, _Place]]) -> Iterator[tuple[float, float]]:
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
