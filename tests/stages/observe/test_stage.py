"""Observe real scripts that raise nothing: the symptom, or the oracle, that the user gives says whether they fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from repro_kit.cli.main import cli
from repro_kit.errors import Exit

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("scripts_in_forks")]

#: `scaled` is wrong when it is compiled, and compiled again for each of three sizes.
SCRIPT = """
import torch

def wrong(gm, example_inputs):
    return lambda *arguments: [2 * result for result in gm(*arguments)]

@torch.compile(backend=wrong, dynamic=False)
def scaled(x):
    return x * 3

print("sum", sum(float(scaled(torch.ones(size)).sum()) for size in (2, 3, 4)))
"""
RIGHT = "sum 27.0"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT, encoding="utf-8")


def observe(*words: str) -> Result:
    """What comes of `repro-kit observe` on the script; its case is `train.repro`."""
    return CliRunner().invoke(cli, ["observe", "--python", sys.executable, *words, "train.py"])


def observed() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path("train.repro/observe/run.json").read_text())
    return data


@pytest.mark.parametrize(("check", "kind"), [("accuracy", "accuracy"), ("recompiles>1", "recompiles")])
def test_a_symptom_that_is_there_is_the_failure(check: str, kind: str) -> None:
    ran = observe("--check", check)
    assert ran.exit_code == Exit.OK, ran.output
    assert [failure["signature"]["kind"] for failure in observed()["failures"]] == [kind]
    assert observed()["eager"] == "pass"
    assert json.loads(Path("train.repro/observe/symptom.json").read_text())["kind"] == kind


def test_a_symptom_that_is_not_there_is_told_with_what_was_measured() -> None:
    ran = observe("--check", "recompiles>2")
    assert ran.exit_code == Exit.NOTHING_FAILED, ran.output
    assert "recompiles>2 was not seen: 2 recompiles" in " ".join(ran.output.split())
    assert "failures" not in observed()


def test_an_oracle_judges_with_and_without_the_compiler() -> None:
    oracle = f"{sys.executable} train.py | grep '{RIGHT}' || {{ echo a wrong sum; exit 1; }}"
    ran = observe("--oracle", oracle, "--oracle-matches", "wrong sum")
    assert ran.exit_code == Exit.OK, ran.output
    assert [failure["signature"]["kind"] for failure in observed()["failures"]] == ["oracle"]
    assert observed()["eager"] == "pass"


def test_what_an_oracle_calls_bad_without_the_compiler_too_is_the_users() -> None:
    ran = observe("--oracle", f"{sys.executable} train.py | grep 'sum -1'")
    assert ran.exit_code == Exit.USER_BUG, ran.output


def test_a_program_that_hangs_before_its_first_compile_is_run_in_eager_at_once() -> None:
    Path("train.py").write_text(SCRIPT.replace("print(", "import time\n\nwhile True:\n    time.sleep(1)\n\nprint("))
    ran = observe("--timeout", "10")
    assert ran.exit_code == Exit.USER_BUG, ran.output
    assert observed()["eager"] == "fail"
    assert 'train.py", line 14, in <module>' in ran.output
