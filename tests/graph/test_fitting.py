"""A statement goes whose value has another shape than what takes its place, and the size of an input follows."""

from __future__ import annotations

import pytest

from repro_kit.graph import Program, parse, render
from repro_kit.graph.reducer import minify
from repro_kit.graph.values import TensorRecord, contiguous
from synthetic import Synthetic

PROGRAM = """\
# repro-kit program 1
import torch

RECIPE = {}


def graph(x, other, weight):
    begun = torch.first(x)
    joined = torch.cat([begun, other], 1)
    ended = torch.second(joined, weight)
    return (ended,)


def calls():
    x = torch.ones(2, 3)
    other = torch.ones(2, 1)
    weight = torch.ones(5, 4)
    return [(x, other, weight)]
"""


class Shaped(Synthetic):
    """`second` takes a weight whose last size is that of its first operand, as a linear layer does."""

    def record(self, program: Program) -> dict[str, TensorRecord]:
        lines = {line.name: line.data.sizes for line in program.inputs}
        shapes = {name: lines[line] for name, line in zip(program.graph.params, program.calls[0], strict=True)}
        for statement in program.graph.statements:
            read = [shapes[name] for name in statement.reads if name in shapes] or [(1,)]
            joined = (*read[0][:-1], sum(shape[-1] for shape in read)) if ".cat(" in statement.text else read[0]
            shapes[statement.target] = (2, 5) if ".second(" in statement.text else joined
        return {name: TensorRecord(shape, contiguous(shape)) for name, shape in shapes.items()}

    def fake_valid(self, programs):
        return [self.is_valid(program) for program in programs]

    def is_valid(self, program: Program) -> bool:
        known = self.record(program)
        read = {
            part: each.reads for each in program.graph.statements for part in ("first", "second") if part in each.text
        }
        firsts, seconds = (
            [known[name].shape for name in read.get(part, ()) if name in known] for part in ("first", "second")
        )
        ends = {(len(shape), shape[-1]) for shape in seconds}
        return firsts == [(2, 3)] and len(seconds) == 2 and len(ends) == 1

    def fails(self, program: Program) -> bool:
        return self.is_valid(program) and super().fails(program)


@pytest.mark.parametrize("last", [4, 6])
def test_what_joins_two_culprits_goes_and_the_weight_fits_what_is_left(last: int) -> None:
    program = parse(PROGRAM.replace("(5, 4)", f"(5, {last})").replace("(2, 1)", f"(2, {last - 3})"))
    result = minify(program, Shaped(["first", "second"], path=True))
    assert result.statements_after == 2 and ".cat(" not in render(result.program)
    assert "other" not in render(result.program)


def test_what_the_failure_needs_between_them_stays() -> None:
    result = minify(parse(PROGRAM), Shaped(["first", "cat", "second"], path=True))
    assert result.statements_after == 3
