"""Values of a script are written as Python that makes them again."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import repro_kit.probe

SCRIPT = """
import argparse, dataclasses, sys, types
from repro_probe.entry.record_expressions import ExpressionRecorder

@dataclasses.dataclass
class Settings:
    width: int
    layers: list

@dataclasses.dataclass
class Derived:
    width: int

    def __post_init__(self):
        self.double = 2 * self.width

def local():
    @dataclasses.dataclass
    class Inner:
        width: int
    return Inner(1)

recorder = ExpressionRecorder()
recorder.install()
values = [
    {"a": [1, 2.5, None], "b": (True,)},
    Settings(8, [Settings(2, [])]),
    argparse.Namespace(rate=0.5, name="run"),
    types.SimpleNamespace(width=3),
    Derived(1),
    local(),
    object(),
    [Settings, local],
    type(local()),
]
for number, value in enumerate(values):
    __value__(number, value)
recorder.write(sys.argv[1])
"""


def recorded(python: Path, script: str, tmp_path: Path) -> list[str | None]:
    file = tmp_path / "recorded.json"
    env = {**os.environ, "PYTHONPATH": str(next(iter(repro_kit.probe.__path__))), "TORCH_COMPILE_DISABLE": "1"}
    subprocess.run([python, "-c", script, str(file)], env=env, check=True)
    return list(json.loads(file.read_text())["values"].values())


#: A value of compiled code, and one of the code around it.
COMPILED = """
import sys, torch
from repro_probe.entry.record_expressions import ExpressionRecorder

recorder = ExpressionRecorder()
recorder.install()

@torch.compile
def double(x):
    return __value__(0, x + x)

__value__(1, double(torch.randn(64)))
recorder.write(sys.argv[1])
"""


@pytest.mark.torch
@pytest.mark.slow
def test_compiled_code_is_given_no_random_numbers(python_in_forks: Path, tmp_path: Path) -> None:
    assert recorded(python_in_forks, COMPILED, tmp_path) == ["torch.ones((64,))", "torch.randn((64,))"]


@pytest.mark.torch
@pytest.mark.slow
def test_plain_data_and_dataclasses_are_written(python_in_forks: Path, tmp_path: Path) -> None:
    assert recorded(python_in_forks, SCRIPT, tmp_path) == [
        "{'a': [1, 2.5, None], 'b': (True,)}",
        "Settings(width=8, layers=[Settings(width=2, layers=[])])",
        "__import__('argparse').Namespace(rate=0.5, name='run')",
        "__import__('types').SimpleNamespace(width=3)",
        None,  # its constructor does not take all attributes
        None,  # the script has no name for its class
        None,
        "[Settings, local]",
        None,
    ]
