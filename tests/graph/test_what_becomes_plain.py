"""What of a program becomes plain or smaller beside its statements: settings, inputs, sizes, bodies of operators."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from repro_kit.graph import Data, Program, TensorInput, parse, render, size
from repro_kit.graph.inputs import parse_input
from repro_kit.graph.program_text import PRIMS_IMPORT
from repro_kit.graph.reducer import minify
from repro_kit.graph.values import TensorRecord, contiguous
from repro_kit.recipe import Autocast, ProcessGroup, Recipe
from repro_kit.reduce import Answer, RunOutcome
from synthetic import Synthetic, build, op_name


def planted(place: int, count: int = 60) -> Program:
    return build(count, {place: "bug0"}, 0, False)


def test_the_fewest_ranks_in_one_process_are_kept_that_fail():
    class NeedsRanks(Synthetic):
        def fails(self, program):
            return super().fails(program) and program.recipe.group is not None and program.recipe.group.size >= 2

    program = planted(3, 10).with_(recipe=Recipe(group=ProcessGroup(8, backend="gloo", rank=5)))
    result = minify(program, NeedsRanks(["bug0"]))
    assert result.program.recipe == Recipe(group=ProcessGroup(2, rank=1))


RELATED = {
    "no_grad": "whole = torch.ones(17)\nbase = whole.clone()\nX = torch.no_grad()(base.as_strided)((4, 4), (4, 1), 1)",
    "inference_mode": "whole = torch.ones(17)\nX = torch.inference_mode()(whole.as_strided)((4, 4), (4, 1), 1)",
}


@pytest.mark.parametrize("kind", RELATED)
@pytest.mark.parametrize("needed", [False, True], ids=["", "needed"])
def test_a_view_made_in_a_mode_becomes_a_plain_view_of_what_it_shares(kind: str, needed: bool) -> None:
    class NeedsABase(Synthetic):
        def fails(self, program):
            text = render(program)
            return super().fails(program) and ".as_strided" in text and (kind in text or not needed)

    program = planted(3, 10)
    first, second = program.inputs
    lines = RELATED[kind].replace("X", first.name).splitlines()
    made = tuple(parse_input(ast.parse(line).body[0]) for line in lines)
    result = minify(program.with_(inputs=(*made, second)), NeedsABase(["bug0"]))
    assert all(isinstance(each, TensorInput) for each in result.program.inputs) is not needed
    assert ".clone()" not in render(result.program)


def test_an_input_of_a_call_that_is_no_plain_tensor_stays_as_it_is() -> None:
    class NeedsHalves(Synthetic):
        def fails(self, program):
            return super().fails(program) and ".half()" in render(program)

    program = planted(3, 10)
    first, second = program.inputs
    made = parse_input(ast.parse(f"{first.name} = (torch.ones(17) * 0.02 + 100).half()").body[0])
    result = minify(program.with_(inputs=(made, second)), NeedsHalves(["bug0"]))
    assert "(torch.ones(17) * 0.02 + 100).half()" in render(result.program)


def test_settings_and_inputs_become_plain():
    recipe = Recipe(
        mode="max-autotune",
        dynamic=True,
        backward="sum",
        autocast=Autocast(),
        group=ProcessGroup(4, backend="gloo"),
        config={"inductor.a": 1, "inductor.b": 2},
    )
    program = planted(10).with_(recipe=recipe, preamble="NEEDED = 1\n\n\ndef unneeded():\n    return 2")
    first, second = program.inputs
    lazy = replace(second, bits=("conj", "neg"), data=Data("_efficientzerotensor", (4, 4)))
    inputs = (replace(first, requires_grad=True, parameter=True), lazy)

    class Needs(Synthetic):
        def fails(self, program):
            return super().fails(program) and "inductor.b" in program.recipe.config and "NEEDED" in program.preamble

    result = minify(program.with_(inputs=inputs), Needs(["bug0"]))
    assert result.program.recipe == Recipe(config={"inductor.b": 2})
    assert result.program.preamble == "NEEDED = 1"
    tensors = [input_ for input_ in result.program.inputs if isinstance(input_, TensorInput)]
    assert not any(tensor.requires_grad or tensor.bits for tensor in tensors)
    assert all(tensor.data.kind in ("randn", "rand", "zeros", "ones") for tensor in tensors)


@pytest.mark.parametrize("operator", ["torch.ops.prims.bug0", "torch.bug0"])
def test_the_import_that_registers_operators_stays_with_them(operator: str):
    class Contains(Synthetic):
        def fails(self, program):
            return f"{operator}(" in render(program)

    text = re.sub(r"= [\w.]*bug0\(", f"= {operator}(", render(planted(4, 10)))
    result = minify(parse(text).with_(imports=(PRIMS_IMPORT,)), Contains(["bug0"]))
    assert result.statements_after == 1
    assert result.program.imports == ((PRIMS_IMPORT,) if "prims" in operator else ())


def test_contexts_go_one_by_one_and_keep_what_they_need():
    recipe = Recipe(contexts=("torch.device('cpu')", "Mode(2)", "other()"), compiled_autograd=True, warm_caches=True)
    program = planted(10).with_(recipe=recipe, preamble="class Mode:\n    pass\n\n\ndef other():\n    pass")

    class Needs(Synthetic):
        def fails(self, program):
            return super().fails(program) and "Mode(2)" in program.recipe.contexts and "Mode" in program.preamble

    result = minify(program, Needs(["bug0"]))
    assert result.program.recipe == Recipe(contexts=("Mode(2)",))
    assert result.program.preamble == "class Mode:\n    pass"


@pytest.mark.parametrize(("least", "left"), [(1, None), (2, 4)])
def test_threads_stay_where_one_is_not_enough(least: int, left: int | None):
    class Needs(Synthetic):
        def fails(self, program):
            machine_has = 8
            return super().fails(program) and (program.recipe.threads or machine_has) >= least

    result = minify(planted(10).with_(recipe=Recipe(threads=4)), Needs(["bug0"]))
    assert result.program.recipe.threads == left


@pytest.mark.parametrize(
    ("memory", "least", "left"), [(None, 700, 800), (1 << 30, 700, 800), (None, 513, 513), (1 << 30, 513, 800)]
)
def test_a_size_that_must_be_large_is_round_or_the_edge_of_a_power_of_two(memory: int | None, least: int, left: int):
    class NeedsMuch(Synthetic):
        def fails(self, program: Program) -> bool:
            return super().fails(program) and any(input_.shape[0] >= least for input_ in program.inputs)

    program = planted(3).with_(recipe=Recipe(memory=memory))
    inputs = tuple(TensorInput(input_.name, Data("randn", (1750, 3))) for input_ in program.inputs)
    result = minify(program.with_(inputs=inputs), NeedsMuch(["bug0"]))
    assert [input_.shape for input_ in result.program.inputs] == [(left,)]
    assert result.queries < 45


def test_a_large_size_of_which_only_multiples_are_valid_is_halved() -> None:
    program = of("v = torch.bug(x)\nreturn (v,)", "torch.ones(768)")
    multiples = "|".join(str(96 * times) for times in range(1, 9))
    assert "torch.ones(96)" in reduced(program, "torch.bug", invalid=rf"ones\((?!(?:{multiples})\))")


def test_sizes_shrink_as_far_as_the_failure_allows():
    class NeedsThree(Synthetic):
        def fails(self, program: Program) -> bool:
            shapes = [input_.shape or () for input_ in program.inputs if isinstance(input_, TensorInput)]
            return super().fails(program) and any(shape[-1:] == (3,) for shape in shapes)

        def fake_valid(self, programs):
            return [all(input_.shape != (1, 1) for input_ in program.inputs) for program in programs]

    oracle = NeedsThree(["bug0"])
    result = minify(planted(7), oracle)
    shapes = [input_.shape for input_ in result.program.inputs if isinstance(input_, TensorInput)]
    assert shapes == [(3,)]
    assert oracle.fails(result.program)


BODIES = """import torch

