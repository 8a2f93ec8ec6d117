"""Proposals that dissolve classes, pools, threads and comprehensions."""

from __future__ import annotations

import pytest

from proposed import simpler_texts, texts, unwrapped_texts
from repro_kit.script.proposals.classes import classes, unboxed
from repro_kit.script.proposals.in_place import expression_functions, reassigned
from repro_kit.script.proposals.indirect import coroutines, pools
from repro_kit.script.proposals.inline import first_items, functions
from repro_kit.script.proposals.parameters import parameters

TRAINER = """
class Trainer:
    def __init__(self, rate, size=2):
        super().__init__()
        self.rate, self.model = rate, make(size, rate)
    def loss(self, x):
        return self.model(x) * self.rate
    def step(self, x):
        return self.loss(x).backward()
"""
FUNCTIONS = """
def loss(x):
    return model(x) * rate

def step(x):
    return loss(x).backward()
"""


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("t = Trainer(other)\nt.step(3)\nt.step(t.rate)", "rate, model = (other, make(2, other))\nstep(3)\nstep(rate)"),
        ("Trainer(f(1)).step(3)", "rate = f(1)\nrate, model = (rate, make(2, rate))\nstep(3)"),
    ],
)
def test_methods_become_functions_and_attributes_variables_where_the_instance_is_made(use: str, expected: str) -> None:
    assert texts(classes, TRAINER + use) == [(FUNCTIONS + expected).strip()]


@pytest.mark.parametrize(
    "use",
    [
        "t = Trainer(1)\nt.other()",
        "t = Trainer(1)\nt(2)",
        "t = Trainer(1)\nt = 2\nt.step(3)",
        "Trainer.step(Trainer(1), 3)",
        "Trainer(*a).step(3)",
        "class B(Trainer):\n    x = 1\nB(1).step(3)",
    ],
)
def test_a_class_with_other_uses_stays(use: str) -> None:
    assert texts(classes, TRAINER + use) == []


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("m, n = (M(), 3)\nm(n)", "def m(x):\n    return x * w\nw = 2\nn = 3\nm(n)"),
        ("m, n = (M(), M())\nm(n(1))", "w = 2\n\ndef M(x):\n    return x * w\nM(M(1))"),
        ("m = M()\nm = compile(m)\nm(1)", "def M(x):\n    return x * w\nw = 2\nm = M\nm = compile(m)\nm(1)"),
    ],
)
def test_a_module_becomes_a_function_whatever_gives_it_a_name(use: str, expected: str) -> None:
    init = "    def __init__(self):\n        self.w = 2\n"
    model = f"class M(Module):\n{init}    def forward(self, x):\n        return x * self.w\n"
    assert texts(classes, model + use) == [expected]


def test_the_items_of_a_dataset_become_a_function() -> None:
    dataset = "class Data:\n    def __getitem__(self, at):\n        return f(at)\n"
    (text,) = texts(classes, f"{dataset}x = Data()[0]\n")
    assert text == "def __getitem__(at):\n    return f(at)\nx = __getitem__(0)"
    assert not texts(classes, f"{dataset}Data()[0] = 1\n")


def test_attributes_that_a_method_sets_are_global_variables() -> None:
    init = "    def __init__(self):\n        self.n = 0\n"
    (text,) = texts(
        classes, f"class A:\n{init}    def f(self):\n        self.n += 1\n        y.z = self.n\na = A()\na.f()"
    )
    assert text == "def f():\n    global n\n    n += 1\n    y.z = n\nn = 0\nf()"


def test_a_module_becomes_its_forward_with_one_set_of_attributes_for_all_instances() -> None:
    init = "    def __init__(self):\n        self.w = w()\n"
    text = f"class M(Module):\n{init}    def forward(self, x):\n        return x + self.w\n"
    function = "w = w()\n\ndef M(x):\n    return x + w\n"
    assert texts(classes, text + "m = M()\ncompile(m)(1)\nM()(2)") == [function + "compile(M)(1)\nM(2)"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("with Pool(2) as p:\n    x = p.submit(f, 1, k=2)\n    print(x.result())", "x = f(1, k=2)\nprint(x)"),
        ("p = Pool()\nfor x in p.map(f, xs):\n    g(x)", "for x in list(map(f, xs)):\n    g(x)"),
        ("p = Pool()\np.map(f, xs)\np.close()", "p = Pool()\nlist(map(f, xs))\np.close()"),
        ("t = threading.Thread(target=f, args=(1, 2))\nt.start()\nt.join()", "t = f(1, 2)\nt\nt"),
    ],
)
def test_what_a_pool_or_a_thread_does_is_called_plainly(text: str, expected: str) -> None:
    assert texts(pools, text) == [expected]


