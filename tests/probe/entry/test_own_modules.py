"""The modules of a run that count as the user's."""

import os
import sys
from pathlib import Path

import pytest

from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.subject_start import probe_environment
from repro_kit.runner.supervised import launch

pytestmark = [pytest.mark.torch]


def test_repro_kits_own_package_is_none_of_the_users_wherever_it_lies(tmp_path: Path) -> None:
    package = tmp_path / "src" / "repro_kit"  # as an editable install has it
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import repro_kit.pytest_plugin\n")
    (package / "pytest_plugin.py").write_text("")
    (tmp_path / "helper.py").write_text("")
    script = tmp_path / "train.py"
    script.write_text("import sys\nsys.path.insert(0, 'src')\nimport torch, repro_kit, helper\n")
    env = probe_environment({**os.environ, "PYTHONPATH": ""}, "observe", tmp_path / "probe", 300)
    out = tmp_path / "out.txt"
    launch([sys.executable, str(script)], cwd=tmp_path, env=env, timeout=300, stdout=out, stderr=out)
    modules = read_findings(tmp_path / "probe").modules
    assert {Path(path).name for path in modules} - {script.name} == {"helper.py"}, out.read_text()


def test_a_command_beside_the_interpreter_is_none_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("python", "tool"):  # the interpreter of an environment that does not say where it begins
        (tmp_path / "bin" / name).touch()
    (tmp_path / "bin" / "tool").write_text("import sys, torch\nsys.executable = sys.argv[1]\n")
    env = probe_environment(os.environ, "observe", tmp_path / "probe", 300)
    out = tmp_path / "out.txt"
    command = [sys.executable, str(tmp_path / "bin" / "tool"), str(tmp_path / "bin" / "python")]
    launch(command, cwd=tmp_path, env=env, timeout=300, stdout=out, stderr=out)
    assert read_findings(tmp_path / "probe").modules == (), out.read_text()
