"""Write a graph as people write it: public names for private ones, and `with` blocks for regions."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from repro_kit.graph.program import Function, Statement
from repro_kit.graph.python_code import with_slices

#: Functions of ``torch._C._nn`` that torch.nn.functional has under the same name: the same objects in torch 2.13.
_SAME_IN_FUNCTIONAL = frozenset(
    [
        "avg_pool2d",
        "avg_pool3d",
        "elu_",
        "gelu",
        "hardtanh_",
        "leaky_relu_",
        "linear",
        "one_hot",
        "scaled_dot_product_attention",
        "softplus",
        "softshrink",
    ]
)

_NN = re.compile(r"(?<![\w.])torch\._C\._nn\.(?P<name>\w+)(?=\()")
_IN_MODULE = re.compile(r"(?<![\w.])torch\._C\._(?P<module>special|linalg|fft)\.(?P=module)_(?P<name>[a-z]\w*)(?=\()")
_VARIABLE_FUNCTIONS = re.compile(r"(?<![\w.])torch\._C\._VariableFunctions(?:Class)?\.(?P<name>[a-z]\w*)(?=\()")
#: What only Python has, and no operator: pads and losses whose arguments differ from those of the operator.
_NO_OPERATOR = frozenset({"_parse_to", "flatten_dense_tensors", "unflatten_dense_tensors", "pad_sequence"})


_FUNCTIONAL = re.compile(r"(?<![\w.])torch\.nn\.functional\.(?=\w+\()")


def public(code: str, *, short: bool = True) -> str:
    """`code` with public names for torch's private ones, where a public one takes the same arguments.

    `short`: torch.nn.functional is `F`.
    """
    code = _NN.sub(_of_nn, code)
    code = _FUNCTIONAL.sub("F.", code) if short else code
    code = _IN_MODULE.sub(r"torch.\g<module>.\g<name>", code)
    code = _VARIABLE_FUNCTIONS.sub(r"torch.\g<name>", code)
    return "\n".join(map(with_slices, code.split("\n"))) if "slice(" in code else code


def _of_nn(call: re.Match[str]) -> str:
    name = call["name"]
    if name in _SAME_IN_FUNCTIONAL:
        return f"torch.nn.functional.{name}"
    return call[0] if name in _NO_OPERATOR else f"torch.ops.aten.{name}"


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
    last = _returned_inside(function, closed)
    if last is not None:
        lines[-1] = lines[-1].replace(f"{last.target} = {last.text}", _return_of(function, last))
    else:
        lines.append(f"{_INDENT}return {function.returns.text}")
    decorators = "".join(f"@{decorator}\n" for decorator in function.decorators)
    return decorators + "\n".join(lines) + "\n"


def _returned_inside(function: Function, closed: Collection[int]) -> Statement | None:
    """The last statement in the regions that end with `function`, if its value alone is returned."""
    statements = list(function.statements)
    while statements and len(statements) - 1 in closed:
        statements.pop()
    last = statements[-1] if 0 < len(statements) < len(function.statements) else None
    if last is None or last.target is None or function.returns.text not in (last.target, f"({last.target},)"):
        return None
    read = any(last.target in each.reads for each in function.statements)
    return None if read or len(statements) - 1 in closed else last


def _return_of(function: Function, last: Statement) -> str:
    alone = function.returns.text == last.target
    return f"return {last.text}" if alone else f"return ({last.text},)"


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


def is_border(statement: Statement) -> bool:
    """Whether a statement opens or closes a region."""
    return statement.callee in (_ENTER, _EXIT, _GRAD)


def _step(statement: Statement) -> tuple[str, str, str] | None:
    """(``open``, ``close`` or ``unknown``; the item of the `with`; the region's key) of a statement, or None."""
    call = statement.expression
    if not isinstance(call, ast.Call) or not is_border(statement):
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
