"""The construct of a reduced script that fails: the call in its compiled function, and how the function is compiled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from repro_kit.bundle.story.operators import with_options

_COMPILERS = ("compile", "export", "draft_export", "aoti_compile_and_package", "optimize")
_SETTER = re.compile(r"(?:^|\.)(?:_?(?:set|use|enable|disable|register)_\w+|(?:manual_)?seed(?:_all)?)$")
LONGEST_CODE = 200_000  # characters of code that is read for a title; a stranger's may be of any length
_LONGEST = 44  # characters of a call that is named with its arguments
SUBCLASS, _TENSORS = "a tensor subclass", ("torch.Tensor", "Tensor")
_CONDITIONS = ("mode", "dynamic", "fullgraph")
#: Functions of Python that a script has for other reasons than its failure.
_PLUMBING = ("print", "range", "len", "super", "isinstance", "zip", "enumerate")

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Construct:
    """What a script compiles. `calls`: as a title writes them, the likeliest first; `settings`: of the compile call."""

    calls: tuple[str, ...] = ()
    is_setter: bool = False  # the first call sets a state of torch or of Python, and is called for that alone
    settings: tuple[str, ...] = ()
    is_certain: bool = False  # the calls are those of the line that fails, set a state, or are the only one


def construct_of(source: str, line: int = 0) -> Construct:
    """The construct in `source`, unless that is very long; at `line`, where the line that fails is known."""
    if len(source) > LONGEST_CODE:
        return Construct()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Construct()
    compiles = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_compiler(node.func)]
    bodies = [*_compiled(tree, compiles)]
    defined = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    calls = [inner for body in bodies for call in _calls(body) for inner in _unfolded(call, defined)]
    marks = [_decorator(call, defined) for call in calls if _decorator(call, defined)]
    at_line = [call for call in calls if line and call.lineno <= line <= (call.end_lineno or call.lineno)]
    setters = [call for call in calls if _SETTER.search(ast.unparse(call.func))]
    torchs = [call for call in calls if ast.unparse(call.func).startswith(("torch.", "F."))]
    chosen = at_line or setters or torchs or calls
    named = [*map(_named, chosen)] or [*filter(None, map(_result, bodies))][:1]
    return Construct(
        tuple(dict.fromkeys([*marks, *named])),
        bool(chosen) and not marks and chosen[0] in setters,
        (*_settings(compiles), *[SUBCLASS] * any(map(_is_subclass, ast.walk(tree)))),
        bool(at_line or setters or len(calls) == 1),
    )


def _unfolded(call: ast.Call, defined: Mapping[str, ast.FunctionDef]) -> list[ast.Call]:
    """The calls of a plain function of the script in place of the call to it."""
    function = defined.get(ast.unparse(call.func))
    plain = function is not None and not function.decorator_list
    return (_calls(function) or [call]) if function is not None and plain else [call]


def _decorator(call: ast.Call, defined: Mapping[str, ast.FunctionDef]) -> str:
    """What torch marks the called function of the script with; "" if there is no mark."""
    function = defined.get(ast.unparse(call.func))
    decorators = [ast.unparse(each).partition("(")[0] for each in (function.decorator_list if function else ())]
    return next((name for name in decorators if name.startswith("torch.")), "")


def _is_compiler(node: ast.expr) -> bool:
    words = ast.unparse(node).split(".")
    return words[-1] in _COMPILERS and words[0] not in ("re", "builtins") and words != ["compile"]


def _compiled(tree: ast.Module, compiles: Sequence[ast.Call]) -> Iterator[_Function]:
    """The functions that are given to the compiler: by name, in place, or by a decorator; methods of their classes."""
    given = [call.args[0] for call in compiles if call.args]
    yield from (node for node in given if isinstance(node, ast.Lambda))
    names = _reached(tree, {ast.unparse(node).partition("(")[0].rpartition(".")[2] for node in given})
    for node in ast.walk(tree):
        is_given = isinstance(node, ast.FunctionDef | ast.ClassDef) and (
            node.name in names or any(_decorates(decorator) for decorator in node.decorator_list)
        )
        if is_given and isinstance(node, ast.ClassDef):
            yield from (part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "forward")
        elif is_given and isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names:
            yield from [node.value] if isinstance(node.value, ast.Lambda) else []


def _reached(tree: ast.Module, names: set[str]) -> set[str]:
    """`names`, and what they are made of: ``step`` of ``torch.vmap(step)``, ``Net`` of ``model = Net()``."""
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    for node in reversed(made):
        if isinstance(node.value, ast.Call) and ast.unparse(node.targets[0]) in names:
            parts = [node.value.func, *node.value.args]
            names = names | {part.id for part in parts if isinstance(part, ast.Name)}
    return names


def _decorates(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("partial") and node.args:
        return _is_compiler(node.args[0])
    return _is_compiler(node.func if isinstance(node, ast.Call) else node)


def _calls(function: _Function) -> list[ast.Call]:
    body = function.body if isinstance(function.body, list) else [function.body]
    calls = [node for part in body for node in ast.walk(part) if isinstance(node, ast.Call)]
    kept = [call for call in calls if ast.unparse(call.func) not in _PLUMBING]
    return sorted(kept, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))


def _result(function: _Function) -> str:
    """The expression that a function without calls computes last, if it is short."""
    last = function.body[-1] if isinstance(function.body, list) else function.body
    value = getattr(last, "value", None) if isinstance(last, ast.stmt) else last
    text = ast.unparse(value) if isinstance(value, ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Compare) else ""
    return text if len(text) <= _LONGEST else ""


def _is_subclass(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base) in _TENSORS for base in node.bases)


def _named(call: ast.Call) -> str:
    function = ast.unparse(call.func)
    if function.startswith(("torch.", "F.")):
        plain = function if "." in function.removeprefix("torch.") or _SETTER.search(function) else function[6:]
        plain = plain.replace("torch.nn.functional.", "F.")
        return with_options(plain, plain.rpartition(".")[2], call)
    whole = ast.unparse(call)
    if len(whole) <= _LONGEST and "\n" not in whole:
        return whole
    return f".{call.func.attr}()" if isinstance(call.func, ast.Attribute) else f"{function}()"


def _settings(compiles: Sequence[ast.Call]) -> Iterator[str]:
    for keyword in (keyword for call in compiles for keyword in call.keywords if keyword.arg in _CONDITIONS):
        if isinstance(keyword.value, ast.Constant) and keyword.value.value is not None:
            yield f"{keyword.arg}={keyword.value.value!r}"
