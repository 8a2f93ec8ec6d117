"""Proposals that bring together what a script has in several places: registries, generators, attributes, parts."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from proposed import texts, unwrapped_texts
from repro_kit.script import Script
from repro_kit.script.proposals.in_place import accumulated, attributes
from repro_kit.script.proposals.indirect import first_yields, generators, registered
from repro_kit.script.proposals.inline import functions, methods, variables
from repro_kit.script.recording import results, with_released
from repro_kit.script.tree import NumberedTree


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("x = MODELS.build('small', 3, w=2)", "x = Small(3, w=2)"),
        ("x = MODELS['small'](3)", "x = Small(3)"),
        ("x = MODELS.get('small')(3)", "x = Small(3)"),
        ("x = create('small')\ny = create('small')", "x = Small()\ny = Small()"),
    ],
)
def test_what_is_looked_up_in_a_registry_is_named(use: str, expected: str) -> None:
    definition = "@MODELS.register(name='small')\nclass Small:\n    pass\n"
    assert f"class Small:\n    pass\n{expected}" in texts(registered, definition + use)


@pytest.mark.parametrize("text", ["@property\ndef f():\n    return 1\ng('f')", "@lru_cache(8)\ndef f():\n    return 1"])
def test_a_decorator_without_a_text_is_no_registry(text: str) -> None:
    assert texts(registered, text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "def batches(n):\n    r = seed()\n    for i in range(n):\n        yield r, i\n"
            "for x, y in batches(2):\n    step(x, y)",
            "r = seed()\nfor i in range(2):\n    x, y = (r, i)\n    step(x, y)",
        ),
        (
            "def every(loader):\n    yield from loader\nfor x in every(data()):\n    for y in x:\n        break",
            "loader = data()\nfor x in loader:\n    for y in x:\n        break",
        ),
        (
            "@contextmanager\ndef timed(name):\n    t = now()\n    try:\n        yield t\n    finally:\n"
            "        log(name)\n"
            "with timed('a') as clock:\n    f(clock)",
            "t = now()\ntry:\n    clock = t\n    f(clock)\nfinally:\n    log('a')",
        ),
        ("@contextlib.contextmanager\ndef c():\n    a()\n    yield\nwith c():\n    f()", "a()\nf()"),
    ],
)
def test_a_block_runs_where_a_generator_yields(text: str, expected: str) -> None:
    assert texts(generators, text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "def g():\n    yield 1\nfor x in g():\n    break",
        "def g():\n    yield 1\nfor x in g():\n    if x:\n        continue",
        "def g():\n    yield 1\nfor x in g():\n    f()\nelse:\n    h()",
        "def g():\n    yield 1\n    yield 2\nfor x in g():\n    f()",
        "def g():\n    y = yield 1\nfor x in g():\n    f()",
        "def g():\n    yield 1\n    return\nfor x in g():\n    f()",
        "def g():\n    yield 1\nfor x in g():\n    f()\ng()",
        "def g():\n    yield 1\nwith g():\n    f()",
        "for x in g():\n    f()",
    ],
)
def test_a_generator_that_its_text_does_not_show_in_full_stays(text: str) -> None:
    assert texts(generators, text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def g(n):\n    a = n\n    yield a, 1\n    b()\nx = f(next(g(2)))", ["a = 2\nx = f((a, 1))"]),
        ("def g(n):\n    yield n\nnext(iter(g(2)))", ["2"]),
        ("def g(n):\n    for i in n:\n        yield i\nnext(g(2))", []),  # the loop may not run
        ("def g():\n    yield 1\nnext(g())\nnext(g())", []),
        ("next(g())", []),
    ],
)
def test_what_a_generator_yields_first_takes_the_place_of_next(text: str, expected: list[str]) -> None:
    assert texts(first_yields, text) == expected


def _class(init: str, forward: str) -> str:
    return f"class M(N):\n\n    def __init__(self, n):\n        {init}\n\n    def forward(self, x):\n        {forward}"


def test_the_value_of_an_attribute_that_is_read_once_takes_its_place() -> None:
    assert texts(attributes, _class("self.a = Linear(1)", "return self.a(x)")) == [
        _class("pass", "return Linear(1)(x)")
    ]


@pytest.mark.parametrize("setter", ["register_buffer", "register_parameter", "add_module"])
def test_the_value_of_an_attribute_that_a_call_sets_takes_its_place(setter: str) -> None:
    init = f"self.{setter}('a', Linear(1))"
    assert texts(attributes, _class(init, "return self.a(x)")) == [_class("pass", "return Linear(1)(x)")]
    assert texts(attributes, _class("self.note('a', Linear(1))", "return self.a(x)")) == []


METHODS = """
class A:

    def helper(self, n):
        {helper}

    def run(self, x):
        return self.helper(x) + 1
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (METHODS.format(helper="g(self.a)\n        return n"), ["g(self.a)\n        return x + 1"]),
        (
            METHODS.format(helper="g()\n        return n").replace(
                "def helper(self,", "@staticmethod\n    def helper("
            ),
            ["g()\n        return x + 1"],
        ),
        (METHODS.format(helper="return n").replace("def helper(self,", "@classmethod\n    def helper(self,"), []),
        (METHODS.format(helper="return self.helper(n)"), []),
        (METHODS.format(helper="return n") + "A().helper(2)", []),
        (METHODS.format(helper="return n").replace("def run(self", "def run(me"), []),
        ("class A:\n    def f(self):\n        g()\n\nclass B:\n    def h(self):\n        self.f()", []),
    ],
)
def test_a_method_goes_in_the_place_of_its_only_call(text: str, expected: list[str]) -> None:
    found = texts(methods, text)
    assert len(found) == len(expected)
    assert all(
        f"class A:\n\n    def run(self, x):\n        {part}" in program for part in expected for program in found
    )


