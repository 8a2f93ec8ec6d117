"""A function with a backward of its own, as the class that a person would write."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from repro_kit.graph.program import Function, Program, Statement

_CLASS = "AutogradFunction"  # that a captured graph calls with the bodies of the forward and of the backward
_CALLS_BODY = "ctx.body = backward"  # in that class, and in no class of a user's


@dataclass(frozen=True)
class _Call:
    """The one call of the class: its place in the graph, the two bodies, and the arguments that it passes on."""

    at: int
    forward: Function
    backward: Function
    arguments: str


def with_own_backward(program: Program, text_of: Callable[[Function], str]) -> Program:
    """`program` with the two bodies of its only custom function in one class; unchanged where that does not do.

    `text_of`: the text of a function.
    """
    call, helper = _only_call(program), _helper(program.preamble)
    results = _pair(call.forward.returns) if call else None
    if call is None or helper is None or results is None:
        return program
    (outputs, saved), taker = results, _only_taker(program, call.at)
    alone = len(outputs) == 1 and taker is not None
    given = ", ".join(outputs) if alone else f"({', '.join(outputs)}{',' * (len(outputs) == 1)})"
    kept = f"ctx.save_for_backward({', '.join(saved)})"
    grads, read = call.backward.params[: len(outputs)], call.backward.params[len(outputs) :]
    if len(read) != len(saved):
        return program
    unpacked = f"({', '.join(read)}{',' * (len(read) == 1)}) = ctx.saved_tensors"
    lines = [
        f"class {_CLASS}(torch.autograd.Function):",
        *_method("forward", call.forward.params, [*_body(call.forward, text_of), *[kept] * bool(saved)], given),
        "",
        *_method(
            "backward", grads, [*[unpacked] * bool(read), *_body(call.backward, text_of)], call.backward.returns.text
        ),
    ]
    first, last = helper
    before = program.preamble.split("\n")
    statements = list(program.graph.statements)
    target = statements[taker].target if alone and taker is not None else statements[call.at].target
    statements[call.at] = Statement(target, f"{_CLASS}.apply({call.arguments})")
    if alone and taker is not None:
        del statements[taker]
    return program.with_(
        preamble="\n".join([*before[: first - 1], *lines, *before[last:]]),
        bodies=tuple(body for body in program.bodies if body not in (call.forward, call.backward)),
        graph=program.graph.with_(statements=tuple(statements)),
    )


def _only_call(program: Program) -> _Call | None:
    name = f"{_CLASS}.apply"
    every = [each for function in program.functions() for each in function.statements if each.callee == name]
    at = next((at for at, each in enumerate(program.graph.statements) if each.callee == name), None)
    node = every[0].expression if len(every) == 1 and at is not None else None
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) < 2:
        return None
    bodies = {body.name: body for body in program.bodies}
    forward, backward = (bodies.get(ast.unparse(argument)) for argument in node.args[:2])
    read = [name for function in program.functions() for each in function.statements for name in each.reads]
    if forward is None or backward is None or any(read.count(each.name) != 1 for each in (forward, backward)):
        return None
    if "ctx" in {*forward.params, *backward.params} or at is None:
        return None
    return _Call(at, forward, backward, ", ".join(map(ast.unparse, node.args[2:])))


def _helper(preamble: str) -> tuple[int, int] | None:
    """The first and the last line of the class in `preamble`."""
    for node in ast.parse(preamble).body:
        if isinstance(node, ast.ClassDef) and node.name == _CLASS and _CALLS_BODY in ast.unparse(node):
            return node.lineno, node.end_lineno or node.lineno
    return None


def _pair(returns: Statement) -> tuple[list[str], list[str]] | None:
    """The outputs, and what is saved, of a forward that returns both as tuples."""
    match returns.expression:
        case ast.Tuple(elts=[ast.Tuple(elts=outputs), ast.Tuple(elts=saved)]):
            return [*map(ast.unparse, outputs)], [*map(ast.unparse, saved)]
    return None


def _only_taker(program: Program, at: int) -> int | None:
    """The statement that takes the first result of the call, if nothing else reads what the call returns."""
    name = program.graph.statements[at].target
    readers = [number for number, each in enumerate(program.graph.statements) if name in each.reads]
    takes = len(readers) == 1 and program.graph.statements[readers[0]].getitem == (name, 0)
    return readers[0] if takes and name not in program.graph.outputs else None


def _body(function: Function, text_of: Callable[[Function], str]) -> list[str]:
    """The lines of `function` between its head and its return."""
    return textwrap.dedent("\n".join(text_of(function).strip("\n").split("\n")[1:-1])).split("\n")


def _method(name: str, params: tuple[str, ...], lines: list[str], returned: str) -> list[str]:
    body = [*filter(None, lines), f"return {returned}"]
    return [
        "    @staticmethod",
        f"    def {name}({', '.join(('ctx', *params))}):",
        *(f"        {line}" for line in body),
    ]
