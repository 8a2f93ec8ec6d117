"""The `repro.py` of a script that shows nothing itself compares each compiled call with the same call in eager."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.check_program import read_run
from repro_kit.bundle.repro.script_repro import render_script
from repro_kit.bundle.repro.source_files import PLACE, find_sources
from repro_kit.case.case import Subject
from repro_kit.case.stage_results import Environment
from repro_kit.failure.failure import Difference, ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Strength, signature_of

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ENV = Environment(python="3.11.7", executable="/usr/bin/python3", platform="Linux", torch="2.13.0")
SCRIPT = """
import torch

class Counter:
    steps, order = 0, dict(a=1, b=2)
    def __enter__(self):
        if not {inside} or not torch.compiler.is_compiling():
            Counter.steps += {steps}
            Counter.order["a"] = Counter.order.pop("a")
    def __exit__(self, *error):
        return False

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
    def forward(self, x):
        with Counter():
            return torch.nn.functional.dropout(self.linear(x)).relu()

def chosen(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

def step(x, limit):
    if x.sum() > limit and not ({raises} and torch.compiler.is_compiling()):
        raise ValueError("too much")
    return x * 2

def scaled(gm, inputs):
    def run(*args):
        return [out * 1.5 if out.is_floating_point() else out for out in gm(*args)]
    return run

net = torch.compile(Net(), backend={backend})
for size in (2, 3):
    net(torch.ones(size, 3)).sum().backward()
torch.compile(chosen, backend="eager", fullgraph=True)(torch.ones(3))
torch.compile(step, backend="eager")(torch.ones(4), {limit})
"""
EXPORTS = """
import torch

class Mean(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.zeros(()))
        self.seen = 0
    def forward(self, x):
        self.steps.add_(1)
        self.seen += 1  # an export keeps the first number
        self.mean = self.mean + x.mean(0)
        return torch.nn.functional.dropout(x - self.mean, training=False) * self.seen

x = torch.randn(3, 4)
module = torch.export.export(Mean(), (x,), strict={strict}).module()
for _ in range(2):
    module(x)
"""
RIGHT = {"inside": False, "steps": 1, "raises": False, "backend": "'aot_eager'", "limit": 9}


def _repro(tmp_path: Path, failure: Failure, text: str = SCRIPT, **changed: object) -> Path:
    script = tmp_path / PLACE / "train.py"
    script.parent.mkdir(parents=True)
    script.write_text(text.format(**{**RIGHT, **changed}))
    subject = Subject("script", ("train.py",), str(script.parent), sys.executable)
    facts = Facts(signature_of(failure), failure, ENV)
    repro = tmp_path / "repro.py"
    repro.write_text(render_script(subject, find_sources(subject, []), facts, why="", limit=100, traced=False))
    return repro


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(python_in_forks: Path) -> Run:
    """Run a `repro.py` with more variables: its exit status, and what it prints."""

    def ran(repro: Path, **variables: str) -> tuple[int, str]:
        words, env = [str(python_in_forks), str(repro)], {**os.environ, **variables}
        ended = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout + ended.stderr

    return ran


WRONG = Failure(Kind.ACCURACY, difference=Difference("value", "output 0", max_rel=0.5))
LOST_STATE = Failure(Kind.ACCURACY, difference=Difference("state", "Counter.steps after call 1"))
LOST_EXCEPTION = Failure(Kind.VALIDATION, exceptions=(ExceptionLink("ValueError", "too much"),))


@pytest.mark.parametrize(
    ("failure", "changed", "words"),
    [
        (
            WRONG,
            {"backend": "scaled"},
            "FAIL accuracy: call 1 of compiled functions, Net: result values: Tensor-likes are",
        ),
        (LOST_STATE, {"inside": True}, "Net, leaves another Python state than in eager: "),
        (LOST_STATE, {"inside": True, "steps": 0}, "Counter order has other parts than in eager: names ['a', 'b']"),
        (LOST_EXCEPTION, {"raises": True, "limit": 3}, "FAIL validation: the compiled graph returns, eager raises"),
    ],
)
def test_it_fails_with_the_compiler_and_passes_without(
    run: Run, tmp_path: Path, failure: Failure, changed: dict[str, object], words: str
) -> None:
    repro = _repro(tmp_path, failure, **changed)
    status, output = run(repro)
    assert status == 1 and words in output, output
    assert output.count("FAIL ") == 1
    found = read_run(status, output, "").failure
    assert found is not None
    assert signature_of(failure).matches(signature_of(found), Strength.REBASED)
    if (
        failure is not LOST_STATE
    ):  # a wrong result and a lost exception, each once: without the compiler nothing differs
        status, output = run(repro, TORCH_COMPILE_DISABLE="1")
        assert status == 0 and "PASS" in output, output


LEFT = """
import random, torch

def step(x):
    y = x + 1
    if torch.compiler.is_compiling():
        {compiled}
    {eager}
    return y, y, {{1, 2}}, torch.rand(1).shape

torch.compile(step, backend="eager")(torch.ones(3))
"""


@pytest.mark.parametrize(
    ("kind", "eager", "compiled", "words"),
    [
        ("alias", "", "return y, y.clone(), {{1, 2}}, torch.rand(1).shape", "[0, 1, 2], in eager [0, 1, 1]"),
        ("random", "random.random()", "return y, y, {{1, 2}}, y.shape", "['as before', "),
        ("value", "", "return y, y, {{1, 3}}, torch.rand(1).shape", "result 2 1: Scalars are not equal! '3'"),
    ],
)
def test_what_is_no_value_is_compared_where_it_differed(
    run: Run, tmp_path: Path, kind: str, eager: str, compiled: str, words: str
) -> None:
    failure = Failure(Kind.ACCURACY, difference=Difference(kind, "output 1"))
    given = {"eager": eager, "compiled": compiled.format()}
    status, output = run(_repro(tmp_path, failure, LEFT, **given))
    assert status == 1 and words in output, output
    found = read_run(status, output, "").failure
    assert found is not None and signature_of(failure).matches(signature_of(found), Strength.REBASED)


def test_an_exported_program_is_compared_with_its_model(run: Run, tmp_path: Path) -> None:
    repro = _repro(tmp_path / "strict", WRONG, EXPORTS, strict=True)
    status, output = run(repro)
    assert status == 1 and "FAIL accuracy: the exported Mean, call 1: state mean values: Tensor-likes are" in output
    for right in (
        run(repro, TORCH_COMPILE_DISABLE="1"),
        run(_repro(tmp_path / "as it is", WRONG, EXPORTS, strict=False)),
    ):
        assert right[0] == 0 and "PASS" in right[1], right[1]


def test_a_lost_side_effect_is_no_wrong_result(run: Run, tmp_path: Path) -> None:
    status, output = run(_repro(tmp_path, WRONG, inside=True))
    assert status == 0 and "PASS" in output, output


def test_dropout_gradients_and_state_of_a_right_script_agree(run: Run, tmp_path: Path) -> None:
    for failure, backend in ((WRONG, "inductor"), (LOST_STATE, "aot_eager")):
        status, output = run(_repro(tmp_path / backend, failure, backend=repr(backend)))
        assert status == 0 and "PASS" in output, output
