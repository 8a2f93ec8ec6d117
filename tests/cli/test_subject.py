"""What the user gave, and the one sentence for each way in which it cannot be worked on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.builds.interpreters import default_python, find_python
from repro_kit.errors import Exit, ReproKitError
from repro_kit.subject.subject_check import recognise

pytestmark = pytest.mark.torch


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def refused(form, argv, cwd, python=sys.executable, env=os.environ) -> str:
    with pytest.raises(ReproKitError) as caught:
        recognise(form, argv, cwd, python, env)
    assert caught.value.exit_code == Exit.USAGE
    return str(caught.value)


def test_script_module_and_command(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("raise RuntimeError('not imported by the check')\n")
    (tmp_path / "pkg" / "train.py").touch()
    script = recognise("script", ["train.py", "-x"], tmp_path, sys.executable, os.environ)
    assert (script.argv, script.cwd, script.python) == (("train.py", "-x"), str(tmp_path), sys.executable)
    assert recognise("module", ["pkg.train", "y"], tmp_path, sys.executable, os.environ).form == "module"
    assert recognise("command", [sys.executable, "-V"], tmp_path, None, os.environ).python == sys.executable


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.txt", b"x = 1\n", "not a Python file"),
        ("a.ipynb", b"{}", "jupyter nbconvert --to script a.ipynb"),
        ("a.py", b"\x7fELF\x00\x01", "not a Python file"),
        ("a", b"#!/bin/bash\nls\n\0", "not a Python file"),
        ("a.zip", b"PK", "repro-kit verify a.zip"),
        ("a.py", b"print('x'\n", "SyntaxError"),
        ("a.py", b"x = '\xff\xfe'\n", "SyntaxError"),
    ],
)
def test_files_that_are_no_scripts(tmp_path, name, content, part):
    (tmp_path / name).write_bytes(content)
    assert part in refused("script", [name], tmp_path)


def test_nothing_there(tmp_path):
    assert "x.py does not exist" in refused("script", ["x.py"], tmp_path)
    assert "is a directory" in refused("script", ["."], tmp_path)
    assert "no module nope.mod" in refused("module", ["nope.mod"], tmp_path)
    assert "no module os.path.x" in refused("module", ["os.path.x"], tmp_path)
    assert "nope is not a command" in refused("command", ["nope"], tmp_path)
    for form in ("script", "module", "command"):
        assert all("give a SCRIPT" in refused(form, argv, tmp_path) for argv in ([], [""], ["", "x"]))


def test_what_the_shell_has_opened_is_no_argument(tmp_path):
    (tmp_path / "run.py").write_text("import torch\n")
    for word in ("/dev/fd/63", "--config=/dev/fd/3", "/proc/self/fd/5"):
        assert "open in this shell alone" in refused("script", ["run.py", word], tmp_path)
    recognise("script", ["run.py", "/dev/fd/x", "/data/dev/fd/3"], tmp_path, sys.executable, os.environ)


def test_script_without_suffix_is_fine(tmp_path):
    (tmp_path / "run").write_text("import torch\n")
    assert recognise("script", ["run"], tmp_path, sys.executable, os.environ).argv == ("run",)


def test_interpreters_that_do_not_serve(tmp_path):
    (tmp_path / "x.py").touch()
    (tmp_path / "plain").touch()
    without = executable(tmp_path / "without", f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    mute = executable(tmp_path / "mute", "#!/bin/sh\necho broken >&2\nexit 3\n")
    assert "has no torch" in refused("script", ["x.py"], tmp_path, str(without))
    assert "does not work as a Python interpreter (broken)" in refused("script", ["x.py"], tmp_path, str(mute))
    assert "does not exist" in refused("script", ["x.py"], tmp_path, "/nope/python")
    assert "is not executable" in refused("script", ["x.py"], tmp_path, "./plain")


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (
            "pyenv: python3: command not found\n\nThe `python3' command exists in:\n  3.11.1",
            "pyenv: python3: command not found",
        ),
        ("Traceback (most recent call last):\n  File x\nImportError: no json", "ImportError: no json"),
    ],
)
def test_a_shim_says_its_reason_first_and_a_traceback_last(output, shown, tmp_path):
    (tmp_path / "x.py").touch()
    (tmp_path / "output").write_text(output)
    shim = executable(tmp_path / "shim", f'#!/bin/sh\ncat "{tmp_path}/output" >&2\nexit 127\n')
    assert f"({shown})" in refused("script", ["x.py"], tmp_path, str(shim))


def test_as_a_module_it_imports_nothing_of_the_current_directory(tmp_path):
    for name in ("random", "json", "click"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('mine')\n")
    ran = subprocess.run(
        [sys.executable, "-m", "repro_kit", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0 and ran.stdout.startswith("repro-kit "), ran.stderr


def test_an_old_python_without_torch_is_told_as_old(tmp_path):
    (tmp_path / "x.py").touch()
    python = executable(tmp_path / "old", "#!/bin/sh\necho '{\"python\": [3, 8]}'\n")
    assert "is Python 3.8, and 3.9 is the oldest" in refused("script", ["x.py"], tmp_path, str(python))


def test_files_called_like_modules_of_the_standard_library_break_no_check(tmp_path):
    for name in ("json", "random", "tokenize", "traceback", "importlib", "x"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('mine')\n")
    assert recognise("script", ["x.py"], tmp_path, sys.executable, os.environ).argv == ("x.py",)


def test_old_versions(tmp_path):
    (tmp_path / "x.py").touch()
    answer = '{{"python": [3, {minor}], "torch": "{torch}", "module": true, "syntax": null}}'
    for minor, torch, part in ((8, "2.1.0", "3.9 is the oldest"), (10, "1.13.1+cpu", "no torch.compile")):
        python = executable(tmp_path / "old", f"#!/bin/sh\necho '{answer.format(minor=minor, torch=torch)}'\n")
        assert part in refused("script", ["x.py"], tmp_path, str(python))
    python = executable(tmp_path / "own", f"#!/bin/sh\necho '{answer.format(minor=10, torch='my build')}'\n")
    assert recognise("script", ["x.py"], tmp_path, str(python), os.environ).python == str(python)


def test_default_interpreter(tmp_path, monkeypatch):
    python = executable(tmp_path / "venv/bin/python", "#!/bin/sh\n")
    other = executable(tmp_path / "bin/python3", "#!/bin/sh\n")
    path = str(other.parent)
    assert default_python({"VIRTUAL_ENV": str(tmp_path / "venv"), "PATH": path}) == str(python)
    assert default_python({"CONDA_PREFIX": str(tmp_path / "venv"), "PATH": path}) == str(python)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name == "torch" else None)
    assert default_python({"VIRTUAL_ENV": str(tmp_path / "gone"), "PATH": path}) == sys.executable
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert default_python({"VIRTUAL_ENV": str(tmp_path / "gone"), "PATH": path}) == str(other)
    assert default_python({"PATH": str(tmp_path)}) == sys.executable
    assert find_python("venv", tmp_path, {}) == str(python)
    assert find_python("python3", tmp_path, {"PATH": path}) == str(other)


def test_interpreter_behind_a_command(tmp_path):
    python = executable(tmp_path / "bin/python3", "#!/bin/sh\n")
    executable(tmp_path / "bin/direct", f"#!{python}\n")
    executable(tmp_path / "bin/viaenv", "#!/usr/bin/env -S python3 -u\n")
    executable(tmp_path / "bin/shell", "#!/bin/sh\n")
    env = {"PATH": str(tmp_path / "bin"), "VIRTUAL_ENV": sys.prefix}
    for name in ("direct", "viaenv", "python3"):
        assert recognise("command", [name], tmp_path, None, env).python == str(python)
    assert recognise("command", ["shell"], tmp_path, None, env).python == default_python(env)