RECIPE = {}


def body_0(a, b):
    c = torch.fine(a)
    d = torch.bug(c)
    e = d + b
    return (e, b)


def body_1(a, b):
    c = torch.fine(a)
    return (c, b)


def graph(p, x, y):
    z = torch.fine(x)
    cond = torch.ops.higher_order.cond(p, body_0, body_1, (z, y))
    one = cond[0]
    two = cond[1]
    out = one * two
    return (out,)


def calls():
    p = torch.randn(2, 3)
    x = torch.randn(2, 3)
    y = torch.randn(2, 3)
    return [(p, x, y)]
"""


class InBodies(Synthetic):
    """Fails when all of `bugs` stand anywhere in the program; with another form outside of `cond`."""

    adopted = 0

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        for program in programs:
            text = render(program)
            same = "cond(" in text or self.adopted
            outcome = RunOutcome.FAILS_ALIKE if same else RunOutcome.FAILS_OTHERWISE
            yield Answer(outcome if all(bug in text for bug in self.bugs) else RunOutcome.PASSES, failure={})

    def adopt(self, answer: Answer) -> None:
        self.adopted += 1


def test_a_body_that_fails_alone_takes_the_place_of_its_operator() -> None:
    oracle = InBodies(["torch.bug"])
    result = minify(parse(BODIES), oracle)
    assert [statement.text for statement in result.program.graph.statements] == ["torch.bug(c)"]
    assert oracle.adopted == 1


def test_an_operator_that_is_needed_keeps_one_statement_in_one_body() -> None:
    result = minify(parse(BODIES), InBodies(["torch.bug", "cond("]))
    assert result.statements_after == 2
    (body,) = result.program.bodies
    assert [statement.text for statement in body.statements] == ["torch.bug(a)"]
    assert len(body.params) == 1
    assert size(result.program) == 2


class Together(Synthetic):
    """Fails while the bug is there, and "left" and "right" are both there or both gone."""

    def fails(self, program: Program) -> bool:
        names = {op_name(statement) for statement in program.graph.statements}
        return "bug" in names and ("left" in names) == ("right" in names)


def test_two_statements_that_can_only_go_together_go() -> None:
    text = BODIES.partition("def body_0")[0] + (
        "def graph(x):\n    a = torch.left(x)\n    b = torch.bug(x)\n    c = torch.right(x)\n    return (a, b, c)\n\n\n"
        "def calls():\n    x = torch.randn(2, 3)\n    return [(x,)]\n"
    )
    result = minify(parse(text), Together([]))
    assert [statement.text for statement in result.program.graph.statements] == ["torch.bug(x)"]


class Halved(Synthetic):
    """Fails while the bug gets one input of half precision, and another one."""

    def fails(self, program: Program) -> bool:
        dtypes = [input_.dtype for input_ in program.inputs if isinstance(input_, TensorInput)]
        found = {op_name(statement) for statement in program.graph.statements}
        return "bug" in found and "torch.float16" in dtypes and len(set(dtypes)) == 2


def test_inputs_are_of_the_default_dtype_where_they_can_be() -> None:
    text = BODIES.partition("def body_0")[0] + (
        "def graph(x, y):\n    b = torch.bug(x, y)\n    return (b,)\n\n\ndef calls():\n"
        "    x = torch.randn(2, dtype=torch.float16)\n    y = torch.randn(3, dtype=torch.float64)\n"
        "    return [(x, y)]\n"
    )
    lines = minify(parse(text), Halved([])).program.inputs
    assert [line.dtype for line in lines if isinstance(line, TensorInput)] == ["torch.float16", None]


def test_a_slow_failure_loses_its_stored_values_first():
    class SlowWithGradient(Synthetic):
        def check(self, programs):
            yield from (replace(answer, seconds=30.0) for answer in super().check(programs))

        def fails(self, program):
            return super().fails(program) and any(line.requires_grad for line in program.inputs)

    program = build(60, {5: "bug0", 55: "bug1"})
    inputs = (replace(program.inputs[0], requires_grad=True), program.inputs[1])
    oracle = SlowWithGradient(["bug0", "bug1"])
    result = minify(program.with_(inputs=inputs), oracle, budget=7, deadline=150.0)
    assert [line.data.kind for line in result.program.inputs] == ["ones", "ones"]
    assert size(result.program) == 60


def test_a_trained_program_becomes_plain_at_once_and_keeps_its_gradients():
    class Trained(Synthetic):
        def fails(self, program):
            has_gradient = any(line.requires_grad for line in program.inputs if isinstance(line, TensorInput))
            return super().fails(program) and has_gradient and program.recipe.backward != "none"

    program = planted(10, count=12)
    inputs = tuple(replace(line, requires_grad=True) for line in program.inputs)
    recipe = Recipe(backward="randn", threads=2, dynamic=True, config={"inductor.max_fusion_size": 1})
    result = minify(program.with_(inputs=inputs, recipe=recipe), Trained(["bug0"]))
    (step,) = (step for step in result.history if step.name == "plain")
    assert step.program.recipe == Recipe(backward="sum", threads=1)
    assert result.program.recipe == Recipe(backward="sum")
    assert [line.data.kind for line in step.program.inputs] == ["ones"]


@pytest.mark.parametrize(
    ("needed", "left"), [("-0.0", "torch.full((1,), -0.0)"), ("nan, 2.0", "torch.tensor([nan, 2.0, 1.0])")]
)
def test_a_failure_that_needs_certain_values_gets_them_as_constants(needed: str, left: str):
    class Needs(Synthetic):
        def fails(self, program: Program) -> bool:
            stored = any(line.data.kind == "load" for line in program.inputs)
            return super().fails(program) and (stored or any(needed in line.line for line in program.inputs))

        def record(self, program: Program) -> dict[str, TensorRecord]:
            values = (float("nan"), 2.0, 1.0) if "nan" in needed else (3.0, -0.0, 1.0)
            return dict.fromkeys(super().record(program), TensorRecord((3,), (1,), samples=values))

    result = minify(build(5, {2: "bug0"}), Needs(["bug0"]))
    assert [line.line.partition(" = ")[2] for line in result.program.inputs] == [left]


class OfTheSecondCall(Synthetic):
    """Fails while a call gets a negative index, which the stored tensor of the second call has."""

    def fails(self, program: Program) -> bool:
        text = render(program)
        return "torch.bug" in text and ('load("second.pt")' in text or "randint(-1, " in text)

    def record(self, program: Program) -> dict[str, TensorRecord]:
        low = -1 if program.calls[0] == ("b",) else 0
        return {"x": TensorRecord((3,), (1,), dtype="torch.int64", low=low, high=5)}


def test_values_of_a_later_call_are_those_of_its_own_record() -> None:
    text = BODIES.partition("def body_0")[0] + (
        "def graph(x):\n    y = torch.bug(x)\n    return (y,)\n\n\n"
        'def calls():\n    a = load("first.pt")\n    b = load("second.pt")\n    return [(a,), (b,)]\n'
    )
    result = minify(parse(text), OfTheSecondCall([]))
    assert not result.program.stored
    assert "torch.randint(-1, " in render(result.program)


def of(graph: str, *inputs: str, recipe: str = "{}") -> Program:
    """A program of one statement or more, with the values of its inputs in the order of their names."""
    names = "xyzabcdefghi"[: len(inputs)]
    lines = [f"{name} = {value}" for name, value in zip(names, inputs, strict=True)]
    parameters = ", ".join(names)
    return parse(
        f"import torch\n\nRECIPE = {recipe}\n\n\ndef graph({parameters}):\n    "
        + "\n    ".join(graph.splitlines())
        + "\n\n\ndef calls():\n    "
        + "\n    ".join([*lines, f"return [({parameters},)]"])
    )


class Matching(Synthetic):
    """Fails while the text of the program matches all of `patterns`; what matches `invalid` is no valid program."""

    def __init__(self, *patterns: str, invalid: str = r"(?!)") -> None:
        super().__init__([])
        self.patterns, self.invalid = patterns, invalid

    def fails(self, program: Program) -> bool:
        return all(re.search(pattern, render(program)) for pattern in self.patterns)

    def fake_valid(self, programs: Sequence[Program]) -> list[bool | None]:
        return [not re.search(self.invalid, render(program)) for program in programs]

    def record(self, program: Program) -> dict[str, TensorRecord]:
        shapes = {line.name: line.data.sizes or () for line in program.inputs if isinstance(line, TensorInput)}
        return {
            name: TensorRecord(shape, contiguous(shape), samples=(0.52, 1.5)[: math.prod(shape)])
            for name, shape in shapes.items()
        }


def reduced(program: Program, *patterns: str, invalid: str = r"(?!)") -> str:
    return render(minify(program, Matching(*patterns, invalid=invalid)).program)


@pytest.mark.parametrize(
    ("needed", "left"),
    [
        ("torch.bug", "torch.ones(1)"),
        (r"rand|zeros", "torch.zeros(1)"),
        (r"(rand|arange)\(2", "torch.arange(2, dtype=torch.float32)"),
        (r"rand\(2|\[0.5, 2.0\]", "torch.tensor([0.5, 2.0])"),
        (r"torch.rand\(", "torch.rand(1)"),
    ],
)
def test_random_values_stay_only_where_nothing_plainer_fails(needed: str, left: str) -> None:
    text = reduced(of("v = torch.bug(x)\nreturn (v,)", "torch.rand(2)"), r"torch.bug\(x\)", needed)
    assert f"x = {left}\n" in text


def test_one_input_needs_its_random_values_and_the_other_one_becomes_ones() -> None:
    program = of("v = torch.bug(x, y)\nreturn (v,)", "torch.randn(2)", "torch.randn(2)")
    text = reduced(program, r"torch.bug\(x, y\)", r"y = torch.randn")
    assert "x = torch.ones(1)" in text
    assert "y = torch.randn(1)" in text


def test_gradients_of_ones_come_before_random_ones() -> None:
    recipe = "{'backward': 'randn'}"
    program = of("v = torch.bug(x)\nreturn (v,)", "torch.randn(2).requires_grad_()", recipe=recipe)
    assert "'backward': 'sum'" in reduced(program, "torch.bug", "requires_grad", "'backward'")
    assert recipe in reduced(program, "torch.bug", "requires_grad", "'randn'")


def test_equal_sizes_shrink_each_alone() -> None:
    program = of("v = torch.bug(x)\nreturn (v,)", "torch.ones(8, 8, 8)")
    assert "torch.ones(1, 8, 1)" in reduced(program, r"torch.bug\(x\)", r"ones\(\d, 8, \d\)")
    two = of("v = torch.bug(x, y)\nreturn (v,)", "torch.ones(8, 5)", "torch.ones(8, 5)")
    text = reduced(two, r"torch.bug\(x, y\)", r"x = torch.ones\(\d, [45]\)", r"y = torch.ones\(\d, \d\)")
    assert "x = torch.ones(1, 4)" in text
    assert "y = torch.ones(1, 1)" in text


def test_dimensions_go_as_far_as_the_failure_allows() -> None:
    program = of("v = torch.bug(x)\nreturn (v,)", "torch.ones(2, 3, 4, 5)")
    assert "torch.ones(1, 1)" in reduced(program, "torch.bug", invalid=r"ones\(\d\)")
    assert "torch.ones(5)" in reduced(program, "torch.bug", r"ones\(.*5\)")


def test_numbers_in_code_become_as_small_as_the_failure_allows() -> None:
    program = of("v = torch.bug(x, [3, 3], 70, eps=1e-05) * 900\nreturn (v,)", "torch.ones(1)")
    text = reduced(program, r"torch.bug\(x, .*\) \* ([5-9]\d\d|\d{4})", r"\[\d, \d\], \d+, eps")
    assert "torch.bug(x, [1, 1], 1, eps=1) * 900" in text, "it is round, and half of it passes"


def test_the_only_element_of_a_list_stands_alone() -> None:
    program = of("v = torch.bug(x, [2, 2])\nreturn (v,)", "torch.ones(1)")
    assert "torch.bug(x, 2)" in reduced(program, r"torch.bug\(x, \[?2")


def test_lists_that_belong_together_shrink_together() -> None:
    many = "xyzabcdefghi"
    lists = f"[{', '.join(many[:5])}], [{', '.join(many[5:10])}]"
    program = of(f"v = torch._foreach_add({lists})\nw = v[0]\nu = v[3]\nreturn (w, u)", *["torch.randn(2)"] * 10)
    text = reduced(program, r"_foreach_add\(\[\w\], \[\w\]\)|_foreach_add\(\[(\w, ){4}\w\]")
    assert "torch._foreach_add([x], [x])" in text
    text = reduced(program, r"_foreach_add\(\[.*a.*\]", invalid=r"foreach_add\(\[\w\]")
    assert "torch._foreach_add([z, a]" in text
