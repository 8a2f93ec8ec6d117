"""Render a `Program` as text (docs/explanation/program-format.md)."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from typing import Any

from repro_kit.model.recipe import Recipe
from repro_kit.model.serialize import plain
from repro_kit.program.format import HEADER, LOAD
from repro_kit.program.program import Code, Function, Peer, Program

_LOADS = re.compile(r"(?<![\w.])load\(")


def render(program: Program) -> str:
    """The text of `program`, which defines functions; `plain.runnable` adds what runs them."""
    body = [
        _head(program),
        *([LOAD] if _loads(program) else []),
        *([program.preamble.strip("\n") + "\n"] if program.preamble.strip() else []),
        *(render_peer(program.peer) if program.peer is not None else []),
        *(render_function(function) for function in program.functions()),
        render_calls(program),
    ]
    return "\n\n".join(body)


def _head(program: Program) -> str:
    doc = f"{docstring(program.doc)}\n" if program.doc else ""
    imports = "".join(f"{line}\n" for line in program.imports)
    return f"{doc}{HEADER}{imports}\nRECIPE = {render_recipe(program.recipe)}\n"


def render_recipe(recipe: Recipe) -> str:
    """The recipe as a literal dict, without the fields at their default."""
    return _literal(plain(recipe))


def _literal(value: Any) -> str:
    """Python text that ``ast.literal_eval`` reads: `repr`, except for infinities, which have no literal."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def render_function(function: Function) -> str:
    """One function, as straight-line Python."""
    lines = [statement.line for statement in function.statements]
    head = f"def {function.name}({', '.join(function.params)}):"
    block = _block(head, [*lines, f"return {function.returns.text}"])
    return "".join(f"@{decorator}\n" for decorator in function.decorators) + block


def render_peer(peer: Peer) -> list[str]:
    """The functions of `peer`, and `peer_calls`."""
    return [*map(render_function, peer.functions()), render_calls(peer, "peer_calls")]


def render_calls(program: Code, name: str = "calls") -> str:
    """The function `name`, which builds the arguments of every call."""
    calls = [f"({', '.join(call)}{',' if len(call) == 1 else ''})" for call in program.calls]
    return _block(f"def {name}():", [*(input_.line for input_ in program.inputs), f"return [{', '.join(calls)}]"])


def _block(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, *lines]).replace("\n", "\n    ") + "\n"


def _loads(program: Program) -> bool:
    return any("load(" in input_.line and _LOADS.search(input_.line) for input_ in program.all_inputs()) or bool(
        _LOADS.search(program.preamble)
    )


def docstring(text: str) -> str:
    """`text` as a docstring, or another literal where quotes do not allow it."""
    plain = f'"""{text}"""'
    try:
        same = ast.literal_eval(plain) == text
    except (SyntaxError, ValueError):
        same = False
    return plain if same else repr(text)
