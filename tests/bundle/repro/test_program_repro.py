"""The text of `repro.py` for a program: as a person would write it for a report."""

import ast
import sys

import pytest

from programs import FAILING, HEAD, RELU
from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.program_repro import render_program
from repro_kit.case.stage_results import Environment
from repro_kit.failure.failure import Difference, ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.graph import parse
from repro_kit.graph.reading.raw_graph import HELPERS
from repro_kit.recipe import Recipe

ENV = Environment("3.11", sys.executable, "Linux", "2.13.0")
ACCURACY = Signature(Kind.ACCURACY, difference="value")


def written(text: str, signature: Signature = ACCURACY, failure: Failure | None = None, *, whole: bool = False) -> str:
    repro = render_program(parse(text), Facts(signature, failure, ENV), whole=whole)["repro.py"]
    ast.parse(repro)
    return repro


def relu(recipe: str = "{}", body: str = RELU) -> str:
    return f"{HEAD}RECIPE = {recipe}\n\n{body}"


def test_a_wrong_gradient_is_ten_lines_of_public_names() -> None:
    body = """
def graph(add):
    avg_pool2d = torch._C._nn.avg_pool2d(add, 2, 2, 0, True)
    return (avg_pool2d,)


def calls():
    add = torch.ones(1, 1, 1, 1).requires_grad_()
    return [(add,)]
"""
    assert (
        written(relu("{'backward': 'sum'}", body))
        == """\
import torch
import torch.nn.functional as F

def f(add):
    return F.avg_pool2d(add, 2, 2, 0, True)

add = torch.ones(1, 1, 1, 1, requires_grad=True)
expected = torch.autograd.grad(f(add).sum(), add)
torch.testing.assert_close(torch.autograd.grad(torch.compile(f)(add).sum(), add), expected)
"""
    )


def test_a_tolerance_is_left_out_where_one_whole_number_is_compared() -> None:
    stated = relu("{'rtol': 1e-3, 'atol': 1e-3}")
    exact = Difference("value", "output 0", exact=True)
    texts = [
        written(stated, failure=Failure(Kind.ACCURACY, difference=one), whole=whole).splitlines()[-1]
        for one, whole in ((exact, False), (exact, True), (Difference("value", "output 0"), False))
    ]
    assert ["rtol" in text for text in texts] == [False, True, True]


HELPER = HELPERS["AutogradFunction"]
OWN_BACKWARD = f"""{HELPER}


def body_0(x, seen):
    return ((x,), (seen,))


def body_1(grad, seen):
    kept = seen.add_(grad)
    return (grad, None)


def graph(x):
    seen = x.clone()
    v = AutogradFunction.apply(body_0, body_1, x, seen)
    out = v[0]
    return (seen, out)


def calls():
    x = torch.ones(1)
    return [(x,)]
"""


def test_of_several_arguments_the_one_that_is_written_wrongly_is_compared() -> None:
    body = RELU.replace("graph(x)", "graph(x, y)").replace("torch.relu(x)", "x.add_(y)")
    body = body.replace("[(x,)]", "[(x, y)]").replace("    return [(", "    y = torch.ones(4)\n    return [(")
    after = Failure(Kind.ACCURACY, difference=Difference("value", "x after the call"))
    assert "    return x\n" in written(relu("{}", body), failure=after)
    assert "(x, y)" in written(relu("{}", body), failure=after, whole=True).partition("def run")[2]


def test_a_function_with_a_backward_of_its_own_is_one_class() -> None:
    text = written(relu("{'check': False}", OWN_BACKWARD), Signature(Kind.COMPILE_ERROR))
    assert (
        text.partition("\nclass ")[2].partition("\nx = ")[0]
        == """AutogradFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seen):
        ctx.save_for_backward(seen)
        return x

    @staticmethod
    def backward(ctx, grad):
        (seen,) = ctx.saved_tensors
        seen.add_(grad)
        return (grad, None)

def f(x):
    seen = x.clone()
    return (seen, AutogradFunction.apply(x, seen))
"""
    )
    twice = OWN_BACKWARD.replace(
        "    out = v[0]", "    out = v[0]\n    w = AutogradFunction.apply(body_0, body_1, x, x)"
    )
    assert "apply(body_0, body_1, x, seen)" in written(relu("{'check': False}", twice), Signature(Kind.COMPILE_ERROR))