@pytest.mark.parametrize(
    ("init", "forward"),
    [
        ("self.a = Linear(n)", "return self.a(x)"),  # what only `__init__` knows
        ("self.a = 1", "return self.a + self.a"),
        ("self.a = 1", "self.a = 2\n        return self.a"),
        ("self.a = 1", "return x"),
    ],
)
def test_other_attributes_stay(init: str, forward: str) -> None:
    assert texts(attributes, _class(init, forward)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a, b = f()\ng(b)", ["g(f()[1])"]),
        ("a, b = f()\ng(a, b)", []),
        ("a, b = f()\ng(b)\nh(b)", []),
        ("a, (b, c) = f()\ng(a)", []),
        ("a, b = (1, 2)\nb = g(b)", []),
    ],
)
def test_the_only_part_that_is_read_of_a_value_takes_its_place(text: str, expected: list[str]) -> None:
    assert texts(variables, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = [1]\n\ndef f(x):\n    return x\nf(x)", "def f(x):\n    return x\nf([1])"),
        ("x = g()\nf(lambda x: x, x)", "f(lambda x: x, g())"),
        ("x = g()\n\ndef f(x, y=x):\n    return x + y", "def f(x, y=g()):\n    return x + y"),
    ],
)
def test_the_same_name_in_another_function_is_another_variable(text: str, expected: str) -> None:
    assert texts(variables, text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = []\nf()\na.append(x)", ["f()\na = [x]"]),
        ("a = [1]\na.append(x)\nreturned(a)", ["a = [1, x]\nreturned(a)"]),
        ("a = {}\na['k'] = x", ["a = {'k': x}"]),
        ("a = 0\na += x", ["a = x"]),
        ("if c:\n    a = []\n    a.append(x)", ["if c:\n    a = [x]"]),
        ("a = []\nf(a)\na.append(x)", []),
        ("a = []\na.append(len(a))", []),
        ("a = []\na.append(*x)", []),
        ("a = {}\na[len(a)] = x", []),
        ("a = 0\na += a", []),
        ("a = f()\na.append(x)", []),
        ("a = []\nfor x in y:\n    a.append(x)", []),
    ],
)
def test_what_two_statements_put_together_is_written_out(text: str, expected: list[str]) -> None:
    assert texts(accumulated, text) == expected


