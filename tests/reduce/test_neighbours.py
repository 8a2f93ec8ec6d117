"""What lies next to a result: single removals, and the nearest program that passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from repro_kit.program import Program, TensorInput, parse
from repro_kit.reduce import Answer, RunOutcome, minify
from repro_kit.reduce.neighbours import Neighbours, Removal, distance
from synthetic import Synthetic

TEXT = """import torch

RECIPE = {'dynamic': True}


def graph(x, y):
    a = torch.fine(x)
    b = torch.bug0(a, y)
    c = torch.fine(b)
    d = torch.bug1(c)
    return (d,)


def calls():
    x = torch.randn(2, 3)
    y = torch.randn(2, 3, dtype=torch.float16)
    return [(x, y)]
"""


class Half(Synthetic):
    """Fails while both bugs are there, and an input is of half precision."""

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        for program in programs:
            half = any(input_.dtype == "torch.float16" for input_ in program.inputs if isinstance(input_, TensorInput))
            yield Answer(RunOutcome.FAILS_ALIKE if half and self.fails(program) else RunOutcome.PASSES)


def test_every_single_removal_is_tried_and_none_fails() -> None:
    found = minify(parse(TEXT), Half(["bug0", "bug1"])).neighbours
    assert found.minimal
    assert found.complete
    what = [removal.what for removal in found.removals]
    assert any("bug0" in it for it in what)
    assert any("bug1" in it for it in what)
    assert {removal.outcome for removal in found.removals} <= {RunOutcome.PASSES, None}


def test_the_twin_passes_and_tells_what_matters() -> None:
    oracle = Half(["bug0", "bug1"])
    result = minify(parse(TEXT), oracle)
    twin = result.neighbours.twin
    assert twin is not None
    (answer,) = oracle.check([twin.program])
    assert answer.outcome is RunOutcome.PASSES
    assert twin.what.startswith("the default dtype for ")
    assert twin.program.graph == result.program.graph


class Gradient(Synthetic):
    """Fails while the bugs are there, and the backward of an input is run."""

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        for program in programs:
            trained = any(isinstance(input_, TensorInput) and input_.requires_grad for input_ in program.inputs)
            fails = trained and program.recipe.backward != "none" and self.fails(program)
            yield Answer(RunOutcome.FAILS_ALIKE if fails else RunOutcome.PASSES)


def test_a_program_that_runs_no_backward_is_no_twin() -> None:
    text = TEXT.replace("{'dynamic': True}", "{'backward': 'sum'}").replace("(2, 3)\n", "(2, 3).requires_grad_()\n")
    result = minify(parse(text), Gradient(["bug0", "bug1"]))
    twin = result.neighbours.twin
    assert result.program.recipe.backward == "sum"
    assert twin is None or twin.program.recipe.backward == "sum"
    assert twin is None or not twin.what.endswith("without gradient")


class Lucky(Synthetic):
    """Fails while the bugs are there; a size of 1 passes with the first seed alone."""

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        for program in programs:
            sizes = [size for line in program.inputs if isinstance(line, TensorInput) for size in line.data.sizes or ()]
            lucky = 1 in sizes and program.recipe.seed == 0
            yield Answer(RunOutcome.PASSES if lucky or not self.fails(program) else RunOutcome.FAILS_ALIKE)


def test_a_variant_that_passes_with_one_seed_alone_is_no_twin() -> None:
    text = TEXT.replace(", dtype=torch.float16", "")
    twin = minify(parse(text), Lucky(["bug0", "bug1"])).neighbours.twin
    assert twin is not None
    assert not twin.what.startswith("size ")
    assert twin.program.recipe.seed == 0


def test_a_search_that_was_stopped_claims_no_minimality() -> None:
    whole = minify(parse(TEXT), Half(["bug0", "bug1"]))
    cut = minify(parse(TEXT), Half(["bug0", "bug1"]), budget=max(step.queries for step in whole.history))
    assert cut.stopped == "budget"
    assert cut.program == whole.program
    assert not cut.neighbours.minimal


@pytest.mark.parametrize(
    ("outcome", "equivalent"),
    [(RunOutcome.FAILS_ALIKE, False), (RunOutcome.FAILS_OTHERWISE, True), (RunOutcome.CANNOT_TELL, False)],
)
def test_a_removal_that_fails_alike_or_was_not_judged_is_no_minimality(outcome: RunOutcome, equivalent: bool) -> None:
    fine = Removal("without a", RunOutcome.PASSES)
    assert Neighbours((fine, Removal("without b", None)), complete=True).minimal
    assert not Neighbours((fine, Removal("without b", outcome, equivalent=equivalent)), complete=True).minimal


def test_distance_counts_what_is_not_common() -> None:
    assert distance("abc", "abc") == 0
    assert distance("float16", "float32") == 4
