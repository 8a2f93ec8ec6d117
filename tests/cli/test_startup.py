"""Starting: what is imported, the help, the version, completion."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import repro_kit
from repro_kit import __version__
from repro_kit.case.case import STAGES
from repro_kit.options import commands
from root import OF_EXTRAS

_HEAVY = ("torch", "rich", "git", "detect_secrets", "jinja2", "cattrs", "psutil")


def imported_by(code: str) -> set[str]:
    text = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("args", [["--help"], ["collect", "--help"], ["--version"], ["completion", "bash"]])
def test_help_is_light(args):
    found = imported_by(f"from repro_kit.cli.main import main; main({args!r})")
    assert "repro_kit.cli.main" in found and not found & set(_HEAVY)


def test_no_module_of_ours_imports_torch():
    root = Path(repro_kit.__file__).parent
    names = [
        ".".join(("repro_kit", *path.relative_to(root).with_suffix("").parts))
        for path in sorted(root.rglob("*.py"))
        if "probe" not in path.parts and path.stem not in ("__init__", "__main__")
    ]
    names = [name for name in names if name not in OF_EXTRAS]
    found = imported_by(f"[__import__(name) for name in {names!r}]")
    assert "repro_kit.stages.observe.stage" in found and "torch" not in found


def test_stage_names_are_those_of_the_case():
    assert commands.STAGES == STAGES


def test_version(repro_kit):
    assert repro_kit("--version").output == f"repro-kit {__version__}\n"


def test_module_runs_as_well():
    done = subprocess.run([sys.executable, "-m", "repro_kit", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"repro-kit {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(repro_kit, shell):
    result = repro_kit("completion", shell)
    assert result.exit_code == 0 and "_REPRO_KIT_COMPLETE" in result.output


def test_completion_of_bash_completes():
    env = {"_REPRO_KIT_COMPLETE": "bash_complete", "COMP_WORDS": "repro-kit collect --de", "COMP_CWORD": "2"}
    code = "from repro_kit.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env | {"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True
    )
    assert "plain,--debug-artifacts" in done.stdout and "plain,--deadline" in done.stdout


def test_script_in_place_of_a_command(repro_kit):
    result = repro_kit("train.py")
    assert result.exit_code == 2 and "repro-kit collect train.py" in result.stderr
