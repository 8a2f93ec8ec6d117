"""Proposals that drop what comes after the failure, and the decorators of functions."""

from __future__ import annotations

import ast
import re

import pytest

from proposed import simpler_texts, texts, unwrapped_texts
from repro_kit.script import Script
from repro_kit.script.failing_statements import cut_off
from repro_kit.script.proposals import expressions
from repro_kit.script.proposals.classes import classes
from repro_kit.script.proposals.in_place import decorators
from repro_kit.script.recording import with_released
from repro_kit.script.tree import NumberedTree

SEARCH = """\
class Searcher:
    def rank(self, beam):
        heap = make(beam)
        heapify(heap)
        return heap
    def run(self):
        for step in count():
            if step > 8:
                break
            top, rest = self.rank(beam)
            beam = rest
        return beam
with no_grad():
    print(Searcher().run().tokens)
    print('end')
report()
"""


def _cut(text: str, lines: list[int]) -> str:
    numbered = NumberedTree(Script(text))
    program = numbered.edited({number: edit for edits in cut_off(numbered, lines) for number, edit in edits.items()})
    assert program is not None
    return program.text.strip()


def test_every_function_that_the_failure_passed_through_ends_there() -> None:
    assert _cut(SEARCH, [14, 10, 4]) == (
        "class Searcher:\n\n    def rank(self, beam):\n        heap = make(beam)\n        heapify(heap)\n\n"
        "    def run(self):\n        for step in count():\n            if step > 8:\n                break\n"
        "            self.rank(beam)\nwith no_grad():\n    Searcher().run()"
    )


def test_the_edits_come_by_function_the_outermost_call_first() -> None:
    numbered = NumberedTree(Script(SEARCH))
    dropped = [
        [ast.unparse(numbered.nodes[number]) for number, edit in edits.items() if edit is None]
        for edits in cut_off(numbered, [14, 10, 4])
    ]
    assert dropped == [["report()", "print('end')"], ["return beam", "beam = rest"], ["return heap"]]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def batches():\n    x = load()\n    yield x\nfor x in batches():\n    f(x)", [2, 4]),  # a generator
        ("class A:\n    x = load()\n    y = 2\nA.y", [2]),
        ("if f():\n    g()", [1]),
        ("f()", [5]),
    ],
)
def test_what_is_no_step_after_the_failure_stays(text: str, lines: list[int]) -> None:
    assert cut_off(NumberedTree(Script(text)), lines) == []


def test_handlers_and_branches_before_the_failure_stay() -> None:
    text = "try:\n    f()\n    g()\nexcept E:\n    h()\nelse:\n    k()"
    assert _cut(text, [2]) == "try:\n    f()\nexcept E:\n    h()\nelse:\n    k()"


def test_the_value_of_a_failing_assignment_runs_alone() -> None:
    assert _cut("y = f(x) + 1\ng(y)", [1]) == "f(x) + 1"


def test_what_takes_the_place_of_a_statement_keeps_the_names_that_it_reads() -> None:
    text = "def f():\n    return 1\ndef g():\n    return 2\ny = f()\nz = g()\nprint(y)"
    numbered = NumberedTree(Script(text))
    cut = {number: edit for edits in cut_off(numbered, [5]) for number, edit in edits.items()}
    program = numbered.edited(with_released(numbered, cut))
    assert program is not None
    assert program.text == "def f():\n    return 1\nf()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for i in count():\n    if i > 3:\n        break\n    f(i)", "f(next(iter(count())))"),
        ("while True:\n    if done():\n        log()\n        break\n    else:\n        g()\n    f()", "g()\nf()"),
        ("while True:\n    f()\n    continue\n    g()", "f()"),
    ],
)
def test_a_loop_runs_once_without_what_ends_it(text: str, expected: str) -> None:
    assert expected in unwrapped_texts(text)


