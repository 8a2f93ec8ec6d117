"""Draw the course of a reduction: statements left against seconds."""

from __future__ import annotations

from repro_kit.case.stage_results import Reduction

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
        f"{steps} accepted steps and {reduction.queries} queries."
    )