GUARDED = "def f(c):\n    if c:\n        return a()\n    g()\n    return b()\n"
TRIED = "def f():\n    try:\n        return a()\n    except E:\n        pass\n"
LOOP = "def f():\n    for i in y:\n        return i\n    return 0\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GUARDED + "f(c)", ["if c:\n    a()\nelse:\n    g()\n    b()"]),
        (GUARDED + "x = f(c)", ["if c:\n    x = a()\nelse:\n    g()\n    x = b()"]),
        (GUARDED + "x = 1 + f(c)", []),
        (TRIED + "f()", ["try:\n    a()\nexcept E:\n    pass"]),
        (TRIED + "x = f()", ["try:\n    x = a()\nexcept E:\n    x = None"]),
        ("def f():\n    if c:\n        return\n    g()\nf()", ["if c:\n    pass\nelse:\n    g()"]),
        ("def f():\n    with m:\n        if c:\n            return 1\n        g()\nx = f()",
         ["with m:\n    if c:\n        x = 1\n    else:\n        g()\n        x = None"]),
        (LOOP + "x = f()", []),
        ("def f():\n    if a:\n        if b:\n            return 1\n    g()\n    return 2\nx = f()", []),
        ("def f():\n    if a:\n        g()\n    else:\n        return 1\n    h()\nx = f()",
         ["if a:\n    g()\n    h()\n    x = None\nelse:\n    x = 1"]),
        (LOOP + "def h():\n    return f()", ["def h():\n    for i in y:\n        return i\n    return 0"]),
        ("def f():\n    if c:\n        return 1\n    g()\ndef h():\n    return f()",
         ["def h():\n    if c:\n        return 1\n    g()\n    return"]),
        ("def f():\n    if c:\n        return 1\n    yield 2\nf()", []),
    ],
)  # fmt: skip
def test_a_function_that_ends_in_several_places_goes_in_that_of_its_call(text: str, expected: list[str]) -> None:
    assert texts(functions, text) == expected


def test_the_first_items_of_collections_that_a_loop_goes_through_together() -> None:
    found = unwrapped_texts("for (i, (a, b)) in enumerate(zip([x, y], z)):\n    f(a)")
    assert "i, (a, b) = (0, (x, next(iter(z))))\nf(a)" in found
    assert "for a, b in zip([x, y], z):\n    f(a)" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for f in self.layers:\n    x = f(x)", "x = self.layers[0](x)"),
        ("for f in self.layers:\n    x = f(x)", "x = next(iter(self.layers))(x)"),
        ("for f in [g, h]:\n    if x:\n        f(x)", "if x:\n    g(x)"),
    ],
)
def test_the_first_item_takes_the_place_of_a_loop_that_reads_it_once(text: str, expected: str) -> None:
    assert expected in unwrapped_texts(text)


MODEL = """
class Neck:
    def forward(self, x):
        return helper(x)

def helper(x):
    return x

class Model:
    def __init__(self):
        self.neck, self.head = Neck(), Head()
        self.scale = 2

    def forward(self, x):
        x = self.neck(x)
        return self.head(x) * self.scale
"""
RANDOM = ast.parse("torch.randn(2)", mode="eval").body


def test_what_only_a_replaced_call_needs_goes_with_it() -> None:
    numbered = NumberedTree(Script(MODEL.replace("self.neck, self.head = Neck(), Head()", "self.neck = Neck()")))
    values: Mapping[str, ast.expr] = {"self.neck(x)": RANDOM, "self.head(x)": RANDOM, "helper(x)": ast.Constant(1)}
    places = results(numbered, values, lines=[])
    assert [ast.unparse(numbered.nodes[number]) for number in places] == ["self.neck(x)", "self.head(x)"]
    edited = numbered.edited(with_released(numbered, {min(places): RANDOM}))
    assert edited is not None
    assert edited.text.replace("\n\n", "\n").strip() == (
        "class Model:\n    def __init__(self):\n        self.scale = 2\n"
        "    def forward(self, x):\n        x = torch.randn(2)\n        return self.head(x) * self.scale"
    )


def test_an_assignment_with_a_name_that_is_still_read_stays() -> None:
    numbered = NumberedTree(Script(MODEL))
    edits = with_released(numbered, results(numbered, {"self.neck(x)": RANDOM}, lines=[]))
    edited = numbered.edited(edits)
    assert edited is not None and "self.neck, self.head = (Neck(), Head())" in edited.text


def test_the_call_around_others_on_a_failing_line_is_the_one_that_fails() -> None:
    numbered = NumberedTree(Script("y = head(neck(x), key=f(x))\nz = g(y)\n"))
    values = dict.fromkeys(["head(neck(x), key=f(x))", "neck(x)", "f(x)", "g(y)"], RANDOM)
    places = results(numbered, values, lines=[1])
    assert [ast.unparse(numbered.nodes[number]) for number in places] == ["neck(x)", "f(x)", "g(y)"]
