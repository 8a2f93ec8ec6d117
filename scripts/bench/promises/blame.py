"""Whom a failure is blamed on: what the script, the machine or a clock raised is never the compiler's."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from click.testing import CliRunner

from promises import Row
from repro_kit.cli.main import cli

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from samples.blamed_scripts import (
    LOST_VARIABLE,
    NOBODYS,
    OWN_BACKENDS,
    OWN_CHANGES,
    RIGHT_CHANGES,
    UNSEEN,
    WRONG_RESULTS,
)

_COLLECT = ("collect", "--yes", "--trace", "no", "--json")
#: How it ends where nobody is blamed: by the script's check, the machine, or a run in eager that fails as well.
_INNOCENT = ((1, "It cannot be told"), (125, "nothing can be said of the compiler"), (4, "is not to blame"))
_SMALL = {"every_other_run", "cleared_environment", "plain_check"}


def run(words: tuple[str, ...], source: str, directory: Path) -> tuple[int, str]:
    """The exit status of a command of repro-kit on a script, and all that it says."""
    directory.mkdir(parents=True)
    script = directory / "script.py"
    script.write_text(source, encoding="utf-8")
    with contextlib.chdir(directory):
        done = CliRunner().invoke(cli, [*words, "--python", sys.executable, str(script)], prog_name="repro-kit")
    return done.exit_code, done.output


def measure(size: str, scratch: Path) -> list[Row]:
    """Observe each script; the small size takes a few of every sort."""

    def row(
        promise: str,
        scripts: dict[str, str],
        ends: tuple[tuple[int, str], ...],
        command: tuple[str, ...] = ("observe",),
    ) -> Row:
        chosen = {name: text for name, text in scripts.items() if size == "full" or name in _SMALL}
        broken = []
        for name, source in chosen.items():
            status, output = run(command, source, scratch / name)
            if not any(status == code and words in output for code, words in ends):
                broken.append(f"{name}: exit {status}, {json.dumps(output[-300:])}")
        return Row(promise, len(chosen), len(chosen) - len(broken), broken=tuple(broken))

    return [
        row("nobody is blamed for what is not seen to be the compiler's", NOBODYS, _INNOCENT),
        row("a lost variable acquits nobody", LOST_VARIABLE, ((0, "compile-error"),)),
        *(
            [
                row("nobody is blamed where no compiled call differs", UNSEEN, _INNOCENT, ("capture",)),
                row("what a script changes in torch is the script's", OWN_CHANGES, ((0, '"layer": "user"'),), _COLLECT),
                row(
                    "a right change of torch acquits no Inductor",
                    RIGHT_CHANGES,
                    ((0, '"layer": "inductor"'),),
                    _COLLECT,
                ),
                row(
                    "a backend of the script's own is the script's",
                    OWN_BACKENDS,
                    ((0, '"layer": "backend"'),),
                    _COLLECT,
                ),
            ]
            if size == "full"
            else []
        ),
        row("a wrong result is still told as that", WRONG_RESULTS, ((0, "not yet known: whether it does so without"),)),
    ]
