"""A small graph as a picture: values from top to bottom, one box a statement."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from repro_kit.program import Program

MOST = 40  # boxes that a person can still follow

_BOX, _GAP, _STEP, _BORDER = 26, 18, 58, 12  # height of a box, space beside it, from row to row, around the picture
_LETTER, _PADDING = 7.3, 10  # of 12 px monospace
_LONGEST = 34  # letters of a label
_SWEEPS = 4


@dataclass(frozen=True)
class DrawnNode:
    """A box: an input, a statement, or what is returned. `text` is the whole line."""

    name: str
    kind: str  # "input", "statement" or "output"
    text: str
    reads: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What stands in the box."""
        return self.text if len(self.text) <= _LONGEST else self.text[: _LONGEST - 1] + "…"

    @property
    def width(self) -> float:
        """Of the box."""
        return len(self.label) * _LETTER + 2 * _PADDING


@dataclass
class _Place:
    """Where something stands in its row; a line that passes a row has a place there, too."""

    row: int
    width: float
    x: float = 0.0  # of its middle


def nodes_of(program: Program) -> list[DrawnNode]:
    """The boxes for `program`, in the order of its text; bodies of higher-order operators stay inside of theirs."""
    graph = program.graph
    found = [DrawnNode(name, "input", name) for name in graph.params]
    known = set(graph.params)
    for at, it in enumerate(graph.statements):
        name = it.target or f"<{at}>"
        found.append(DrawnNode(name, "statement", it.line, tuple(read for read in it.reads if read in known)))
        known.add(name)
    outputs = tuple(name for name in graph.outputs if name in known)
    return [*found, DrawnNode("<return>", "output", f"return {graph.returns.text}", outputs)]


def draw(nodes: Sequence[DrawnNode], name: str, marked: Collection[str] = ()) -> str:
    """An SVG element called `name`; the statements in `marked` stand out. Empty for more than `MOST` boxes."""
    if not 0 < len(nodes) <= MOST:
        return ""
    rows, lines = _arranged(nodes)
    width = max(sum(place.width + _GAP for place in row.values()) for row in rows) + 2 * _BORDER
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
    """The rows, each with what stands in it from left to right, and every line as the places that it goes through."""
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
    """The row of each node: below all that it reads; an input right above its first reader."""
    row: dict[str, int] = {}
    for node in nodes:
        row[node.name] = 1 + max((row[read] for read in node.reads), default=-1)
    for node in nodes:
        readers = [row[other.name] for other in nodes if node.name in other.reads]
        if node.kind == "input" and readers:
            row[node.name] = min(readers) - 1
    return row


def _untangle(rows: list[dict[str, _Place]], lines: Sequence[Sequence[tuple[int, str]]]) -> None:
    """Order each row by the middle of what it is connected with, back and forth, so that few lines cross."""
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
    """Put what stands in a row side by side, in the middle of the picture."""
    x = (width - sum(place.width + _GAP for place in row.values())) / 2
    for place in row.values():
        place.x = x + (place.width + _GAP) / 2
        x += place.width + _GAP


def _place_of(node: DrawnNode, rows: Sequence[dict[str, _Place]]) -> _Place:
    return next(row[node.name] for row in rows if node.name in row)


def _curve(line: Sequence[tuple[int, str]], rows: Sequence[dict[str, _Place]]) -> str:
    """A line from the bottom of one box through its places to the top of another."""
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


def _box(node: DrawnNode, place: _Place, marked: bool) -> str:
    left, top = place.x - node.width / 2, _BORDER + place.row * _STEP
    names = f"{node.kind} marked" if marked else node.kind
    return (
        f'<g class="{names}"><title>{escape(node.text)}</title>'
        f'<rect x="{left:.1f}" y="{top}" width="{node.width:.1f}" height="{_BOX}" rx="5"/>'
        f'<text x="{place.x:.1f}" y="{top + _BOX / 2}" dy="0.35em" text-anchor="middle">{escape(node.label)}</text></g>'
    )
