"""Write pairs of private calls that open and close a region as the `with` blocks that they come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro_kit.program.program import Function
from repro_kit.program.statement import Statement

_ENTER = "torch.amp.autocast_mode._enter_autocast"
_EXIT = "torch.amp.autocast_mode._exit_autocast"
_GRAD = "torch._C._set_grad_enabled"
#: Parameters of torch.autocast in their order, with the defaults that need not be written.
_AUTOCAST = (("device_type", ...), ("dtype", None), ("enabled", True), ("cache_enabled", None))
_INDENT = "    "


@dataclass(frozen=True)
class _Region:
    """The statements `first` to `last` as one ``with`` block; `item` is the text between ``with`` and the colon."""

    first: int
    last: int
    item: str


def with_regions(function: Function) -> str:
    """The text of `function`, with properly nested autocast and no-grad regions as `with` blocks."""
    statements = function.statements
    regions = _regions(statements)
    opened = {region.first: region for region in regions}
    closed = {region.last for region in regions}
    lines, depth = [f"def {function.name}({', '.join(function.params)}):"], 1
    for at, statement in enumerate(statements):
        if at in opened:
            lines.append(f"{_INDENT * depth}with {opened[at].item}:")
            depth += 1
            if at + 1 in closed:
                lines.append(f"{_INDENT * depth}pass")
        elif at in closed:
            depth -= 1
        else:
            lines += [f"{_INDENT * depth}{line}" for line in statement.line.splitlines()]
    decorators = "".join(f"@{decorator}\n" for decorator in function.decorators)
    return decorators + "\n".join([*lines, f"{_INDENT}return {function.returns.text}"]) + "\n"


def _regions(statements: Sequence[Statement]) -> list[_Region]:
    """The regions, if every statement that opens or closes one has a known form and all nest properly; else none."""
    regions, open_ = [], []
    for at, statement in enumerate(statements):
        match _step(statement):
            case ("open", item, name):
                open_.append((at, item, name))
            case ("close", _, name) if open_ and open_[-1][2] == name:
                first, item, _ = open_.pop()
                regions.append(_Region(first, at, item))
            case None:
                continue
            case _:
                return []
    names = {statements[region.first].target for region in regions} | {
        statements[region.last].target for region in regions
    }
    inside = {at for region in regions for at in (region.first, region.last)}
    read = {name for at, statement in enumerate(statements) if at not in inside for name in statement.reads}
    return regions if not open_ and names.isdisjoint(read) else []


def _step(statement: Statement) -> tuple[str, str, str] | None:
    """(``open``, ``close`` or ``unknown``; the item of the `with`; the region's key) of a statement, or None."""
    call = statement.expression
    if not isinstance(call, ast.Call) or statement.callee not in (_ENTER, _EXIT, _GRAD):
        return None
    words = [ast.unparse(argument) for argument in call.args]
    if call.keywords or not words:
        return ("unknown", "", "")
    if statement.callee == _ENTER:
        return ("open", f"torch.autocast({', '.join(_autocast(call.args))})", statement.target or "")
    if statement.callee == _EXIT:
        return ("close", "", words[0])
    steps = {"False": ("open", "torch.no_grad()", _GRAD), "True": ("close", "", _GRAD)}
    return steps.get(words[0], ("unknown", "", ""))


def _autocast(values: Sequence[ast.expr]) -> Iterator[str]:
    for (name, usual), value in zip(_AUTOCAST, values, strict=False):
        text = ast.unparse(value)
        if isinstance(value, ast.Constant) and text[1:-1].isidentifier() and isinstance(value.value, str):
            text = f'"{text[1:-1]}"'  # double quotes, as in the rest of a script
        if text != repr(usual):
            yield text if usual is ... else f"{name}={text}"