def test_what_nothing_reads_goes_at_once_from_an_assignment_to_several() -> None:
    text = "self.a, self.b, c = (1, 2, 3)\nprint(c)"
    assert unwrapped_texts(text)[0] == "c = 3\nprint(c)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "def f(**d):\n    return lambda e: compile(e, **d)\n@f(full=True)\ndef g():\n    h()\ng()\ng()",
            ["@lambda e: compile(e, full=True)\ndef g():\n    h()\ng()\ng()"],
        ),
        (
            "def f(n):\n    def wrap(e):\n        return compile(e, n)\n    return wrap\n"
            "@f(2)\ndef g():\n    h()\ng()\ng()",
            ["@lambda e: compile(e, 2)\ndef g():\n    h()\ng()\ng()"],
        ),
        ("@lambda e: compile(e, full=True)\ndef g():\n    h()\ng()", ["def g():\n    h()\ncompile(g, full=True)()"]),
        ("def f(x):\n    return x\n@f(load())\ndef g():\n    h()\ng()\ng()", []),
        ("@compile\ndef g():\n    h()\ng()\ng()", []),
    ],
)
def test_a_decorator_becomes_plain_code(text: str, expected: list[str]) -> None:
    assert texts(decorators, text) == expected


def test_a_method_keeps_its_decorator_as_a_function() -> None:
    text = "class A:\n    @compile(full=True)\n    def f(self):\n        g()\nA().f()"
    assert texts(classes, text) == ["@compile(full=True)\ndef f():\n    g()\nf()"]
    assert texts(classes, text.replace("compile(full=True)", "property")) == []


def test_what_compiles_keeps_its_backend() -> None:
    assert "run(torch.compile)" not in simpler_texts("run(functools.partial(torch.compile, backend='eager'))")
    assert "run(f)" in simpler_texts("run(functools.partial(f, size=3))")
    assert "run(f)" in simpler_texts("run(torch.compile(f, backend='eager'))")


def test_no_module_and_no_constant_takes_the_place_of_what_is_called() -> None:
    text = "import heapq\n\n@f(True)\ndef g():\n    heapq.heapify(h())"
    programs = "\n".join(simpler_texts(text))
    assert "    heapq\n" not in f"{programs}\n"
    assert "@None" not in programs
    assert "    h()\n" in f"{programs}\n"


@pytest.mark.parametrize(
    "made",
    [
        "ones(2, 3)",
        "zeros((2, 3))",
        "torch.randn([3])",
        "torch.full((2,), 0)",
        "nn.Linear(4, 2)",
        "nn.LayerNorm((2, 3))",
        "nn.Conv2d(in_channels=2, out_channels=3, kernel_size=3)",
        "Embedding(2, embedding_dim=3)",
    ],
)
def test_no_size_of_a_tensor_or_a_module_becomes_zero(made: str) -> None:
    numbered = NumberedTree(Script(f"torch.{made.removeprefix('torch.')}\n"))
    smaller = {program.text.strip() for program in _with_plainer_literals(numbered)}
    assert smaller and not any(re.search(r"[(\[ =]0[,\])]", text.removesuffix(", 0)")) for text in smaller)


def test_a_number_that_is_no_size_becomes_zero_and_with_it_no_size() -> None:
    numbered = NumberedTree(Script("torch.full((2, 3), 1).sum(2)\n"))
    texts = [program.text.strip() for program in _with_plainer_literals(numbered)]
    assert "torch.full((2, 3), 0).sum(2)" in texts and "torch.full((2, 3), 1).sum(0)" in texts
    assert "torch.full((1, 3), 1).sum(1)" in texts and "torch.full((0, 3), 1).sum(0)" not in texts


@pytest.mark.parametrize("end", ["raise SystemExit(X)", "sys.exit(X)"])
def test_a_script_ends_with_one_and_not_with_an_empty_text(end: str) -> None:
    numbered = NumberedTree(Script(end.replace("X", "'rows differ'") + "\n"))
    assert [program.text.strip() for program in _with_plainer_literals(numbered)] == [end.replace("X", "1")]


def _with_plainer_literals(numbered: NumberedTree) -> list[Script]:
    proposed = [*expressions.sizes(numbered), *expressions.literals(numbered)]
    programs = [numbered.edited(edits) for candidates in proposed for edits in candidates]
    return [program for program in programs if program is not None]
