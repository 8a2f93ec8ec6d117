"""Calls within calls: fewer names, the same operators in the same order."""

import pytest

from repro_kit.artefact.nesting import nested
from repro_kit.graph.program import Function, Program, Statement


def function(name: str, params: str, *lines: str, decorators: tuple[str, ...] = ()) -> Function:
    """A function of the lines ``target = value``; the last one is what is returned."""
    pairs = [line.rpartition(" = ") if " = " in line else ("", "", line) for line in lines]
    *statements, returns = [Statement(target or None, value) for target, _, value in pairs]
    return Function(name, tuple(filter(None, params.split(", "))), tuple(statements), returns, decorators)


def lines(*of_graph: str) -> list[str]:
    """The lines of the graph, nested."""
    graph = nested(Program(function("graph", "x, y", *of_graph))).graph
    return [*(statement.line for statement in graph.statements), graph.returns.text]


def test_a_value_that_the_next_statement_alone_reads_needs_no_name() -> None:
    assert lines("a = x + y", "b = a * 2", "c = torch.sum(b)", "(c,)") == ["(torch.sum((x + y) * 2),)"]
    assert lines("a = torch.sin(x)", "b = torch.cos(y)", "(a, b)") == ["(torch.sin(x), torch.cos(y))"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("a = torch.rand(2)", "b = torch.rand(3)", "(b, a)"), ["a = torch.rand(2)", "(torch.rand(3), a)"]),
        (("a = torch.sin(x)", "torch.mul(a, a)"), ["a = torch.sin(x)", "torch.mul(a, a)"]),
        (
            ("a = torch.sin(x)", "b = x.add_(1)", "torch.mul(a, x)"),
            ["a = torch.sin(x)", "b = x.add_(1)", "torch.mul(a, x)"],
        ),
        (("a = x.add_(1)", "torch.sin(a)"), ["a = x.add_(1)", "torch.sin(a)"]),
        (("a = torch.ops.aten.add_.Tensor(x, 1)", "torch.sin(a)"), None),
        (("a = torch.rand(2)", "torch.vmap(lambda z: a)(y)"), None),
        (("z = torch.rand(2)", "torch.vmap(lambda z: z)(y)"), None),
        (("a = torch._C._set_grad_enabled(False)", "(a,)"), ["a = torch._C._set_grad_enabled(False)", "(a,)"]),
        (("a = torch.add(x, 123456789, alpha=123456789)", f"torch.{'long' * 10}(a)"), None),
    ],
    ids=[
        "the order in which numbers are drawn",
        "read twice",
        "written between",
        "writes",
        "an overload writes",
        "run for each z",
        "another z",
        "a region",
        "too long",
    ],
)
def test_what_would_run_otherwise_or_be_long_keeps_its_line(given: tuple[str, ...], expected: list[str] | None) -> None:
    assert lines(*given) == (list(given) if expected is None else expected)


def test_the_expression_of_a_body_stands_in_the_lambda_that_calls_it() -> None:
    level = function("body", "y, z", "pair = torch.func.jvp(torch.sin, (z,), (y,))", "pair")
    graph = function("graph", "b, c", "v = torch.vmap(lambda y: body(y, b))(c)", "(v,)")
    program = nested(Program(graph, (level,)))
    assert program.graph.returns.text == "(torch.vmap(lambda y: torch.func.jvp(torch.sin, (b,), (y,)))(c),)"
    assert program.bodies == ()


def test_a_body_that_is_called_twice_or_compiled_once_stays() -> None:
    body = function("body", "y", "y * 2")
    twice = function("graph", "c", "(torch.vmap(lambda y: body(y))(c), torch.vmap(lambda z: body(z))(c))")
    assert nested(Program(twice, (body,))).bodies == (body,)
    once = function("graph", "c", "(torch.vmap(lambda y: body(y))(c),)")
    region = function("body", "y", "y * 2", decorators=("torch.compiler.nested_compile_region",))
    assert nested(Program(once, (region,))).bodies == (region,)
    assert nested(Program(once, (region,))).graph.returns.text == once.returns.text


def test_a_body_with_variables_of_its_own_stays() -> None:
    body = function("body", "y, z", "torch.vmap(lambda y: y * 2)(z) * y")
    graph = function("graph", "b, c", "(torch.vmap(lambda y: body(y, b))(c),)")
    assert nested(Program(graph, (body,))).bodies == (body,)
