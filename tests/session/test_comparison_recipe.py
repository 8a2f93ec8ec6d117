"""What the judgement of a wrong result asks of the recipe, and how it gets there."""

from pathlib import Path

from repro_kit.failure.failure import Difference, Failure, Phase, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.graph import parse, render
from repro_kit.reduce import RunOutcome
from repro_kit.session.oracles import with_random, with_tolerance
from repro_kit.stages.minify.program_reduction import ReducerOracle, verified

TEXT = """# repro-kit program 1
import torch
RECIPE = {RECIPE}
def graph(x):
    y = x + 1
    return (y,)
def calls():
    x = torch.randn(3)
    return [(x,)]
"""


def program(recipe="{}"):
    return parse(TEXT.replace("{RECIPE}", recipe))


def failure(tolerance=None):
    return Failure(Kind.ACCURACY, Phase.COMPARE, difference=Difference("value", "output 0"), tolerance=tolerance)


def test_a_tolerance_is_stated_only_where_the_judge_names_one_and_the_recipe_none():
    assert with_tolerance(program(), failure((0.01, 0.5))).recipe.atol == 0.5
    plain, stated = program(), program("{'rtol': 0.1, 'atol': 0.0}")
    assert with_tolerance(plain, failure()) is plain
    assert with_tolerance(stated, failure((0.01, 0.5))) is stated
    assert with_random(plain).recipe.fallback_random and not plain.recipe.fallback_random


class Fresh:
    """An oracle whose programs fail, with the tolerance that they lack, unless they state one that hides the bug."""

    jobs = 1

    def __init__(self, hides):
        self.hides = hides

    def check(self, texts, inputs, *, timeout):
        for text in texts:
            stated = parse(text).recipe.rtol is not None
            found = Verdict(Status.FAIL, failure(None if stated else (0.01, 0.5)))
            yield Verdict(Status.PASS) if stated and self.hides else found


def test_the_result_states_the_tolerance_if_it_still_fails_then():
    signature = signature_of(failure())
    kept, fails = verified(Fresh(hides=False), program(), signature, Path(), 1.0, 1)
    assert fails and (kept.recipe.rtol, kept.recipe.atol) == (0.01, 0.5)
    kept, fails = verified(Fresh(hides=True), program(), signature, Path(), 1.0, 1)
    assert fails and render(kept) == render(program())


def test_a_candidate_that_differs_by_chance_too_is_not_the_failure():
    judge = ReducerOracle(Fresh(hides=False), signature_of(failure()), Path(), 1.0, None)
    found = Verdict(Status.FAIL, failure())
    assert judge.answer(found).outcome is RunOutcome.FAILS_ALIKE
    assert judge.answer(Verdict(Status.FAIL, failure(), fallback_random=True)).outcome is RunOutcome.FAILS_OTHERWISE
