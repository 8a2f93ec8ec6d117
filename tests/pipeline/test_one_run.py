"""Each further start of the user's command has its reason. test_examples.py shows where one start is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from collecting import collected
from repro_kit.case.case import starts
from repro_kit.case.stage_results import CAPTURE, OBSERVATION
from repro_kit.failure.failure import Status
from repro_kit.failure.kinds import Kind

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("scripts_in_forks")]

#: A switch of torch's own that makes Inductor's relu wrong (torch/_inductor/config.py).
CHECKED = """
import torch, torch._inductor.config
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

def plain(x):
    return torch.relu(x - 0.5).sum()

x = torch.ones(8)
torch.testing.assert_close(torch.compile(plain)(x), plain(x))
"""
OWN_BUG = """
import torch
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
raise KeyError("no such column")
"""
NO_GRAPH = """
import torch
@torch.compile(fullgraph=True)
def branches(x):
    return x + 1 if x.sum() > 0 else x - 1
branches(torch.ones(3))
"""
#: The first function has a graph, and the second is what fails.
ANOTHER_GRAPH = (
    """
import torch
torch.compile(lambda x: x.sin())(torch.ones(3))
"""
    + NO_GRAPH
)
#: Compiled autograd fails in a frame of its own, without a graph: the graph of the forward shows it.
BACKWARD = """
import torch

