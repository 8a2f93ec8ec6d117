"""What a failure may depend on, by the text."""

from __future__ import annotations

import ast

import pytest

from repro_kit.script import Script
from repro_kit.script.failing_statements import exits_by_no_tensor, outside_slices
from repro_kit.script.tree import NumberedTree


def sliced(text: str) -> list[str]:
    """The slices of a script whose last line fails."""
    program = Script.of(ast.parse(text))
    numbered = NumberedTree(program)
    line = len(program.text.splitlines())
    slices = [numbered.edited(dict.fromkeys(outside)) for outside in outside_slices(numbered, [line])]
    return [program.text for program in slices if program is not None]


def test_statements_that_the_failure_does_not_mention_go():
    (tight, _) = sliced("import math\nimport torch\na = torch.ones(3)\nb = math.pi\nprint(b)\na.sum()")
    assert tight.splitlines() == ["import torch", "a = torch.ones(3)", "a.sum()"]


@pytest.mark.parametrize(
    "line",
    [
        "a.append(3)",
        "a[0] = 3",
        "a += [3]",
        "change(a)",
        "b.a = 3",
        "del a",
        "for a in range(3):\n    pass",
        "with open('x') as a:\n    pass",
    ],
)
def test_what_changes_a_name_stays(line):
    (tight, _) = sliced(f"a = [1]\nz = 2\n{line}\nprint(a)")
    assert line.splitlines()[0] in tight and "z = 2" not in tight


def test_of_a_class_only_the_methods_that_are_used_stay():
    text = """
class A(Base):
    kind = 'x'
    size: int = 3
    def __init__(self):
        super().__init__()
        self.w = 1
        self.log = []
    def forward(self, x):
        note = 5
        return x * self.w
    def unused(self):
        return self.log
class Base:
    pass
A()(1)"""
    tight, loose = sliced(text)
    assert "unused" not in tight and "log" not in tight and "kind" not in tight and "note" not in tight
    assert "size: int" in tight and "super().__init__()" in tight and "class Base" in tight
    assert "note = 5" in loose and "self.log = []" in loose and "unused" not in loose


def test_a_loop_keeps_its_end_only_where_the_loop_is_needed():
    (tight, _) = sliced("for i in (1, 2):\n    if i:\n        break\nwhile True:\n    a = 1\n    break\nprint(a)")
    assert "break" in tight and "for" not in tight


def test_an_unknown_line_gives_no_slice():
    program = Script.of(ast.parse("a = 1"))
    assert outside_slices(NumberedTree(program), []) == outside_slices(NumberedTree(program), [9]) == []


def test_what_a_decorator_enters_in_a_registry_stays_where_its_key_is_mentioned():
    text = "@MODELS.register('my-model')\nclass A:\n    pass\n@MODELS.register('b')\nclass B:\n    pass\n"
    (tight, _) = sliced(f"MODELS = Registry()\n{text}fail(MODELS.build('my-model'))")
    assert "class A" in tight and "class B" not in tight


LOADED = "import sys\nn = len(sys.modules)\nif n > 3:\n    {}\nsys.exit(0)"


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        (LOADED.format("sys.exit('too many modules')"), True),
        (LOADED.format("raise SystemExit(1)"), True),
        (LOADED.replace("len(sys.modules)", "check()").format("sys.exit(1)"), False),
        ("import sys, torch\nif not torch.equal(a, b):\n    sys.exit(1)", False),
        ("import sys\nsys.exit(1)", False),
        ("import sys\n(", False),
    ],
)
def test_an_exit_by_no_tensor_is_told_from_the_text(script: str, answer: bool) -> None:
    assert exits_by_no_tensor(script) is answer
