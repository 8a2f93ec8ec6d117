"""Draws the bar chart of docs/benchmarks.md from the figures in scripts/bench/minify_vs_pytorch.toml.

python scripts/bench/draw.py [OUT.svg]     default: docs/pictures/minify_vs_pytorch.svg
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_DATA = _HERE / "minify_vs_pytorch.toml"
_OUT = _HERE.parents[1] / "docs" / "pictures" / "minify_vs_pytorch.svg"
_WIDTH, _LEFT, _RIGHT = 760, 230, 60  # the picture; room for names; room for the longest bar's number
_BAR, _GAP = 16, 14  # height of a bar; space between two cases
_TOP = 56  # room for title and legend
#: Colours that can be told apart on white and on black, and by people who see no red or no green.
_OURS, _THEIRS, _INK = "#0072b2", "#e69f00", "#808080"


@dataclass(frozen=True)
class Case:
    """One reduction, by both: seconds of wall time."""

    name: str
    statements: int
    ours: float
    theirs: float


def cases(text: str) -> list[Case]:
    """The cases in the data file's `text`, in its order."""
    return [
        Case(case["name"], case["statements"], case["repro_kit"]["seconds"], case["pytorch"]["seconds"])
        for case in tomllib.loads(text)["case"]
    ]


def chart(shown: list[Case]) -> str:
    """The chart as SVG: two bars for each case, with their seconds."""
    scale = (_WIDTH - _LEFT - _RIGHT) / max(max(case.ours, case.theirs) for case in shown)
    height = _TOP + len(shown) * (2 * _BAR + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="13" fill="{_INK}">',
        _text(0, 18, "Seconds to reduce a captured failure (less is better)", weight="bold"),
        f'<rect x="{_LEFT}" y="30" width="12" height="12" fill="{_OURS}"/>',
        _text(_LEFT + 18, 41, "repro-kit minify"),
        f'<rect x="{_LEFT + 150}" y="30" width="12" height="12" fill="{_THEIRS}"/>',
        _text(_LEFT + 168, 41, "PyTorch's minifier"),
    ]
    for number, case in enumerate(shown):
        top = _TOP + number * (2 * _BAR + _GAP)
        parts.append(_text(_LEFT - 8, top + _BAR + 4, f"{case.name} ({case.statements})", anchor="end"))
        parts += _bar(top, case.ours, scale, _OURS) + _bar(top + _BAR, case.theirs, scale, _THEIRS)
    return "\n".join([*parts, "</svg>", ""])


def _bar(top: float, seconds: float, scale: float, colour: str) -> list[str]:
    width = seconds * scale
    return [
        f'<rect x="{_LEFT}" y="{top}" width="{width:.1f}" height="{_BAR - 1}" fill="{colour}"/>',
        _text(_LEFT + width + 6, top + _BAR - 4, f"{seconds:g} s"),
    ]


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'


def main() -> None:
    """Write the chart."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else _OUT
    out.write_text(chart(cases(_DATA.read_text(encoding="utf-8"))), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
