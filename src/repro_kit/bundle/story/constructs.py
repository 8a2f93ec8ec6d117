"""The construct of a script, as maintainers name it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from repro_kit.bundle.story.failing_call import NOWHERE, Spot, calls_at
from repro_kit.bundle.story.operators import CUSTOM, OWN_FUNCTION, custom_operator, with_options
from repro_kit.script.tree import names_in
from repro_kit.script.user_imports import variables_before_torch

_COMPILERS = ("compile", "export", "draft_export", "aoti_compile_and_package", "optimize")
_SETTER = re.compile(r"(?:^|\.)(?:_?(?:set|use|enable|disable|register)_\w+|(?:manual_)?seed(?:_all)?)$")
#: A function of torch by its name, and no method of what one returns.
_OF_TORCH = re.compile(r"(?:torch|F|nn\.functional)\.[\w.]+")
_WRITES = re.compile(r"\.[a-z]\w*(?<!_)_$")  # a method that changes its tensor: `x.t_`
LONGEST_CODE = 200_000  # characters of code that is read for a title; a stranger's may be of any length
_LONGEST = 44  # characters of a call that is named with its arguments
SUBCLASS, _TENSORS = "a tensor subclass", ("torch.Tensor", "Tensor")
_MAKERS = re.compile("arange|as_tensor|empty|eye|full|linspace|ones|rand|randint|randn|tensor|zeros")
#: The bases of a function whose backward the script defines.
_FUNCTIONS = ("torch.autograd.Function", "autograd.Function", "Function")
_DEFINES = ("torch.library.custom_op", "torch.library.triton_op")
_TRANSFORMS = ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "vmap")  # of torch.func
_CONDITIONS = ("mode", "dynamic", "fullgraph")
#: Functions of Python that a script has for other reasons than its failure.
_PLUMBING = ("print", "range", "len", "super", "isinstance", "zip", "enumerate")

#: A setting of torch in a module of settings: ``torch._inductor.config.cpp.threads``.
_SETTING = re.compile(r"torch\._?(?P<part>\w+\.)config\.(?P<name>[\w.]+)")

_ASKS = ast.If | ast.IfExp | ast.While | ast.Assert
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Construct:
    """What a script compiles. `calls`: as a title writes them, the likeliest first; `settings`: of the compile call."""

    calls: tuple[str, ...] = ()
    is_setter: bool = False  # the first call sets a state of torch or of Python, and is called for that alone
    settings: tuple[str, ...] = ()
    is_effect: bool = False  # the first call is made for what it does to an object that the script checks
    is_tried: bool = False  # the first call stands in a `try` that handles an exception
    transforms: tuple[str, ...] = ()  # of torch.func, between the compiler and the function, the outermost first
    branch: str = ""  # the condition, if the compiled functions ask no other and it is short
    is_certain: bool = False  # the calls are those of the line that fails, set a state, or are the only one
    configured: tuple[str, ...] = ()  # settings of torch that the script makes for all calls


def construct_of(source: str, spot: Spot = NOWHERE, checked: str = "") -> Construct:
    """The construct in `source`, unless that is very long; at `spot`, where the line that fails is known.

    `checked`: the line of the script's own check that fails.
    """
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
    at_line = calls_at(spot, calls, source)
    setters = [call for call in calls if _SETTER.search(ast.unparse(call.func))]
    others = [call for call in calls if _rank(call) < _INPUT] or calls
    torchs = sorted((call for call in others if _OF_TORCH.fullmatch(ast.unparse(call.func))), key=_rank)
    asked = [node.test for body in bodies for node in ast.walk(body) if isinstance(node, _ASKS)]
    applies = _applies(tree)
    owns = [call for call in calls if ast.unparse(call.func) in applies]
    writes = [call for call in calls if _WRITES.search(ast.unparse(call.func))]
    effects = [call for body in bodies for call in _effects(body, _names(checked))]
    chosen = at_line or ([] if spot.is_exact else effects or setters or owns or torchs or writes or others)
    results = [] if spot.is_exact else [*filter(None, map(_result, bodies))][:1]
    named = [OWN_FUNCTION if call in owns else _named(call) for call in chosen] or results
    return Construct(
        tuple(dict.fromkeys([*marks, *named])),
        bool(chosen) and not marks and chosen[0] in setters,
        (*_settings(compiles), *[SUBCLASS] * any(map(_is_subclass, ast.walk(tree)))),
        bool(effects) and chosen == effects and not marks,
        bool(chosen) and not marks and any(call is chosen[0] for body in bodies for call in _tried(body)),
        tuple(_transforms(compiles)),
        _short(asked[0]) if len(asked) == 1 else "",
        bool(at_line or setters or len(calls) == 1),
        (*_configured(tree), *(f"{name}={value}" for name, value in variables_before_torch(source).items())),
    )


def _applies(tree: ast.Module) -> set[str]:
    """``Scale.apply`` of each class that says itself how its result is differentiated."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {f"{each.name}.apply" for each in classes if any(ast.unparse(base) in _FUNCTIONS for base in each.bases)}


_INPUT = 2  # the rank of a call that only makes an input


def _rank(call: ast.Call) -> int:
    """Where a call stands in a title: custom operators, then what is computed, then its inputs."""
    function = ast.unparse(call.func)
    return 0 if custom_operator(function) else _INPUT if makes_tensors(function) else 1


