"""Run commands of repro-kit in this process: all cases share the zygote of the tests (`one_zygote`)."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from repro_kit.case.case import Case
from repro_kit.cli.main import cli


def told(place: Path, command: str, *words: str) -> dict[str, Any]:
    """What `repro-kit COMMAND --json WORDS` prints in the directory `place`."""
    with contextlib.chdir(place):
        ran = CliRunner().invoke(cli, [command, "--json", *words], prog_name="repro-kit")
    assert ran.stdout.startswith("{"), ran.output
    summary: dict[str, Any] = json.loads(ran.stdout)
    assert summary["exit"] == ran.exit_code
    return summary


def collected(place: Path, script: str, *options: str, subject: str = "user.py") -> tuple[dict[str, Any], Case]:
    """What `collect` tells of the script ``place/user.py``, and the case. `subject`: what is collected, with its words.

    A script whose last word is "anew" starts anew, whatever the fixture `scripts_in_forks` does.
    """
    (place / "user.py").write_text(script, encoding="utf-8")
    words = ["--yes", "--trace", "no", "--python", sys.executable, *options, *subject.split()]
    return told(place, "collect", *words), Case.open(place / "user.repro")
