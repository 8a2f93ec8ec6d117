"""What lies next to a result: single removals, and the nearest program that passes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import pytest

from repro_kit.graph import Program, TensorInput, parse, render
from repro_kit.graph.inputs import parse_input
from repro_kit.graph.neighbours import distance, other_dtype
from repro_kit.graph.reducer import minify
from repro_kit.reduce import Answer, RunOutcome
from repro_kit.reduce.reduction import Neighbours, Removal
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


@pytest.mark.parametrize(
    ("value", "other"),
    [
        ("torch.full((2,), -1)", "torch.int32"),
        ("torch.full((2,), -1.0)", "torch.float64"),
        ("torch.arange(2)", "torch.int32"),
        ("torch.ones(2)", "torch.float64"),
        ("torch.ones(2, dtype=torch.float16)", None),
    ],
)
def test_the_other_dtype_of_whole_numbers_is_one_of_whole_numbers(value: str, other: str | None) -> None:
    line = parse_input(ast.parse(f"x = {value}").body[0])
    assert isinstance(line, TensorInput) and other_dtype(line) == other


def test_the_result_is_told_before_its_neighbours_are_looked_at() -> None:
    seen: list[str] = []
    result = minify(
        parse(TEXT),
        Half(["bug0", "bug1"]),
        on_event=lambda event: seen.append(f"{event.kind} {event.name}"),
        at_result=lambda program: seen.append(render(program)),
    )
    told = seen.index(render(result.program))
    assert seen[told - 1] == "pass neighbours" and "query neighbours" in seen[told:] and "accepted" not in seen[told:]


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
    """Fails while the bugs are there, and random values; a size of 1 passes with the first seed alone."""

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        for program in programs:
            sizes = [size for line in program.inputs if isinstance(line, TensorInput) for size in line.data.sizes or ()]
            random = any(line.data.kind == "randn" for line in program.inputs if isinstance(line, TensorInput))
            lucky = 1 in sizes and program.recipe.seed == 0
            fails = random and not lucky and self.fails(program)
            yield Answer(RunOutcome.FAILS_ALIKE if fails else RunOutcome.PASSES)


def test_a_variant_that_passes_with_one_seed_alone_is_no_twin() -> None:
    text = TEXT.replace(", dtype=torch.float16", "")
    found = minify(parse(text), Lucky(["bug0", "bug1"])).neighbours
    assert found.number is None
    assert found.twin is not None
    assert not found.twin.what.startswith("size ")
    assert found.twin.program.recipe.seed == 0


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


NUMBERS = """import torch

RECIPE = {'memory': 1073741824}


def graph(x):
    b = torch.bug(x, 900000000)
    return (b,)


def calls():
    x = torch.ones(9, 4)
    return [(x,)]
"""


class Limits(Synthetic):
    """Fails while the bug is there, one size of the input is at least `size`, and the number at least `number`."""

    def __init__(self, size: int, number: int) -> None:
        super().__init__([])
        self.size, self.number = size, number

    def fails(self, program: Program) -> bool:
        numbers = [int(each) for each in re.findall(r"bug\(x, (\d+)\)", render(program))]
        sizes = [size for line in program.inputs if isinstance(line, TensorInput) for size in line.data.sizes or ()]
        return max(numbers, default=0) >= self.number and max(sizes, default=0) >= self.size


def without_limit(text: str) -> Program:
    return parse(text.replace("{'memory': 1073741824}", "{}"))


def test_the_size_that_decides_is_told_before_any_removal() -> None:
    oracle = Limits(9, 1)
    found = minify(without_limit(NUMBERS), oracle).neighbours
    assert found.number is not None
    assert (found.number.fails, found.number.passes) == (9, 8)
    assert found.number.words == "fails from 9 up, passes with 8 as dimension 0 of `x`"
    assert found.twin is not None
    assert found.twin.what == "8 in place of 9 as dimension 0 of `x`"
    assert not oracle.fails(found.twin.program)


def test_another_part_is_no_variant_and_a_lost_exception_has_none_by_sizes() -> None:
    class Indexed(Synthetic):
        def fails(self, program: Program) -> bool:
            return "bug(x[8])" in render(program)

    text = NUMBERS.replace("{'memory': 1073741824}", "{}")
    found = minify(parse(text.replace("bug(x, 900000000)", "bug(x[8])")), Indexed([])).neighbours
    assert found.number is None and "x[" not in (found.twin.what if found.twin else "")
    lost = minify(parse(text.replace("{}", "{'validation': True}")), Limits(9, 1)).neighbours
    assert lost.number is None or lost.number.what == "argument 2 of `bug`"


@pytest.mark.parametrize(
    ("limit", "result", "words"),
    [
        (9, 9, "fails from 9 up, passes with 8"),
        (64, 64, "fails from 64 up, passes with 63"),
        (70, 100, "fails with 100, passes with 64"),
        (1025, 1025, "fails from 1025 up, passes with 1024"),
        (7000, 8192, "fails with 8192, passes with 5000"),
        (715827883, 900000000, "fails with 900000000, passes with 450000000"),
        (900000000, 900000000, "fails with 900000000, passes with 450000000"),
    ],
)
def test_the_number_that_decides_is_the_least_that_fails_or_a_round_one(limit: int, result: int, words: str) -> None:
    found = minify(without_limit(NUMBERS), Limits(1, limit))
    number = found.neighbours.number
    assert number is not None
    assert number.words == f"{words} as argument 2 of `bug`"
    assert found.program.graph.statements[0].text == f"torch.bug(x, {result})"
    assert found.neighbours.twin is not None
    assert found.neighbours.twin.what == f"{number.passes} in place of {result} as argument 2 of `bug`"
    assert found.queries < 45


def test_with_a_limit_of_memory_no_edge_is_looked_for() -> None:
    number = minify(parse(NUMBERS), Limits(1, 1025)).neighbours.number
    assert number is not None and (number.fails, number.passes) == (2000, 1024)


def test_the_search_for_a_number_ends_after_a_few_queries() -> None:
    names: list[str] = []
    result = minify(
        without_limit(NUMBERS), Limits(1, 1), on_event=lambda event: names.append(f"{event.kind} {event.name}")
    )
    assert result.neighbours.number is None or result.neighbours.number.passes == 0
    assert names.count("query neighbours") < 20
