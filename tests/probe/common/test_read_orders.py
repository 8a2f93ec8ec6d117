"""The probe follows the launcher of this very run, and no variable that anybody else has set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import mock_open, patch

import pytest

from repro_kit.runner.subject_start import probe_environment
from repro_kit.runner.supervised import PROBE, launch
from repro_kit.runner.write_orders import in_force
from repro_probe.common.run_files import FindingsDirectory, as_json
from repro_probe.entry import boot
from root import ROOT
from samples import strangers


def follows(env: Mapping[str, str], *words: str) -> bool:
    """Whether a Python that is started with `env` starts the probe."""
    done = subprocess.run(
        [sys.executable, *(words or ("-c", strangers.SAYS))], env=env, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()[-1] == "True"


@pytest.fixture
def ordered(tmp_path: Path) -> dict[str, str]:
    """The environment of a run that this process has just ordered."""
    return probe_environment(os.environ, "override", tmp_path / "probe", 60, {"setup": "raise SystemExit('ran')"})


def test_the_launcher_s_orders_are_followed_by_children_too(ordered):
    assert follows(ordered)
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {strangers.SAYS!r}])"
    assert follows(ordered, "-c", child)
    spawn = (
        "import multiprocessing, sys\n"
        f"def say(): exec({strangers.SAYS!r})\n"
        "if __name__ == '__main__':\n"
        "    one = multiprocessing.get_context('spawn').Process(target=say); one.start(); one.join()\n"
    )
    place = Path(ordered["REPRO_PROBE_ORDERS"]).parent / "spawn.py"
    place.write_text(spawn)
    assert follows(ordered, str(place))


def test_the_file_is_private_and_holds_the_setup_that_no_variable_has(ordered):
    path = Path(ordered["REPRO_PROBE_ORDERS"])
    assert path.stat().st_mode & 0o777 == 0o600 and "SystemExit" in path.read_text()
    assert not any("SystemExit" in value for value in ordered.values())


def test_they_end_with_the_run(tmp_path):
    env = probe_environment(os.environ, "observe", tmp_path / "probe", 60)
    words = [sys.executable, "-c", strangers.SAYS]
    out, err = tmp_path / "out.txt", tmp_path / "err.txt"
    assert launch(words, cwd=tmp_path, env=env, timeout=60, stdout=out, stderr=err).ok
    assert out.read_text() == "True\n"
    assert not Path(env["REPRO_PROBE_ORDERS"]).exists()
    assert not follows(env)


def test_they_end_with_the_launcher_however_it_ends(tmp_path):
    code = (
        "import json, os\nfrom pathlib import Path\nfrom repro_kit.runner.subject_start import probe_environment\n"
        f"env = probe_environment(os.environ, 'observe', Path({str(tmp_path / 'probe')!r}), 600)\n"
        "print(json.dumps(env), flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    env = json.loads(done.stdout)
    assert Path(env["REPRO_PROBE_ORDERS"]).exists()
    assert not follows(env)


@pytest.mark.parametrize("change", strangers.orders())
def test_anything_else_has_no_effect(ordered, change):
    assert not follows({**ordered, **change(ordered, Path(ordered["REPRO_PROBE_ORDERS"]))})


def test_variables_of_their_own_have_no_effect_and_cost_no_import(tmp_path):
    options = json.dumps({"setup": f"open({str(tmp_path / 'ran')!r}, 'w')"})
    stranger = {
        "REPRO_PROBE_MODE": "override",
        "REPRO_PROBE_DIR": str(tmp_path / "probe"),
        "REPRO_PROBE_OPTIONS": options,
    }
    env = {**os.environ, **stranger, "PYTHONPATH": str(PROBE)}
    code = "import sys; print([name for name in sys.modules if name.startswith('repro_')])"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
    assert not list(tmp_path.iterdir())


def test_withdrawn_orders_leave_no_file_and_others_stay(tmp_path):
    first = probe_environment(os.environ, "observe", tmp_path / "a", 60)
    second = probe_environment(os.environ, "observe", tmp_path / "b", 60)
    with in_force(first):
        assert follows(first)
    assert not follows(first) and follows(second)
    assert list((tmp_path / "a").iterdir()) == []


def test_variables_of_an_outer_run_are_not_handed_on(tmp_path, ordered):
    inner = probe_environment(ordered, "observe", tmp_path / "inner", 60)
    assert Path(inner["REPRO_PROBE_ORDERS"]).parent == tmp_path / "inner"


@pytest.mark.parametrize("value", ["", "0", "false", "off", "no", "OFF", " 0 "])
def test_repro_kit_off_imports_nothing(value):
    text = (ROOT / "src" / "repro_kit.pth").read_text()
    code = f"import sys; exec({text!r}); print([name for name in sys.modules if name.startswith('repro_')])"
    env = {**os.environ, "REPRO_KIT": value}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_an_unknown_value_of_repro_kit_is_told_once(tmp_path):
    source = str(ROOT / "src")
    start = "import repro_kit.watching, os, sys; repro_kit.watching.start(os.environ['REPRO_KIT'])"
    code = f"{start}; import subprocess; subprocess.run([sys.executable, '-c', {start!r}])"
    env = {**os.environ, "REPRO_KIT": "banana", "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stderr.count("nothing is watched") == 1 and "'banana'" in done.stderr


def test_findings_are_written_while_the_program_has_other_functions_in_their_place(tmp_path: Path) -> None:
    """As under `mock_open` in a test: what was compiled there was compiled."""
    findings = FindingsDirectory(str(tmp_path), {})
    others = patch("json.dumps", return_value="{}"), patch("os.replace", side_effect=AssertionError)
    with patch("builtins.open", mock_open(read_data="3.0")), others[0], others[1]:
        findings.append("events", as_json({"event": "compile-call"}))
        findings.write("hello", {"pid": 1})
        boot.complain(findings)
    texts = sorted(path.read_text() for path in tmp_path.iterdir())
    assert texts == ["NoneType: None\n\n", '{"event": "compile-call"}\n', '{"pid": 1}']
