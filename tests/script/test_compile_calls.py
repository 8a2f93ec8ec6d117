"""Calls that compile: their settings, and the same script with another backend."""

import pytest

from repro_kit.script import Script
from repro_kit.script.compile_calls import left_to_eager, settings, with_backend
from repro_kit.script.tree import NumberedTree

DEFAULTS = {"backend": "inductor", "mode": None, "dynamic": None, "fullgraph": False}


def program(text: str) -> Script:
    import ast

    return Script.of(ast.parse(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.compile(f)", DEFAULTS),
        ("torch.compile(f, backend='eager', fullgraph=True)", {**DEFAULTS, "backend": "eager", "fullgraph": True}),
        ("@torch.compile\ndef f(): pass", DEFAULTS),
        ("from torch import compile as c\nc(f, dynamic=True)", {**DEFAULTS, "dynamic": True}),
        ("torch.compile(f, backend=mine)", {key: value for key, value in DEFAULTS.items() if key != "backend"}),
        ("import re\nre.compile('a')", {}),
    ],
)
def test_the_settings_are_those_of_the_first_call_that_compiles(text: str, expected: dict[str, object]) -> None:
    assert settings(program(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.compile(f, mode='lite', dynamic=True)", "torch.compile(f, dynamic=True, backend='eager')"),
        ("torch.compile(f, backend=mine)", "torch.compile(f, backend='eager')"),
        ("@torch.compile\ndef f():\n    pass", "@torch.compile(backend='eager')\ndef f():\n    pass"),
        ("net.compile()", "net.compile(backend='eager')"),
        ("partial(torch.compile, fullgraph=True)(f)", "partial(torch.compile, fullgraph=True, backend='eager')(f)"),
        ("import re\nre.compile('a')", None),
        ("torch.compile(f, backend='eager')", None),
        (
            "wrap = torch.compile if fast else same",
            "import functools\nwrap = functools.partial(torch.compile, backend='eager') if fast else same",
        ),
        (
            "from __future__ import annotations\ntrain(net, compile_fn=torch.compile)",
            "from __future__ import annotations\nimport functools\n"
            "train(net, compile_fn=functools.partial(torch.compile, backend='eager'))",
        ),
        (
            "from torch import compile\nrun(compile)\ncompile(f)",
            "import functools\nfrom torch import compile\n"
            "run(functools.partial(compile, backend='eager'))\ncompile(f, backend='eager')",
        ),
        ("assert torch.compile", "import functools\nassert functools.partial(torch.compile, backend='eager')"),
    ],
)
def test_a_backend_is_written_into_every_call_that_compiles(text: str, expected: str | None) -> None:
    form = with_backend(program(text), "eager")
    assert (form.text.strip() if form else None) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a, b = torch.compile(f, dynamic=True), torch.compile(g)",
            ["a, b = f, torch.compile(g)", "a, b = torch.compile(f, dynamic=True), g"],
        ),
        ("@no_grad\n@torch.compile(mode='lite')\ndef f(): pass", ["@no_grad\ndef f(): pass"]),
        ("@torch.compile\ndef f(): pass", ["def f(): pass"]),
        ("torch.compile(backend=mine)(f)(x)", ["f(x)"]),
        ("torch.compile(f)(x)", ["f(x)"]),
        ("net.compile()\nnet(x)", ["net(x)"]),
        ("partial(torch.compile, fullgraph=True)(f)", ["f"]),
        ("c = partial(torch.compile, fullgraph=True)\nmap(torch.compile, models)", []),
    ],
)
def test_each_call_that_compiles_can_leave_its_function_to_eager(text: str, expected: list[str]) -> None:
    numbered = NumberedTree(program(text))
    programs = [numbered.edited(edits) for edits in left_to_eager(numbered)]
    assert programs == [program(one) for one in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wrap = torch.compile if fast else same\ny = wrap(f)(x) + wrap(g, dynamic=True)(x)",
         ["y = f(x) + wrap(g, dynamic=True)(x)", "y = wrap(f)(x) + g(x)"]),
        ("class A:\n    def __init__(self, wrap):\n        self.wrap = wrap\n"
         "    def go(self):\n        return self.wrap(f)\nA(partial(torch.compile, mode='lite')).go()",
         ["        return f\n"]),
        ("def run(*, wrap):\n    @wrap\n    def inner(x): pass\nrun(wrap=torch.compile)\nsame(g)",
         ["def run(*, wrap):\n\n    def inner(x):\n        pass\n"]),
        ("wrap = lambda f: f\nwrap(g)", []),
    ],
)  # fmt: skip
def test_a_call_may_compile_by_another_name(text: str, expected: list[str]) -> None:
    numbered = NumberedTree(program(text))
    programs = [numbered.edited(edits) for edits in left_to_eager(numbered)]
    assert len(programs) == len(expected)
    assert all(made is not None and part in made.text for made, part in zip(programs, expected, strict=True))
