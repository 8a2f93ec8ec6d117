"""Ctrl-C and SIGTERM in a stage: recorded, told with the command that goes on, exit 130; the case goes on later."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case

pytestmark = pytest.mark.torch

_DRIVER = """
import dataclasses, sys
sys.path.insert(0, {place!r})
from repro_kit.pipeline.run import REGISTRY
for name in REGISTRY:
    module = "slow" if name == {slow!r} else "quick"
    REGISTRY[name] = dataclasses.replace(REGISTRY[name], module=module)
from repro_kit.cli.main import main
main()
"""
_SLOW = """
import subprocess, sys, time

def run(case, options, ui):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        print("ready", child.pid, file=sys.stderr, flush=True)
        time.sleep(600)
    finally:
        child.kill()
        child.wait()
"""


def start(work: Path, slow: str, *args: str) -> subprocess.Popen:
    place = work / "modules"
    place.mkdir(exist_ok=True)
    (place / "slow.py").write_text(_SLOW)
    (place / "quick.py").write_text("def run(case, options, ui):\n    ui.done('quick')\n")
    (place / "driver.py").write_text(_DRIVER.format(place=str(place), slow=slow))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, str(place / "driver.py"), *args],
        cwd=work,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # pytest's own runner may have it ignored, which children would inherit
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def interrupt(process: subprocess.Popen, number: signal.Signals) -> tuple[str, str]:
    for line in process.stderr:
        if line.startswith("ready"):
            break
    process.send_signal(number)
    return process.communicate()


@pytest.mark.parametrize("stage", ["observe", "ablate", "minify"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_interrupted_stage_is_recorded(work, stage, number):
    process = start(work, stage, "collect", "--until", stage, "--fresh", "train.py", "a b")
    out, err = interrupt(process, number)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert f"To resume: repro-kit collect --until {stage} train.py 'a b'" in err
    case = Case.open(work / "train.repro")
    assert case.stage(stage).status == "interrupted"
    going_on = start(work, "none", "collect", "--until", stage, "train.py", "a b")
    out, _ = going_on.communicate()
    assert going_on.returncode == 0 and Case.open(work / "train.repro").stage(stage).status == "done"
    assert ("done before" in out) == (stage != "observe")


def test_interrupted_json(work):
    process = start(work, "observe", "collect", "--json", "train.py")
    out, _ = interrupt(process, signal.SIGINT)
    data = json.loads(out)
    assert (data["exit"], data["error"], data["stages"][0]["status"]) == (130, "interrupted", "interrupted")


@pytest.mark.slow
def test_a_stage_that_is_killed_is_not_done(work):
    start(work, "none", "collect", "--until", "minify", "train.py").communicate()
    process = start(work, "minify", "minify", "train.repro")
    ready = next(line for line in process.stderr if line.startswith("ready"))
    process.kill()
    os.kill(int(ready.split()[1]), signal.SIGKILL)
    process.communicate()
    assert Case.open(work / "train.repro").stage("minify").status == "interrupted"
    out, _ = start(work, "none", "collect", "--until", "minify", "train.py").communicate()
    assert out.count("done before") == 2
    assert Case.open(work / "train.repro").stage("minify").status == "done"


def test_a_case_that_was_killed_while_it_was_made_is_made_anew(work):
    (work / "train.repro").mkdir()
    (work / "train.repro" / ".case.toml.k2x9").write_text("sch")
    process = start(work, "none", "collect", "--until", "observe", "train.py")
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert Case.open(work / "train.repro").stage("observe").status == "done"


def test_ctrl_c_while_it_is_imported_is_silence(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    started = subprocess.Popen(
        [sys.executable, "-m", "repro_kit", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with started:
        assert started.stdout is not None and started.stdout.readline() == "ready\n"
        started.send_signal(signal.SIGINT)
        _, said = started.communicate()
    assert (started.returncode, said) == (-signal.SIGINT, "")
