"""What a candidate of a graph's reduction must show: the same evidence, from the same operator on."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from repro_kit.failure.failure import Difference, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, signature_of
from repro_kit.graph import Program, parse
from repro_kit.recipe import Recipe
from repro_kit.runner.program_oracle import Divergence
from repro_kit.stages.minify.reducer_oracle import ReducerOracle, without_slip
from repro_kit.ui import SilentUi

TEXT = """# repro-kit program 1
import torch

RECIPE = {}


def graph(x):
    %s
    return (%s,)


def calls():
    x = torch.randn(4, 4)
    return [(x,)]
"""
WRITTEN = Difference("value", "x after the call", max_rel=0.5)
RETURNED = Difference("value", "output 0", max_rel=0.5)
_LARGE = (
    *("sin", "cos", "tan", "exp", "abs", "neg", "sinh", "cosh", "tanh"),
    *("asinh", "erf", "sqrt", "log", "log2", "ceil", "floor", "round"),
)
DRAWS = ("it draws random numbers",)


def program(*operators: str) -> Program:
    lines = [f"{name} = torch.{name}({before})" for name, before in zip(operators, ("x", *operators), strict=False)]
    return parse(TEXT % ("\n    ".join(lines), operators[-1]))


def wrong(difference: Difference, doubts: tuple[str, ...] | None = (), also: tuple[Difference, ...] = ()) -> Failure:
    return Failure(Kind.ACCURACY, difference=difference, also=also, doubts=doubts)


class Planted:
    """Every program fails with `failure`; watched, each begins to be wrong at the statement `first`."""

    jobs, python = 2, "python"

    def __init__(self, failure: Failure, first: str = "") -> None:
        self.failure, self.first, self.watched, self.run = failure, first, 0, 0
        self.gradients_first, self.right = False, tuple[str, ...]()

    def check(self, texts: Sequence[str], inputs: Path, **_: Any) -> Generator[Verdict, None, None]:
        for _ in texts:
            self.run += 1
            yield Verdict(Status.FAIL, self.failure)

    def diverge(self, text: str, inputs: Path, *, timeout: float, gradients: bool) -> Divergence:
        self.watched += 1
        self.gradients_first = gradients
        return Divergence((self.first,) if self.first else (), right=self.right)


def oracle(planted: Planted, original: Failure) -> ReducerOracle:
    return ReducerOracle(planted, signature_of(original), Path(), 60.0, SilentUi())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("original", "candidate", "outcome"),
    [
        (wrong(WRITTEN), wrong(WRITTEN), RunOutcome.FAILS_ALIKE),
        (wrong(WRITTEN), wrong(RETURNED), RunOutcome.FAILS_OTHERWISE),
        (wrong(WRITTEN, also=(RETURNED,)), wrong(RETURNED), RunOutcome.FAILS_ALIKE),
        (wrong(WRITTEN), wrong(RETURNED, also=(WRITTEN,)), RunOutcome.FAILS_ALIKE),
        (wrong(WRITTEN), wrong(WRITTEN, DRAWS), RunOutcome.INVALID),
        (wrong(WRITTEN, DRAWS), wrong(WRITTEN, DRAWS), RunOutcome.FAILS_ALIKE),
        (wrong(WRITTEN, None), wrong(WRITTEN, DRAWS), RunOutcome.FAILS_ALIKE),  # a case from before anybody looked
    ],
)
def test_the_evidence_stays_of_its_kind(original: Failure, candidate: Failure, outcome: RunOutcome) -> None:
    (answer,) = oracle(Planted(candidate), original).check([program("sin", "relu")])
    assert answer.outcome is outcome


def test_a_program_without_a_backward_is_not_run_for_a_wrong_gradient() -> None:
    gradient = wrong(Difference("value", "grad of x", max_rel=0.5))
    planted = Planted(gradient)
    trained = program("sin").with_(recipe=Recipe(backward="randn"))
    answers = list(oracle(planted, gradient).check([program("sin"), trained, program("cos")]))
    assert [answer.outcome for answer in answers] == [RunOutcome.PASSES, RunOutcome.FAILS_ALIKE, RunOutcome.PASSES]
    assert planted.run == 1
    (both,) = oracle(planted, wrong(RETURNED, also=(gradient.difference,))).check([program("sin")])  # type: ignore[arg-type]
    assert (planted.run, both.outcome) == (2, RunOutcome.FAILS_ALIKE)


@pytest.mark.parametrize("where", ["grad of x", "output 0"])
def test_of_wrong_gradients_alone_the_gradients_are_looked_at_first(where: str) -> None:
    original = wrong(Difference("value", where, max_rel=0.5))
    planted = Planted(original, "relu")
    judge = oracle(planted, original)
    judge.hints(program("relu"), original)
    assert planted.gradients_first == (where != "output 0")


def test_an_exception_of_a_program_that_is_less_defined_is_no_evidence() -> None:
    raised = Failure(Kind.COMPILE_ERROR, doubts=())
    undefined = Failure(Kind.COMPILE_ERROR, doubts=("it reads uninitialised memory",))
    (answer,) = oracle(Planted(undefined), raised).check([program("sin")])
    assert (answer.outcome, answer.equivalent) == (RunOutcome.INVALID, False)


@pytest.mark.parametrize(
    ("operators", "first", "alike"),
    [
        (("sin", "relu"), "relu", True),
        (("sin", "log1p"), "log1p", False),
        (("relu", "log1p"), "log1p", False),  # the operator is there, and right
        (("relu", "log1p"), "", True),  # once it is watched the failure is gone
        (("log1p",), "", False),
        (("relu_",), "relu_", True),
        (_LARGE, "relu", False),  # too large to be watched
    ],
)
def test_a_candidate_is_wrong_from_the_same_operator_on(operators: tuple[str, ...], first: str, alike: bool) -> None:
    planted = Planted(wrong(RETURNED), first)
    judge = oracle(planted, wrong(RETURNED))
    judge.begins_at(program("sin", "relu", "cos"), Divergence(("relu",)))
    candidates = [program(*operators), program("relu")]
    answers = list(judge.check(candidates))
    assert [answer.interesting for answer in answers] == [alike, True]
    assert planted.watched == (1 < len(operators) <= 16 and "relu" in operators), "the operators alone may decide"


@pytest.mark.parametrize(("right", "alike"), [((), True), (("sin",), True), (("relu",), False)])
def test_an_operator_that_is_right_where_the_results_are_wrong_is_no_culprit(
    right: tuple[str, ...], alike: bool
) -> None:
    planted = Planted(wrong(WRITTEN))
    planted.right = right
    judge = oracle(planted, wrong(WRITTEN))
    judge.begins_at(program("relu"), Divergence(("relu",)))
    (answer,) = judge.check([program("sin", "relu")])
    assert answer.interesting == alike


@pytest.mark.parametrize(
    ("operators", "first", "alike"),
    [
        (("sin", "relu"), "relu", True),
        (("sin", "log1p"), "log1p", False),  # what no result of the original shows
        (("relu", "log1p"), "", True),  # once it is watched the failure is gone, as that of the original
        (("log1p",), "log1p", False),
        (_LARGE, "log1p", True),
    ],
)
def test_where_no_culprit_is_known_what_was_harmless_is_none(
    operators: tuple[str, ...], first: str, alike: bool
) -> None:
    planted = Planted(wrong(RETURNED), first)
    judge = oracle(planted, wrong(RETURNED))
    judge.begins_at(program("sin", "log1p", "relu"), Divergence(harmless=("log1p",)))
    (answer,) = judge.check([program(*operators)])
    assert answer.interesting == alike
    assert planted.watched == (len(operators) == 2 and "log1p" in operators), "only where that decides"


@pytest.mark.parametrize(("first", "slipped"), [("relu", False), ("sin", True), ("", False)])
def test_a_large_result_is_watched_once_and_searched_again_where_it_has_slipped(first: str, slipped: bool) -> None:
    planted = Planted(wrong(RETURNED), first)
    judge = oracle(planted, wrong(RETURNED))
    judge.begins_at(program("relu"), Divergence(("relu",)))
    large = program(*_LARGE, "relu")
    about, searches = judge.about, []

    def search() -> Any:
        searches.append(judge.about)
        return Result(large)

    without_slip(judge, search)
    assert len(searches) == 1 + slipped
    assert searches[0] == about != searches[-1] if slipped else True, "the first answers do not count in the second"
    assert not next(iter(judge.check([large]))).interesting if slipped else True


class Result:
    """A result with its program alone."""

    def __init__(self, found: Program) -> None:
        self.program = found
