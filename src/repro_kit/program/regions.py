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
#: Parameters of torch.autocast in their order, and the values that need not be written.
_AUTOCAST = (("device_type", ...), ("dtype", None), ("enabled", True), ("cache_enabled", None))
_INDENT = "    "


@dataclass(frozen=True)
class _Region:
    """From statement `first` to statement `last`, which stand for what is between ``with`` and the colon."""

    first: int
    last: int
    item: str


def with_regions(function: Function) -> str:
    """The text of `function`, with autocast and no-grad regions as `with` blocks where they are nested properly."""
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


def has_regions(function: Function) -> bool:
    """Whether `with_regions` changes anything."""
    return bool(_regions(function.statements))


def _regions(statements: Sequence[Statement]) -> list[_Region]:
    """The regions, if all that opens or closes one is of a known form and properly nested; else none."""
    found, open_ = [], []
    for at, statement in enumerate(statements):
        match _step(statement):
            case ("open", item, name):
                open_.append((at, item, name))
            case ("close", _, name) if open_ and open_[-1][2] == name:
                first, item, _ = open_.pop()
                found.append(_Region(first, at, item))
            case None:
                continue
            case _:
                return []
    names = {statements[it.first].target for it in found} | {statements[it.last].target for it in found}
    inside = {at for it in found for at in (it.first, it.last)}
    read = {name for at, it in enumerate(statements) if at not in inside for name in it.reads}
    return found if not open_ and names.isdisjoint(read) else []


def _step(statement: Statement) -> tuple[str, str, str] | None:
    """(``open`` or ``close``, the item of the `with`, which region it is of) of a statement; None for any other."""
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
            text = f'"{text[1:-1]}"'  # as the rest of a script has strings
        if text != repr(usual):
            yield text if usual is ... else f"{name}={text}"