def test_coroutines_become_functions_that_are_called_plainly() -> None:
    script = """
import asyncio
async def f(x):
    loop = asyncio.get_running_loop()
    async with lock:
        return await loop.run_in_executor(None, model, x)
async def main():
    async for x in items:
        print(await asyncio.gather(*[f(x)], asyncio.to_thread(g, x, y=1)))
asyncio.run(main())
"""
    expected = """
import asyncio

def f(x):
    loop = asyncio.get_running_loop()
    with lock:
        return model(x)

def main():
    for x in items:
        print([*[f(x)], g(x, y=1)])
main()
"""
    assert texts(coroutines, script) == [expected.strip()]
    assert not texts(coroutines, "subprocess.run(f())")


@pytest.mark.parametrize("text", ["map(f, xs)", "x.result()", "Thread(target=f, args=args)", "', '.join(xs)"])
def test_what_hands_out_no_work_stays(text: str) -> None:
    assert texts(pools, text) == []


FIRST_PAIR = "{next(iter(d.items()))[0]: f(next(iter(d.items()))[1])}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[f(x) for x in [g(), 2]]", ["f(g())", "[f(g())]"]),
        ("[f(i, i) for i in range(3)]", ["f(0, 0)", "[f(0, 0)]"]),
        ("[f(x) for x in xs]", ["f(next(iter(xs)))", "[f(next(iter(xs)))]"]),
        ("[f(x, x) for x in [g()]]", []),
        ("{f(x) for x in [g()]}", ["f(g())", "{f(g())}"]),
        ("{k: f(k) for k in ['a', 'b']}", ["f('a')", "{'a': f('a')}"]),
        ("{k: f(x) for k, x in d.items()}", ["f(next(iter(d.items()))[1])", FIRST_PAIR]),
        ("{k: f(x) for k, x in {'a': g(), 'b': 2}.items()}", ["f(g())", "{'a': f(g())}"]),
        ("[f(x) for x in {'a': g()}.values()]", ["f(g())", "[f(g())]"]),
        ("[f(x) for x in {'a': g()}]", ["f('a')", "[f('a')]"]),
        ("[f(x) for x in {**d}.keys()]", ["f(next(iter({**d}.keys())))", "[f(next(iter({**d}.keys())))]"]),
        ("[f(i, a) for i, (a, b) in enumerate(zip([x], y))]", ["f(0, x)", "[f(0, x)]"]),
        ("next((f(x) for x in xs))", ["f(next(iter(xs)))", "next(f(next(iter(xs))))", "next([f(next(iter(xs)))])"]),
        ("[f(x) for x in xs for y in x]", []),
    ],
)
def test_the_first_element_takes_the_place_of_a_comprehension(text: str, expected: list[str]) -> None:
    assert texts(first_items, text) == expected


def test_a_loop_may_leave_only_what_it_goes_through() -> None:
    assert unwrapped_texts("for x in f():\n    pass")[-1] == "f()"


def test_a_parameter_goes_where_what_was_made_of_the_function_is_called() -> None:
    found = texts(parameters, "def f(x, y):\n    return x\ncompile(f, full=True)(2, 0.5)")
    assert found[-1] == "def f(x):\n    return x\ncompile(f, full=True)(2)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "compile(grad(lambda x, y, z: g(x)), full=True)(1, 2, k)",
            ["compile(grad(lambda x, z: g(x)), full=True)(1, k)", "compile(grad(lambda x, y: g(x)), full=True)(1, 2)"],
        ),
        (
            "def f(x, y):\n    return x\ngrad(f)(1, k)\ncompile(grad(f))(2, k)",
            ["def f(x):\n    return x\ngrad(f)(1)\ncompile(grad(f))(2)"],
        ),
    ],
)
def test_a_parameter_goes_where_what_several_made_of_the_function_is_called(before: str, after: list[str]) -> None:
    assert set(after) <= set(texts(parameters, before))


def test_an_unpacked_list_may_take_the_place_of_the_list_around_it() -> None:
    assert "f([g(x)])" in simpler_texts("f([*[g(x)]])")


