#!/usr/bin/env python3
"""Write the tables of options in docs/reference/cli.md, from the declarations in `repro_kit.options`.

.venv/bin/python scripts/record_options.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from repro_kit.options.commands import every_option, options_for
from repro_kit.options.declare import Option, Source

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"
_TABLE = re.compile(r"(<!-- options: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
#: The commands with a table of their own, which has what the one of `collect` lacks.
_OTHERS = (
    *("check", "demo", "minify", "bundle", "explain", "verify", "bisect", "nightly"),
    *("farm run", "farm import", "farm status", "farm report", "farm file"),
)


def written(page: str) -> str:
    """The page with all its tables as the options are declared now."""
    return _TABLE.sub(lambda found: found[1] + "\n".join(_lines(found[2])) + "\n" + found[3], page)


def _lines(name: str) -> Iterator[str]:
    if name == "files":
        yield from _of_files()
    elif name == "others":
        for command in _OTHERS:
            yield from ("", f"### `{command}`", "", *_of_options(_own(command)))
        yield ""
    else:
        yield from _of_options(_own(name))


def _own(command: str) -> list[Option]:
    """The options of a command; those that it shares with `collect` are in the table of that."""
    declared = options_for(command)
    shared = [] if command == "collect" else [each.text for each in options_for("collect")]
    return [each for each in declared if each.text not in shared]


def _of_options(options: list[Option]) -> Iterator[str]:
    yield "| option | default | meaning |"
    yield "|---|---|---|"
    for option in options:
        flags = ", ".join(flag for given in option.flags for flag in given.split("/"))
        value = option.metavar or "\\|".join(option.choices)
        meaning = f"{option.help} {option.more}".rstrip()
        yield f"| `{f'{flags} {value}'.rstrip()}` | {option.shown} | {meaning} |"


def _of_files() -> Iterator[str]:
    yield "| key | the project's `pyproject.toml`, `[tool.repro-kit]` | the user's `~/.config/repro-kit/config.toml` |"
    yield "|---|---|---|"
    rows: dict[tuple[str, str], list[str]] = {}
    for name, option in every_option().items():
        if option.rule.source is not Source.COMMAND:
            rows.setdefault(_who(option), []).append(f"`{name}`")
    for (project, user), names in rows.items():
        yield f"| {', '.join(names)} | {project} | {user} |"
    yield "| any other option | no | no |"


def _who(option: Option) -> tuple[str, str]:
    """Whether a project's file and the user's may set an option, in words."""
    rule, announced = option.rule, "; announced" if option.rule.announced else ""
    if rule.source is Source.PROJECT:
        return f"yes{announced}", f"yes{announced}"
    fitting = [f"`{value!r}`".replace("'", '"').lower() for value in rule.harmless if type(value) is option.kind]
    return f"{fitting[0]} alone{announced}" if fitting and option.long != "yes" else "no", f"yes{announced}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