def test_an_error_is_two_calls_and_says_which_error() -> None:
    failure = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("torch._inductor.exc.InductorError", "no loop"),))
    text = written(relu("{'check': False}"), Signature(Kind.COMPILE_ERROR), failure)
    assert text.endswith("f(x)\ntorch.compile(f)(x)  # InductorError: no loop\n")


def test_an_error_needs_no_inputs_of_its_own_and_idle_results_no_names() -> None:
    body = RELU.replace("    return (relu", "    add_ = x.add_(1)\n    drawn = torch.rand(1)\n    return (relu")
    text = written(relu("{'check': False}", body), Signature(Kind.RUNTIME_ERROR))
    assert "    x.add_(1)\n    torch.rand(1)\n    return" in text and "4)\nf(x)\ntorch.compile(f)(x)" in text
    assert "    function(x)\n\nrun(f)\n" in written(relu("{'check': False}", body), Signature(Kind.CRASH), whole=True)
    assert "def run(" in written(relu("{}", body)), "where results are compared, what was written decides"


def test_a_gradient_whose_forward_is_in_a_region_needs_a_function_but_no_inputs_of_its_own() -> None:
    recipe = "{'backward': 'sum', 'autocast': {'device': 'cpu', 'dtype': 'torch.bfloat16'}}"
    wrong = Failure(Kind.ACCURACY, difference=Difference("value", "grad of x"))
    text = written(relu(recipe, RELU.replace("4, 4)", "4, 4).requires_grad_()")), failure=wrong)
    assert (
        text.partition("def run")[2]
        == """(function):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = function(x)
    return torch.autograd.grad(outputs.sum(), x)

torch.manual_seed(0)
x = torch.randn(4, 4, requires_grad=True)
expected = run(f)
torch.testing.assert_close(run(torch.compile(f)), expected)
"""
    )


def test_a_lost_exception_is_expected_twice() -> None:
    text = written(relu("{'validation': True}"), Signature(Kind.VALIDATION, ("RuntimeError",)))
    assert text.startswith("import unittest\nimport torch\n")
    assert text.endswith("with raises(RuntimeError):\n    f(x)\nwith raises(RuntimeError):\n    torch.compile(f)(x)\n")
    text = written(relu("{'validation': True}"), Signature(Kind.VALIDATION, ("RuntimeError",)), whole=True)
    assert text.endswith("with raises(RuntimeError):\n    run(torch.compile(f))\n")


def _operations(tree: ast.AST) -> int:
    return sum(isinstance(node, ast.Call | ast.BinOp | ast.Subscript) for node in ast.walk(tree))


def test_a_call_that_writes_to_its_inputs_makes_them_itself_where_that_is_short() -> None:
    body = RELU.replace("torch.relu(x)", "x.add_(1)").replace("randn", "ones")
    signature = Signature(Kind.VALIDATION, ("RuntimeError",))
    text = written(relu("{'validation': True}", body), signature)
    assert "    f(torch.ones(4, 4))\n" in text and text.endswith("    torch.compile(f)(torch.ones(4, 4))\n")
    drawn = written(relu("{'validation': True}", body.replace("ones", "randn")), signature)
    assert drawn.endswith("    run(torch.compile(f))\n"), "both runs draw the same numbers"


@pytest.mark.parametrize("failing", FAILING, ids=lambda it: it.name)
@pytest.mark.parametrize("whole", [False, True])
def test_the_graph_keeps_its_operators_and_nothing_private_is_added(failing, whole) -> None:
    program = parse(failing.text)
    text = written(failing.text, failing.signature, whole=whole)
    graph = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "f")
    assert _operations(graph) == sum(_operations(statement.node) for statement in program.graph.statements)
    assert "sys.exit" not in text and "torch._C" not in text