@torch.library.custom_op("mine::g", mutates_args=())
def g(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@g.register_fake
def _(x):
    raise RuntimeError("no meta of g")

@torch.library.custom_op("mine::f", mutates_args=())
def f(x: torch.Tensor) -> torch.Tensor:
    return x * 2

f.register_fake(torch.empty_like)
f.register_autograd(lambda ctx, grad: g(grad) * 2)
torch._dynamo.config.compiled_autograd = True
y = torch.compile(lambda x: torch.ops.mine.f(x.sin()), backend="eager")(torch.randn(4, requires_grad=True))
torch.compile(lambda: y.sum().backward(), backend="eager")()
"""
#: Two graphs give wrong values, and the script looks at those of the second alone.
TWO_WRONG = """
import torch

def wrong(gm, example_inputs):
    return lambda *values: [value + 1 for value in gm(*values)]

@torch.compile(backend=wrong)
def stamps():
    return torch.arange(12) * 1000

def plain(x):
    return torch.relu(x - 0.5).sum()

stamps()
x = torch.ones(8)
raise SystemExit(not torch.allclose(torch.compile(plain, backend=wrong)(x), plain(x)))
"""
#: A wrong graph that nobody looks at, and a check that fails without the compiler too.
OWN_CHECK = """
import torch

@torch.compile
def stamps():
    return torch.arange(12) * 1000000000

stamps()
score = torch.compile(torch.sigmoid)(torch.zeros(4)).mean()
assert torch.allclose(score, torch.tensor(0.9)), "the model is too bad"
"""
#: The script catches what the compiled code raises (torch 2.13), prints it, and ends well.
CAUGHT = """
import traceback
import torch

class Tagged(torch.Tensor):
    pass

gram = torch.compile(lambda t: t @ t.t())
try:
    gram(torch.ones(4, 4).as_subclass(Tagged))
except TypeError:
    traceback.print_exc()
"""
#: Dynamo forgets the format (torch 2.13), so that the check fails with each graph in eager, too.
NO_GRAPH_MATTERS = """
import torch

@torch.compile(backend="aot_eager")
def labelled(x, scale):
    return x.sin() * 2, format(scale, ".1f")

x = torch.compile(torch.cos, backend="aot_eager")(torch.ones(4))
label = labelled(x, 1.23456)[1]
assert label == f"{1.23456:.1f}", label
"""
#: Dynamo makes an object of a class without the `__call__` of its metaclass.
NO_GRAPH_DIFFERS = """
import torch

class Tenfold(type):
    def __call__(cls, value):
        return super().__call__(value * 10)

class Factor(metaclass=Tenfold):
    def __init__(self, value):
        self.value = value

@torch.compile(backend="aot_eager")
def scaled(x):
    return x.sin() * Factor(2).value

print(torch.compile(torch.cos, backend="aot_eager")(torch.ones(4)), scaled(torch.ones(4)))
"""
#: What torch imports for the joint graph's patterns is there once a process has compiled something.
FIRST_COMPILE = """
import sys
import torch
def picky(gm, example_inputs):
    if not any("serialized_patterns" in name for name in sys.modules):
        raise ValueError("the first compile of a process")
    return gm.forward
torch.compile(lambda x: x.sin() * 2, backend=picky)(torch.ones(4))
"""


def test_the_users_own_exception_is_asked_of_eager(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, OWN_BUG)
    assert summary["exit"] == 4
    assert summary["runs"] == ["observe: what fails?", "does it fail without torch.compile?"]
    assert case.load(OBSERVATION).failures[0].failure.kind is Kind.RUNTIME_ERROR


def test_without_a_graph_each_start_says_why(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, NO_GRAPH, "--until", "capture")
    runs = summary["runs"]
    assert runs == [
        "observe: what fails?",
        "does it fail without torch.compile?",
        "Dynamo's verbose log",
    ]
    assert case.load(OBSERVATION).eager is Status.PASS
    assert case.load(CAPTURE).subject == "script"
    assert [start.why for start in starts(case)] == runs


def test_what_a_script_catches_and_prints_is_its_failure(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, CAUGHT, "--until", "capture")
    assert (summary["exit"], summary["failure"]) == (0, "runtime-error")
    observation = case.load(OBSERVATION)
    assert (observation.exit_status, observation.eager) == (0, Status.PASS)
    assert [(one.source, one.failure.kind) for one in observation.failures] == [("log", Kind.RUNTIME_ERROR)]


def test_graphs_of_other_frames_are_not_tried_where_dynamo_failed_in_one_without_a_graph(tmp_path: Path) -> None:
    _, case = collected(tmp_path, ANOTHER_GRAPH, "--until", "capture")
    capture = case.load(CAPTURE)
    assert (capture.subject, capture.graphs) == ("script", 1)
    assert capture.note == "compile 1/0 failed before its frame had a graph"


def test_the_graph_of_a_forward_shows_what_compiled_autograd_fails_in(tmp_path: Path) -> None:
    _, case = collected(tmp_path, BACKWARD, "--until", "capture")
    capture = case.load(CAPTURE)
    assert (capture.subject, capture.graph) == ("program", "0/0")


def test_a_failure_of_the_first_compile_is_found_in_a_fresh_interpreter(tmp_path: Path) -> None:
    _, case = collected(tmp_path, FIRST_COMPILE, "--until", "capture", subject="user.py anew")
    capture = case.load(CAPTURE)
    assert (capture.subject, capture.fresh) == ("program", True)


def test_observe_alone_settles_whose_failure_it_is(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, CHECKED, "--until", "observe")
    observation = case.load(OBSERVATION)
    assert summary["failure"] == "accuracy" and observation.settled and observation.eager is Status.PASS


def test_the_graph_settles_it_and_one_more_run_shows_that_the_scripts_check_depends_on_it(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, CHECKED, "--until", "capture")
    observation, capture = case.load(OBSERVATION), case.load(CAPTURE)
    assert summary["failure"] == "accuracy" and observation.settled and observation.eager is None
    assert (capture.subject, len(summary["runs"])) == ("program", 2)
    assert capture.own_check == "With that graph in eager, and all others compiled, the script's own check passes."


def test_a_wrong_graph_counts_only_where_the_scripts_check_depends_on_it(tmp_path: Path) -> None:
    _, case = collected(tmp_path, TWO_WRONG, "--until", "capture")
    capture = case.load(CAPTURE)
    assert capture.graph == "1/0"
    assert capture.own_check == "With that graph in eager, and all others compiled, the script's own check passes."


def test_a_check_that_fails_in_eager_too_is_the_users_whatever_graph_is_wrong(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, OWN_CHECK)
    assert summary["exit"] == 4
    assert not case.holds(CAPTURE)


def test_graphs_are_not_tried_for_long_where_the_check_fails_with_all_graphs_in_eager(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, NO_GRAPH_MATTERS, "--until", "capture")
    capture = case.load(CAPTURE)
    assert (capture.subject, capture.graphs) == ("script", 2)
    assert capture.note.startswith("the script's own check fails with all graphs in eager, too; graph 0/0 alone")
    assert "fresh interpreter" not in capture.note
    assert summary["runs"].count("does its check pass with all graphs in eager?") == 1


def test_graphs_are_not_tried_for_long_where_the_calls_differ_with_all_graphs_in_eager(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, NO_GRAPH_DIFFERS, "--check", "accuracy", "--until", "capture")
    capture = case.load(CAPTURE)
    assert (summary["failure"], capture.subject, capture.graphs) == ("accuracy", "script", 2)
    assert capture.note.startswith(
        "the script's calls differ from eager with all graphs in eager, too; graph 0/0 alone"
    )
    assert "fresh interpreter" not in capture.note
    assert summary["runs"].count("do its calls agree with eager with all graphs in eager?") == 1
