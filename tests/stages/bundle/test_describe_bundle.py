"""What a story says of the failure: the words of the run of `repro.py`."""

from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.check_program import read_run
from repro_kit.case.stage_results import Environment, Reduction, TwinFound
from repro_kit.failure.failure import Difference, ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.graph import parse
from repro_kit.repro_run.running import Check, ReproRun
from repro_kit.stages.bundle.claims import shown_difference
from repro_kit.stages.bundle.describe_bundle import passing_variant, shown_error
from repro_kit.stages.bundle.forms import ReproForm

RAISED = 'Traceback (most recent call last):\n  File "repro.py", line 1, in <module>\nTypeError: no truth of s0 > 1\n'
HANGS = "the run does not end: it hangs, or compiles forever"
WRONG = "FAIL accuracy: Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\n"


@pytest.mark.parametrize(
    ("signature", "output", "words", "words_of_the_capture"),
    [
        (
            Signature(Kind.COMPILE_ERROR, ("TypeError",)),
            RAISED,
            "TypeError: no truth of s0 > 1",
            "TypeError: no truth of s77 > s78",
        ),
        (
            Signature(Kind.ACCURACY),
            WRONG,
            "Tensor-likes are not close!; Mismatched elements: 1 / 4 (25.0%)",
            Signature(Kind.ACCURACY).summary(),
        ),
        (
            Signature(Kind.ACCURACY),
            WRONG + "[rank0]:[W1128 00:06:43.288556758 ProcessGroup.cpp:390] Warning: there are 2 unwaited calls\n",
            "Tensor-likes are not close!; Mismatched elements: 1 / 4 (25.0%)",
            Signature(Kind.ACCURACY).summary(),
        ),
        (Signature(Kind.TIMEOUT), "FAIL timeout: no end after 20 s\n", HANGS, HANGS),
        (Signature(Kind.TIMEOUT), RAISED, HANGS, HANGS),  # what else was printed is not the failure
    ],
)
def test_the_words_are_those_of_the_run_where_it_failed_alike(signature, output, words, words_of_the_capture):
    captured = Failure(signature.kind, exceptions=(ExceptionLink("TypeError", "no truth of s77 > s78"),))
    facts = Facts(signature, captured, Environment("3.11", "python", "Linux", "2.13.0"))
    fails_alike = ReproRun(read_run(1, output, "exit status 1"), output, 1, outcome=RunOutcome.FAILS_ALIKE)
    fails_otherwise = replace(fails_alike, outcome=RunOutcome.FAILS_OTHERWISE)
    assert shown_error(facts, Check((fails_alike,), fails_alike)) == words
    assert shown_error(facts, Check((fails_otherwise,), fails_otherwise)) == words_of_the_capture
    assert shown_error(facts, None) == words_of_the_capture


def test_the_numbers_are_those_of_the_run_whose_output_is_shown() -> None:
    said = "Tensor-likes are not close!\n\nMismatched elements: 1 / 1 (100.0%)\nGreatest absolute difference: {}"
    at_first = Difference("value", "", max_abs=0.59, fraction=1.0, detail=said.format(0.59))
    output = f'Traceback (most recent call last):\n  File "repro.py", line 1, in <module>\nAssertionError: {said}\n'
    run = ReproRun(read_run(1, output.format(0.4), "exit status 1"), output, 1, outcome=RunOutcome.FAILS_ALIKE)
    shown = shown_difference(at_first, Check((run,), run))
    assert (shown.max_abs, shown.detail) == (0.4, said.format(0.4))
    otherwise = replace(run, outcome=RunOutcome.FAILS_OTHERWISE)
    measured = replace(at_first, where="output 0")
    assert shown_difference(at_first, Check((otherwise,), otherwise)) == at_first
    assert shown_difference(measured, Check((run,), run)) == measured, "nobody read it off a message"


PASSING = """# repro-kit program 1
import torch

RECIPE = {}


def graph(x):
    y = torch.relu(x)
    return (y,)


def calls():
    x = torch.ones(2)
    return [(x,)]
"""


def test_the_diff_of_a_passing_variant_loads_nothing_that_the_bundle_lacks(tmp_path: Path) -> None:
    (tmp_path / "minify").mkdir()
    twin = TwinFound("a value", "- x\n+ y")
    facts = Facts(Signature(Kind.ACCURACY), None, Environment("3.11", "python", "Linux", "2.13.0"))
    facts = replace(facts, reduction=Reduction(2, 1, 9, 1.0, True, True, twin=twin))
    form = ReproForm(facts, 60.0, "", tmp_path / "minify/best.py", parse(PASSING), reduced=True)
    shown = {}
    for data in ("load('full.pt')", "torch.zeros(2)"):
        (tmp_path / "minify/twin.py").write_text(PASSING.replace("torch.ones(2)", data))
        found = passing_variant(Place(tmp_path), form, facts)
        assert found is not None
        shown[data] = found.diff
    assert not shown["load('full.pt')"] and "torch.zeros(2)" in shown["torch.zeros(2)"]


class Place:
    """A case of which only its directory is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