def test_what_else_differs_is_compared_in_a_function() -> None:
    written_to = Failure(Kind.ACCURACY, difference=Difference("value", "x after the call"))
    assert "def run(" not in written(relu())
    assert '"inputs": (x,)' in written(relu(), failure=written_to, whole=True)
    assert "    function(x)\n    return x\n" in written(relu(), failure=written_to), "only what differs, by no name"
    for statement in ("x += 1", "x.add_(1)", "x[0] = 1"):
        changed = relu(body=RELU.replace("    return (relu", f"    {statement}\n    return (relu"))
        assert '"inputs": (x,)' in written(changed), statement
    alias = Failure(Kind.ACCURACY, difference=Difference("alias", "output 0"))
    assert '"aliases": aliases(*(x,), *[outputs])' in written(relu(), failure=alias)
    nan = written(relu(), failure=Failure(Kind.ACCURACY, difference=Difference("nan", "output 0")))
    assert "equal_nan=True" in nan and "def run(" not in nan
    assert "check_stride=True" in written(relu(), failure=Failure(Kind.ACCURACY, difference=Difference("stride", "")))


def test_numbers_of_several_calls_stand_in_them() -> None:
    text = written(next(it.text for it in FAILING if it.name == "several_calls"))
    assert "    for args in [(x, 1), (y, 1), (z, 1)]:\n" in text and "n = 1" not in text


def test_names_of_the_program_are_not_taken() -> None:
    preamble = "def run():\n    return f\n\n\n"
    text = relu(body=RELU.replace("def graph(x)", f"{preamble}def graph(x)").replace("relu(x)", "relu(x + run())"))
    assert "def repro_run(function):" in written(text, whole=True) and "def graph(x):" in written(text)
    within = relu(body=RELU.replace("graph(x)", "graph(run)").replace("relu(x)", "relu(run)"))
    assert "def run(function):" in written(within, whole=True)


def test_an_input_called_as_a_variable_of_the_script_gets_another_name() -> None:
    body = RELU.replace("(x)", "(outputs)").replace("x = ", "outputs = ").replace("(x,)", "(outputs,)")
    text = written(relu("{'backward': 'sum'}", body), whole=True)
    assert "    outputs_ = torch.randn(4, 4)\n    outputs = function(outputs_)\n" in text


def test_strings_that_span_lines_keep_their_form() -> None:
    text = next(it.text for it in FAILING if it.name == "user_backend")
    assert '    """One of\nmy own."""' in written(text, Signature(Kind.COMPILE_ERROR))


@pytest.mark.parametrize(("signal", "said"), [("memory", "SIGSEGV or SIGABRT"), ("SIGFPE", "SIGFPE")])
def test_of_a_crash_the_signals_are_said_that_it_can_end_with(signal: str, said: str) -> None:
    seen = Failure(Kind.CRASH, signal="SIGSEGV" if signal == "memory" else signal)
    assert f"  # dies of {said}\n" in written(relu(), Signature(Kind.CRASH, signal=signal), seen)


def test_what_surrounds_a_call_is_written() -> None:
    program = parse(relu())
    recipe = Recipe(contexts=("Mode(2)", "other()"), grad_mode="no_grad", backward="sum")
    text = render_program(program.with_(recipe=recipe), Facts(ACCURACY, None, ENV))["repro.py"]
    assert "    with Mode(2), other():\n        with torch.no_grad():\n            outputs = function(x)\n" in text
    assert "\n        outputs.sum().backward()\n" in text
    recipe = Recipe(backend="aot_eager", fullgraph=True, compiled_autograd=True, warm_caches=True, check=False)
    text = render_program(program.with_(recipe=recipe), Facts(Signature(Kind.CRASH), None, ENV))["repro.py"]
    assert "import torch._dynamo.compiled_autograd\n" in text
    enable = 'torch._dynamo.compiled_autograd._enable(lambda gm: torch.compile(gm, backend="aot_eager"))'
    compiled = 'run(torch.compile(f, backend="aot_eager", fullgraph=True))'
    warm = f"with {enable}:\n    {compiled}  # fills the caches\ntorch._dynamo.reset()\n"
    assert text.endswith(f"{warm}with {enable}:\n    {compiled}\n")
    recipe = Recipe(env={"TORCH_X": "1"}, config={"inductor.fallback_random": True}, memory=9, threads=1)
    text = render_program(program.with_(recipe=recipe), Facts(ACCURACY, None, ENV), whole=False)["repro.py"]
    assert text.startswith('import os\nimport resource\n\nos.environ["TORCH_X"] = "1"\n\nimport torch\n')
    assert "torch._inductor.config.fallback_random = True\nresource.setrlimit(" in text
