"""Run repro-kit's commands with one interpreter, and say of each whether it did its work.

A cell is text: ✓ (did its work), ◐ WHY (in part), ✗ WHY (it failed), or — WHY (there was nothing to do).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compatibility.environment import ROOT, Environment
from compatibility.examples import EXAMPLES, EXPECTED

STAGES = ("observe", "capture", "minify", "ablate", "bundle")
COMMANDS = (*STAGES, "verify", "explain")

_SECONDS = 3600
_PLAIN_SECONDS = 300  # of an example by itself
_PASSES, _NOT_COMPILER = 3, 4  # exit codes of `collect`
#: How the reason of a test begins that asks for what a torch lacks.
_LACKING = ("this torch ", "No module named 'torch")
_LONGEST = 200  # characters of a reason


def try_example(name: str, environment: Environment, directory: Path) -> dict[str, str]:
    """The cells of an example by command, and ``result``: whether the example fails with this torch.

    A case that an earlier run left in `directory` is used again: `collect` resumes.
    """
    case = directory / f"{Path(name).stem}.repro"
    expected = EXPECTED[name]
    options = ["--python", environment.interpreter, "--output", str(case), *expected.get("options", ())]
    code, collected = _repro_kit(["collect", "--json", "--yes", "--include-source", *options, f"examples/{name}"])
    if code == _PASSES:
        return {"result": "passes"}
    if code == _NOT_COMPILER:
        return {"result": "fails without torch.compile too"}
    cells = {"result": "fails", **_stages(code, collected, expected)}
    bundle = collected.get("bundle")
    if bundle:
        code, verified = _repro_kit(["verify", "--json", "--yes", "--python", environment.interpreter, bundle])
        cells["verify"] = "✓" if code == 0 else f"✗ {_reason(verified, code)}"
    code, explained = _repro_kit(["explain", "--json", str(case)])
    cells["explain"] = "✓" if code == 0 and explained.get("sentences") else f"✗ {_reason(explained, code)}"
    return cells


def plain_result(name: str, environment: Environment) -> str:
    """Whether the example, run by itself, fails with this torch in its own way: with the text that it `shows`."""
    expected = EXPECTED[name]
    command = [environment.interpreter, str(EXAMPLES / name)]
    try:
        done = _run(command, {}, expected.get("plain_seconds", _PLAIN_SECONDS))
    except subprocess.TimeoutExpired:
        return "fails" if "shows" not in expected else "does not end"
    if done.returncode == 0:
        return "passes"
    output = done.stdout + done.stderr
    if expected.get("shows", output) in output:
        return "fails"
    return f"fails otherwise: {_short((output.strip().splitlines() or ['no output'])[-1])}"


def _stages(code: int, collected: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, str]:
    stages = {stage["name"]: stage for stage in collected.get("stages", ())}
    if not stages:
        return {"observe": f"✗ {_reason(collected, code)}"}
    cells = {}
    for name in STAGES:
        stage = stages.get(name, {"status": "skipped", "note": ""})
        wrong = _promise_broken(name, collected, expected)
        if stage["status"] == "skipped":
            cells[name] = f"— {stage['note']}".strip()
        elif stage["status"] != "done":
            cells[name] = f"✗ {_short(stage['note'])}"
        else:
            cells[name] = f"◐ {wrong}" if wrong else "✓"
    return cells


def _promise_broken(stage: str, collected: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """What examples/expected.toml promises of a stage and the result lacks; empty when nothing is missing."""
    if stage == "observe" and collected["failure"] != expected["failure"]:
        return f"the failure is {collected['failure']}, not {expected['failure']}"
    if stage == "ablate" and collected["layer"] != expected["layer"]:
        return f"names the layer {collected['layer']}, not {expected['layer']}"
    most = expected.get("most_statements")
    if stage == "minify" and most and collected["statements"] and collected["statements"] > most:
        return f"leaves {collected['statements']} statements, not {most}"
    if stage == "bundle" and (collected["level"] != expected["level"] or not collected["verified"]):
        return f"{collected['level']}-level, {'verified' if collected['verified'] else 'not verified'}"
    return ""


def try_tests(environment: Environment, directory: Path) -> str:
    """The cell of the probe's tests that ask torch. The environment must be able to run them."""
    command = [environment.interpreter, "-m", "pytest", "tests/probe", "-m", "torch", "-p", "no:cacheprovider", "-rfEs"]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "helpers")])
    done = _run([*command, "--basetemp", str(directory / "tests")], {"PYTHONPATH": path})
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    failed = [line.rpartition("/")[2] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode != 0:
        return f"✗ {_short('; '.join([*failed, last]))}"
    skipped = [line.rpartition(": ")[2] for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    untested = [reason for reason in dict.fromkeys(skipped) if not reason.startswith(_LACKING)]
    return f"◐ {_short('; '.join([last, *untested]))}" if untested else f"✓ {last}"


def _repro_kit(arguments: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of a command of repro-kit; {} where it printed none."""
    done = _run([sys.executable, "-m", "repro_kit", *arguments], {"PYTHONPATH": str(ROOT / "src")})
    try:
        printed = json.loads(done.stdout)
    except ValueError:
        printed = {"error": done.stderr.strip().rpartition("\n")[2]}
    return done.returncode, printed if isinstance(printed, dict) else {"results": printed}


def _run(
    command: Sequence[str], variables: Mapping[str, str], seconds: float = _SECONDS
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def _reason(printed: Mapping[str, Any], code: int) -> str:
    return _short(str(printed.get("error") or printed.get("reason") or f"exit code {code}"))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
