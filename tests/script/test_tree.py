"""Edits of a syntax tree give a program that Python can compile, or none."""

from __future__ import annotations

import ast

from repro_kit.script import Script
from repro_kit.script.tree import NumberedTree

TEXT = """
import collections, os.path as path
from math import sin as sine

class Window(collections.deque, metaclass=type):
    size: int = 2

    @property
    def last(self, *rest, key=None, **named) -> int:
        return self.held[-1].value if self.held else (yield from rest)

async def run(items):
    async with items as held:
        return await held(maxlen=items.size, *items, **named)

for name, number in zip("ab", [1, 2]):
    with open(name, mode="r") as file, path:
        table = {name: number, **{}}
    try:
        total = sum(x * 2 for x in range(number) if x) + (y := number)
    except (ValueError, KeyError) as error:
        raise RuntimeError(f"{error!r:>{number}}") from error
    finally:
        del table[name], table[1:2:3]
match number:
    case [1, *rest] if rest:
        assert not rest, "rest"
    case {"a": Window(size=2)} | None:
        print(lambda a, b=1: a < b <= 3 and -a, end="")
"""


def test_a_block_of_one_statement_stands_on_the_line_of_its_header() -> None:
    text = "class A(type):\n    pass\nfor a in b:\n    if a:\n        c()\n    else:\n        d()\n"
    compact = Script(text).compact
    assert compact.text == "class A(type): pass\nfor a in b:\n    if a: c()\n    else: d()\n"
    assert (
        Script("class A:\n\n    def f(self):\n        return 1\n").compact.text
        == "class A:\n    def f(self): return 1\n"
    )
    assert Script(TEXT).compact.tree is not None and ast.dump(Script(TEXT).compact.tree) == ast.dump(ast.parse(TEXT))
    long = f"def f():\n    return {'x' * 90}\n"
    assert Script(long).compact.text == long


def test_several_values_stand_without_brackets_where_python_needs_none() -> None:
    text = "a, b = (1, (2, 3))\nc = (4,)\nd = ()\n\ndef f():\n    return (a, *b)\ng((5, 6))\n"
    assert Script(text).compact.text == "a, b = 1, (2, 3)\nc = (4,)\nd = ()\n\ndef f(): return a, *b\ng((5, 6))\n"


def test_every_node_can_be_dropped_or_cannot_and_nothing_breaks() -> None:
    numbered = NumberedTree(Script.of(ast.parse(TEXT)))
    programs = [numbered.edited({number: None}) for number in range(1, len(numbered.nodes))]
    smaller = [program for program in programs if program is not None]
    assert len(smaller) > 40
    assert all(len(program.text) <= len(numbered.program.text) for program in smaller)
    number = numbered.number(next(node for node in ast.walk(numbered.tree) if isinstance(node, ast.keyword)))
    value = next(node for node in ast.walk(numbered.tree) if isinstance(node, ast.keyword)).value
    assert numbered.edited({numbered.number(value): None}) == numbered.edited({number: None})