@pytest.mark.parametrize(
    ("function", "call", "expected"),
    [
        ("def f(c, **d):\n    return c(1, **d)", "f(A, a=0, b=nn)", "x = A(1, a=0, b=nn)"),
        ("def f(c, *d, k=2):\n    return c(*d, k)", "f(A, 1, y)", "x = A(1, y, 2)"),
        ("def f(c=1, *d, **e):\n    g(d, e)\n    return c", "f(A, 1, z=y)", "g((1,), {'z': y})\nx = A"),
        ("def f(*d):\n    return g(d)", "f(*y)", None),
        ("def f(*d):\n    d_0 = 1\n    return g(*d, d_0)", "f(y)", None),
        ("def f(**d):\n    a = 2\n    return g(a, **d)", "f(a=1)", None),
    ],
)
def test_a_function_of_any_arguments_gives_way_to_its_body(function: str, call: str, expected: str | None) -> None:
    found = texts(functions, f"{function}\nx = {call}")
    assert found == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("compile(lambda x, a: x, full=True)(y, [])", "compile(lambda x: x, full=True)(y)"),
        ("(lambda x, a: x)(y, [])", "(lambda x: x)(y)"),
        ("f = lambda x, *, a=1: x\ncompile(f)(y, a=2)", "f = lambda x: x\ncompile(f)(y)"),
    ],
)
def test_a_parameter_of_a_lambda_goes_where_the_lambda_is_called(before: str, after: str) -> None:
    assert after in texts(parameters, before)


def test_a_parameter_of_a_lambda_stays_where_no_call_is_seen() -> None:
    assert not texts(parameters, "rows.sort(key=lambda row: 0)")


def test_a_parameter_of_a_module_goes_with_the_arguments_of_calls_that_may_be_its_instances() -> None:
    model = "from torch import nn\nclass M(nn.Module):\n    def forward(self, x, k):\n        return nn.Linear(x, 2)\n"
    use = "m = [M()]\nfor each in m:\n    each(1, 2)\ncompile(M())(3, 4)\n"
    (x, k) = (text for text in texts(parameters, model + use) if "each(1, 2)" not in text)
    assert "def forward(self, k)" in x and "each(2)" in x and "compile(M())(4)" in x
    assert "def forward(self, x)" in k and "nn.Linear(x, 2)" in k and "compile(M())(3)" in k


@pytest.mark.parametrize("call", ["export(M(), {})", "export(args={}, mod=m)"])
def test_a_parameter_of_a_module_goes_from_a_tuple_of_its_arguments(call: str) -> None:
    model = "class M(Module):\n\n    def forward(self, x, k):\n        return x"
    found = texts(parameters, f"{model}\n{call.format('(a, ())')}")
    assert f"{model.replace(', k', '')}\n{call.format('(a,)')}" in found


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("def f(g, x):\n    return g(x)\na = f(h, 1)\nb = f(compile(h), y)", "a = h(1)\nb = compile(h)(y)"),
        ("def f(x):\n    return x * x\na = f(g(1))\nb = f(2)", None),  # g would be called twice
        ("def f(x):\n    return x\na = f(1)\nb = map(f, y)", None),
        ("class A:\n\n    def f(x):\n        return x\nf(1)\nf(2)", None),
    ],
)
def test_a_function_of_one_expression_gives_way_to_the_expression_at_each_call(
    script: str, expected: str | None
) -> None:
    assert texts(expression_functions, script) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = f(x)\n    return g(x)", "return g(f(x))"),
        ("x = f(x)\n    x = g(x)\n    use(x, x)", "x = g(f(x))\n    use(x, x)"),
        ("x = f(x)\n    return g(x, x)", None),
        ("x = f(x)\n    y = g(x)\n    return x", None),
        ("x = f(x)\n    return y", None),
        ("x, y = (f(x), 1)\n    x = g(x)", "y = 1\n    x = g(f(x))"),
    ],
)
def test_a_value_that_only_the_next_statement_sees_comes_in_its_place(body: str, expected: str | None) -> None:
    found = texts(reassigned, f"def m(x):\n    {body}")
    assert found == ([f"def m(x):\n    {expected}"] if expected else [])


def test_the_next_item_of_a_list_is_its_first() -> None:
    assert "f(x)" in simpler_texts("next(iter([f, g]))(x)")


def test_the_only_item_of_a_list_takes_the_place_of_what_is_made_of_the_list() -> None:
    assert "y = f(x)" in simpler_texts("y = max([f(x)])")
    assert "y = f(x)" not in simpler_texts("y = max([f(x), z])")


BOX = """
class Log:
    def __init__(self, size):
        self.kept = [0] * size
    def add(self, x):
        self.kept.append(x)
    def last(self):
        return self.kept[-1]
"""


def test_a_class_around_one_value_becomes_that_value_and_functions_of_it() -> None:
    (text,) = texts(unboxed, f"{BOX}log = Log(2)\nrun(log).add(3)\nassert log.last() == 3")
    assert text.endswith("return self[-1]\nlog = [0] * 2\nadd(run(log), 3)\nassert last(log) == 3")


@pytest.mark.parametrize("use", ["f = Log(2).add", "Log(2).kept = 3", "Log", "add = 1\nLog(2).add(add)"])
def test_it_stays_where_something_else_is_done_with_it(use: str) -> None:
    assert texts(unboxed, BOX + use) == []
