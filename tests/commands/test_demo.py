"""The script to try repro-kit on."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from repro_kit.cli.utilities import SCRIPTS, fitting, write_demo
from repro_kit.errors import ReproKitError
from root import ROOT


def test_the_scripts_fail_where_the_examples_say() -> None:
    expected = tomllib.loads((ROOT / "examples" / "expected.toml").read_text())
    for name, fails_on in SCRIPTS.items():
        stated = expected[name].get("fails_on", "")
        assert not stated or SpecifierSet(stated) == SpecifierSet(fails_on)


@pytest.mark.parametrize(
    ("torch", "name"),
    [
        ("2.13.0+cpu", "dynamic_shape_error.py"),
        ("2.14.0.dev20260101+cpu", "inductor_accuracy.py"),
        ("2.15.0", "inductor_accuracy.py"),
        ("my build", "inductor_accuracy.py"),
    ],
)
def test_the_script_fits_the_torch(torch: str, name: str) -> None:
    assert fitting(torch) == name


def test_the_script_is_written_once_and_nothing_is_overwritten(tmp_path: Path) -> None:
    path = write_demo("inductor_accuracy.py", tmp_path)
    assert path.read_bytes() == (ROOT / "examples" / "inductor_accuracy.py").read_bytes()
    assert write_demo("inductor_accuracy.py", tmp_path) == path
    path.write_text("mine")
    with pytest.raises(ReproKitError, match="is another file here"):
        write_demo("inductor_accuracy.py", tmp_path)
    assert path.read_text() == "mine"


def test_the_wheel_holds_the_scripts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {f"examples/{name}" for name in SCRIPTS} <= {*included}
