"""A script records what its expressions return, and the values take the place of what computes them."""

from __future__ import annotations

import ast
import contextlib
import io

import pytest

from repro_kit.script import Script
from repro_kit.script.recording import Recorded, instrumented, read_recorded, without_reads
from repro_kit.script.tree import NumberedTree


def program_of(text: str) -> Script:
    return Script.of(ast.parse(text))


def output(text: str, **functions: object) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "script.py", "exec"), {"__name__": "__main__", **functions})
    return out.getvalue()


def number_of(program: Script, text: str, start: int = 0) -> int:
    numbered = NumberedTree(program)
    return next(number for number, node in enumerate(numbered.nodes) if ast.unparse(node) == text and number >= start)


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def f(self): return 'a'\nclass B(A):\n    def f(self): return super().f() + 'b'\nprint(B().f())",
        "import functools\n@functools.lru_cache(maxsize=2)\ndef f(x: int = max(1, 2)) -> int: return x\nprint(f())",
        "import enum\nclass E(enum.Enum):\n    A = 1\nmatch E.A:\n    case E.A: print('one')",
        "x = [1, 2]\nx[0] += 5\ndel x[1]\nx.append(len(x))\nprint(x, [y.real for y in x if y.bit_length()])",
        "def g():\n    yield from iter([1])\nfor a in g():\n    print(f'{a.real:>{len([1, 2])}}')",
        "from typing import List\nx: List[int] = list((1,))\nprint(*x, sep=str(3).strip())",
        "import asyncio\nasync def f(): return 1\nasync def g(): return await f()\nprint(asyncio.run(g()))",
        "with __import__('io').StringIO('a') as f:\n    print(f.read())\ng = lambda x: x.real\nprint(g(3))",
    ],
)
def test_an_instrumented_script_does_what_the_script_does(text):
    made = instrumented(program_of(text))
    functions = {
        "__begun__": lambda number: number,
        "__called__": lambda number, value: value,
        "__value__": lambda number, value: value,
        "__items__": lambda number, values: values,
    }
    assert output(made, **functions) == output(text)
    assert "__called__" in made


def test_the_innermost_call_that_can_be_written_takes_the_place_of_a_read():
    program = program_of("import json\ndata = json.loads(read('a.json'))")
    inner, outer = number_of(program, "read('a.json')"), number_of(program, "json.loads(read('a.json'))")
    both = Recorded({inner: "'{}'", outer: "{}"}, {}, ((outer, inner),))
    assert [form.text for form in without_reads(program, both)] == ["import json\ndata = json.loads('{}')\n"]
    only = Recorded({inner: None, outer: "{'a': 1}"}, {}, ((outer, inner),))
    assert [form.text for form in without_reads(program, only)] == ["import json\ndata = {'a': 1}\n"]
    assert without_reads(program, Recorded()) == []


def test_a_text_with_several_values_has_none():
    program = program_of("a = f(1)\nb = f(1)\nc = g()")
    first = number_of(program, "f(1)")
    second = number_of(program, "f(1)", first + 1)
    texts = Recorded({first: "3", second: "4", number_of(program, "g()"): "5"}).by_text(program).values
    assert {text: ast.unparse(value) for text, value in texts.items() if text in ("f(1)", "g()")} == {"g()": "5"}


def test_a_text_that_the_script_itself_has_is_not_private():
    program = program_of("modes = ['fp8-e4m3']\na = f()\nb = g()")
    recorded = Recorded({number_of(program, "f()"): "'fp8-e4m3'", number_of(program, "g()"): "'/home/ann'"})
    assert recorded.by_text(program).values.keys() == {"f()"}


@pytest.mark.parametrize("data", [b"", b"[]", b'{"values": 3}', b'{"values": {}, "items": {}, "reads": 3}'])
def test_a_damaged_record_counts_as_none(data):
    assert read_recorded(data) == Recorded()


@pytest.mark.parametrize(
    "value", ["'/home/me/data'", "'hf_0123456789abcdefghijklmnop'", "[b'x']", "{'a': 'two words'}"]
)
def test_a_text_that_may_be_private_takes_no_place(value):
    program = program_of("a = f(1)")
    recorded = Recorded({number_of(program, "f(1)"): value})
    assert not recorded.by_text(program).values
