"""Plainer statements: fewer arguments and public names, as far as the failure stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from repro_kit.graph import Program, Statement, parse, render
from repro_kit.graph.reducer import minify
from repro_kit.graph.simpler import fewer_arguments, public_forms
from repro_kit.reduce import Answer, RunOutcome
from synthetic import Synthetic

TEXT = """import torch

RECIPE = {}


def graph(x, y):
    a = torch.ops.aten.bug.default(x, [1, 2, 3], 0.25, y, out_dtype=torch.float32)
    return (a,)


def calls():
    x = torch.randn(2, 3)
    y = torch.randn(2, 3)
    return [(x, y)]
"""


class Needs(Synthetic):
    """Fails while all of `words` stand in the program; programs with one of `invalid` are none."""

    def __init__(self, words: Sequence[str], invalid: Sequence[str] = ()) -> None:
        super().__init__([])
        self.words, self.invalid = words, invalid

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        for program in programs:
            text = render(program)
            self.seen.append(program)
            yield Answer(RunOutcome.FAILS_ALIKE if all(word in text for word in self.words) else RunOutcome.PASSES)

    def fake_valid(self, programs: Sequence[Program]) -> list[bool | None]:
        return [not any(word in render(program) for word in self.invalid) for program in programs]


def statement(words: Sequence[str], invalid: Sequence[str] = ()) -> str:
    (found,) = minify(parse(TEXT), Needs(words, invalid)).program.graph.statements
    return found.text


def test_arguments_that_the_failure_does_not_need_go_and_so_do_their_inputs() -> None:
    result = minify(parse(TEXT), Needs(["bug"]))
    assert result.program.graph.statements[0].text == "torch.bug(x)"
    assert result.program.graph.params == ("x",)


def test_an_argument_that_it_needs_stays() -> None:
    assert statement(["bug", "0.25"]) == "torch.bug(x, None, 0.25)"
    assert statement(["bug", "out_dtype"]) == "torch.bug(x, out_dtype=torch.float32)"


def test_a_private_name_that_it_needs_stays() -> None:
    assert statement(["aten.bug"]) == "torch.ops.aten.bug.default(x)"


def test_a_name_that_does_not_exist_is_never_run() -> None:
    oracle = Needs(["bug"], invalid=["torch.bug(", "functional.bug("])
    result = minify(parse(TEXT), oracle)
    assert result.program.graph.statements[0].text == "x.bug()"
    assert not any("torch.bug(" in render(it) for it in oracle.seen)


@pytest.mark.parametrize(
    ("private", "public"),
    [
        ("torch._C._nn.gelu(x)", "torch.nn.functional.gelu(x)"),
        ("torch._C._linalg.linalg_inv(x)", "torch.linalg.inv(x)"),
        ("torch._C._fft.fft_rfft(x)", "torch.fft.rfft(x)"),
        (
            "torch.nested._internal.nested_tensor.nested_view_from_values_offsets_lengths(x, offsets, None)",
            "torch.nested.nested_tensor_from_jagged(x, offsets, None)",
        ),
        ("torch.ops.aten.view.default(x, [2, 3])", "x.view([2, 3])"),
        ("torch.ops.prims.convert_element_type.default(x, torch.float16)", "x.to(torch.float16)"),
    ],
)
def test_public_names(private: str, public: str) -> None:
    assert public in [public_form.text for public_form in public_forms(Statement("a", private))]


def test_one_element_of_a_list_or_dict_less() -> None:
    found = [fewer_argument.text for fewer_argument in fewer_arguments(Statement("a", "torch.cat([x, y], 1)"))]
    assert {"torch.cat([x, y])", "torch.cat([x], 1)", "torch.cat([y], 1)", "torch.cat([], 1)"} <= set(found)
    assert "f(x, {})" in [fewer_argument.text for fewer_argument in fewer_arguments(Statement("a", "f(x, {'a': 1})"))]


def test_a_list_of_operands_for_a_body_stays_a_list() -> None:
    scan = Statement("a", "flat_scan(body, [x, y], [z], [])")
    found = [each.text for each in fewer_arguments(scan)]
    assert "flat_scan(body, [x], [z], [])" in found and "flat_scan(body, [x, y], [], [])" in found
    assert not {"flat_scan(body, [x, y], z, [])", "flat_scan(body, None, [z], [])"} & set(found)
    assert "torch.cat(z)" in [each.text for each in fewer_arguments(Statement("a", "torch.cat([z])"))]
