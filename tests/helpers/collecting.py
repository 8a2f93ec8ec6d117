"""Run `repro-kit collect` in this process: the stages of all cases share the zygote of the tests (`one_zygote`)."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from repro_kit.case.case import Case
from repro_kit.cli.main import cli


def collected(place: Path, script: str, *options: str, subject: str = "user.py") -> tuple[dict[str, Any], Case]:
    """What `collect --json` prints for ``place/user.py``, and its case. `subject` is what is collected."""
    (place / "user.py").write_text(script, encoding="utf-8")
    words = ["collect", "--yes", "--trace", "no", "--json", "--python", sys.executable, *options, subject]
    with contextlib.chdir(place):
        ran = CliRunner().invoke(cli, words, prog_name="repro-kit")
    assert ran.stdout.startswith("{"), ran.output
    summary: dict[str, Any] = json.loads(ran.stdout)
    assert summary["exit"] == ran.exit_code
    return summary, Case.open(place / "user.repro")
