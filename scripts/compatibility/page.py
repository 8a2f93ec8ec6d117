"""Keep the results in examples/versions.toml, and write docs/compatibility.md from them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from packaging.version import Version

from compatibility.cells import COMMANDS
from compatibility.environment import ROOT
from compatibility.features import FEATURES

RESULTS = ROOT / "examples" / "versions.toml"
PAGE = ROOT / "docs" / "compatibility.md"

_MARKS = ("✗", "◐", "✓", "—")  # the worst first
_HEAD = """\
# Compatibility

What repro-kit does with which torch. `scripts/matrix` makes an environment for each version, runs examples with it, and
writes this page; `scripts/matrix 2.9.1` does it for one version, and `scripts/matrix --all` with all examples.

✓ the command found what `examples/expected.toml` promises · ◐ in part; the reason is below · ✗ it failed · — not tried.
No version numbers are compared: repro-kit asks each torch for what it has.
"""


def read_results(path: Path = RESULTS) -> dict[str, Any]:
    """The results of earlier runs by version; none where there is no file."""
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_results(results: Mapping[str, Any], path: Path = RESULTS) -> None:
    """Write the results, oldest version first."""
    ordered = {version: results[version] for version in sorted(results, key=Version)}
    head = "# Which example fails on which torch, and what each command made of it. Written by scripts/matrix.\n\n"
    path.write_text(head + tomli_w.dumps(ordered), encoding="utf-8")


def page(results: Mapping[str, Any]) -> str:
    """The text of docs/compatibility.md."""
    versions = list(results)
    commands = [_command_row(command, results) for command in (*COMMANDS, "tests")]
    examples = sorted({name for result in results.values() for name in result["examples"]})
    parts = [
        _HEAD,
        _table(["command", *versions], commands),
        "`observe` to `bundle` are the stages of `collect`; `tests` are the probe's own tests that ask torch, less "
        "those for what that torch lacks.\n",
        _reasons(results),
        "## What was tried\n",
        _table(["", *versions], [[key, *(result[key] for result in results.values())] for key in ("torch", "python")]),
        "## Which example fails where\n",
        _table(["example", *versions], [_example_row(name, results) for name in examples]),
    ]
    return "\n".join(part for part in parts if part)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _command_row(command: str, results: Mapping[str, Any]) -> list[str]:
    return [f"`{command}`", *(_mark(command, result) for result in results.values())]


def _mark(command: str, result: Mapping[str, Any]) -> str:
    marks = {cell[0] for _, cell in _cells(command, result)}
    return next((mark for mark in _MARKS if mark in marks), "—")


def _cells(command: str, result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The cells of a command with one torch, each with the example that it is about ("" for none)."""
    for name, cells in result["examples"].items():
        if command in cells:
            yield name, cells[command]
    if command == "tests":
        yield "", result["tests"]
    for feature in FEATURES:
        if feature.command == command and feature.name in result["lacks"]:
            yield "", f"◐ {feature.without}"


def _reasons(results: Mapping[str, Any]) -> str:
    """A line for each cell with a reason, the same reason once."""
    lines = []
    for version, result in results.items():
        for command in (*COMMANDS, "tests"):
            for name, cell in _cells(command, result):
                mark, _, reason = cell.partition(" ")
                if reason and mark != "✓":
                    about = f"`{name}`: " if name else ""
                    lines.append(f"- {version}, `{command}` {mark} {about}{reason}\n")
    return "".join(dict.fromkeys(lines))


def _example_row(name: str, results: Mapping[str, Any]) -> list[str]:
    tried = [result["examples"].get(name, {}).get("result", "—") for result in results.values()]
    return [f"`{name}`", *tried]