def makes_tensors(function: str) -> bool:
    """Whether `function`, by its full name, makes tensors and computes nothing of them."""
    return bool(_MAKERS.fullmatch(function.removeprefix("torch.")))


_OWN_FRAME = re.compile(r'^ *File "(?:files/)?(?:repro|reduced)\.py", line \d+, in (\w+)', re.MULTILINE)


def raising_function(log: str) -> str:
    """The function of a reduced script that raised while the compiler called it; "" where the traceback shows none."""
    return next(reversed(_OWN_FRAME.findall(log.partition("\nfrom user code:")[0])), "")


def _unfolded(call: ast.Call, defined: Mapping[str, ast.FunctionDef]) -> list[ast.Call]:
    """The calls of a plain function of the script in place of the call to it."""
    function = defined.get(ast.unparse(call.func))
    plain = function is not None and not function.decorator_list
    return (_calls(function) or [call]) if function is not None and plain else [call]


def _names(line: str) -> set[str]:
    """The names that a line of a script reads; none if it is only part of a statement."""
    try:
        return names_in(ast.parse(line))
    except SyntaxError:
        return set()


def _effects(function: _Function, checked: set[str]) -> Iterator[ast.Call]:
    """Methods that a function calls for their effect alone, on an object of `checked` that comes from outside of it."""
    own = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    for node in ast.walk(function):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name))) as call) if name in checked - own:
                yield call


def _tried(function: _Function) -> Iterator[ast.AST]:
    """What stands in the ``try`` of a function that handles an exception."""
    for node in ast.walk(function):
        if isinstance(node, ast.Try) and node.handlers:
            yield from (below for statement in node.body for below in ast.walk(statement))


def _decorator(call: ast.Call, defined: Mapping[str, ast.FunctionDef]) -> str:
    """What torch marks the called function of the script with; "" if there is no mark."""
    function = defined.get(ast.unparse(call.func))
    return next(filter(None, map(_mark, function.decorator_list if function else ())), "")


def _mark(decorator: ast.expr) -> str:
    """What `decorator` makes of a function, if it is torch's: an operator of its own goes by its name."""
    mark = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
    match decorator:
        case ast.Call(args=[ast.Constant(value=str(name)), *_]) if mark in _DEFINES:
            return f"{CUSTOM} {name}"
    return mark if mark.startswith("torch.") else ""


def _is_compiler(node: ast.expr) -> bool:
    words = ast.unparse(node).split(".")
    return words[-1] in _COMPILERS and words[0] not in ("re", "builtins") and words != ["compile"]


def _compiled(tree: ast.Module, compiles: Sequence[ast.Call]) -> Iterator[_Function]:
    """The functions that are given to the compiler: by name, in place, or by a decorator; methods of their classes."""
    given = [inner for call in compiles if call.args for inner in _made_of(call.args[0])]
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


def _made_of(given: ast.expr) -> Iterator[ast.expr]:
    """What is given to the compiler, and the function within, where others make one of it: ``vmap(grad(f))``."""
    yield given
    while isinstance(given, ast.Call) and given.args:
        given = given.args[0]
        yield given


def _transforms(compiles: Sequence[ast.Call]) -> Iterator[str]:
    made = (inner for call in compiles if call.args for inner in _made_of(call.args[0]))
    names = (ast.unparse(inner.func).rpartition(".")[2] for inner in made if isinstance(inner, ast.Call))
    yield from (name for name in names if name in _TRANSFORMS)


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
    return _short(value) if isinstance(value, ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Compare) else ""


def _short(value: ast.expr) -> str:
    """The text of an expression; "" if it is long."""
    text = ast.unparse(value)
    return text if len(text) <= _LONGEST else ""


def _is_subclass(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base) in _TENSORS for base in node.bases)


def _named(call: ast.Call) -> str:
    function = ast.unparse(call.func)
    if custom := custom_operator(function):
        return f"{CUSTOM} {custom}"
    if _OF_TORCH.fullmatch(function):
        plain = function if "." in function.removeprefix("torch.") or _SETTER.search(function) else function[6:]
        plain = re.sub(r"^(?:torch\.)?nn\.functional\.", "F.", plain)
        return with_options(plain, plain.rpartition(".")[2], call)
    whole = ast.unparse(call)
    if len(whole) <= _LONGEST and "\n" not in whole:
        return whole
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr=before)) as receiver, attr=name):
            chain = f".{_written(before, receiver)}.{_written(name, call)}"
            return chain if len(chain) <= _LONGEST else f".{name}()"
        case ast.Attribute(attr=name):
            return f".{name}()"
    return f"{function}()"


def _written(name: str, call: ast.Call) -> str:
    return ast.unparse(ast.Call(ast.Name(name), call.args, call.keywords))


def _settings(compiles: Sequence[ast.Call]) -> Iterator[str]:
    for keyword in (keyword for call in compiles for keyword in call.keywords if keyword.arg in _CONDITIONS):
        if isinstance(keyword.value, ast.Constant) and keyword.value.value is not None:
            yield f"{keyword.arg}={keyword.value.value!r}"


def _configured(tree: ast.Module) -> Iterator[str]:
    """``inductor.freezing=True`` of an assignment, as the settings of a captured program are written."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for setting in filter(None, (_SETTING.fullmatch(ast.unparse(target)) for target in node.targets)):
                yield f"{setting['part']}{setting['name']}={node.value.value!r}"
