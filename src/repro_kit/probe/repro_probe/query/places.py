"""Find places in the source of the installed torch: where an operator is lowered or decomposed, a pass, a handler."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from repro_probe.protocol.queries import PlaceAsked, PlaceKind, SourceData

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))
#: The parts of a call that give an operator its lowering (torch/_inductor/lowering.py).
_REGISTERING = re.compile(r"register|make_fallback|fallback_handler")
#: The classes that write the code of an operator on single elements (torch/_inductor/codegen), by device.
_WRITERS = {
    "cpu": (("torch._inductor.codegen.cpp", "CppVecOverrides"), ("torch._inductor.codegen.cpp", "CppOverrides")),
    "cuda": (("torch._inductor.codegen.triton", "TritonKernelOverrides"),),
}
_NUMBER = re.compile(r"\d+$")


def find_places(asked: Sequence[PlaceAsked]) -> list[SourceData]:
    """Return the places that this torch has, in the order in which they are `asked`; each once."""
    found: list[SourceData] = []
    for each in asked:
        for place in _LOOK[each["kind"]](each["name"]):
            if place not in found:
                found.append(place)
    return found


def _lowering(name: str) -> Iterator[SourceData]:
    from torch._inductor import lowering

    operator = _operator(name)
    function = lowering.lowerings.get(operator)
    if function is None:
        return
    function = inspect.unwrap(function)
    if "<locals>" in function.__qualname__:  # one that torch makes by a function for many operators
        yield from _registration(lowering, name)
        if function.__qualname__.startswith("make_pointwise."):
            yield from _writers(name)
    else:
        yield from _place(f"lowering of {name}", function)


def _registration(module: Any, name: str) -> Iterator[SourceData]:
    """Yield the line of `module` that gives the operator its lowering."""
    tree = ast.parse(inspect.getsource(module))
    namespace, bare = name.split(".")[:2]
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and _REGISTERING.search(ast.unparse(node.func))):
            continue
        named = (part for argument in node.args for part in ast.walk(argument) if isinstance(part, ast.Attribute))
        if any(part.attr == bare and ast.unparse(part.value).endswith(namespace) for part in named):
            file = inspect.getsourcefile(module) or ""
            yield from _at(f"registration of the lowering of {name}", file, node.lineno, ast.unparse(node.func))
            return


def _writers(name: str) -> Iterator[SourceData]:
    """Yield the functions that write the code of an operator on single elements."""
    bare = name.split(".")[1]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for module, owner in _WRITERS[device]:
        found = getattr(getattr(importlib.import_module(module), owner, None), bare, None)
        places = _place(f"code that is generated for {bare}", found)
        yield from (place for place in places if "/codegen/" in place["file"])


def _decomposition(name: str) -> Iterator[SourceData]:
    import torch._decomp
    from torch._inductor.decomposition import select_decomp_table

    operator = _operator(name)
    for table in (select_decomp_table(), torch._decomp.decomposition_table):
        if operator in table:
            yield from _place(f"decomposition of {name}", table[operator])
            return


def _python_kernel(name: str) -> Iterator[SourceData]:
    """Yield the Python kernels by which an operator of any overload is traced."""
    packet = getattr(torch.ops.aten, name, None)
    for overload in getattr(packet, "overloads", list)():
        kernels = getattr(getattr(packet, overload), "py_kernels", {})
        for key in (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd):
            if key in kernels:
                yield from _place(f"decomposition of aten.{name}.{overload}, used while tracing", kernels[key])


def _pass(name: str) -> Iterator[SourceData]:
    """Yield the function of that name in Inductor's passes, else the line that gives a pass that name.

    `name` is ``joint_graph_passes:remove_noop_ops``: the subsystem says in which file passes of that name are applied.
    """
    subsystem, _, own = name.rpartition(":")
    counted = _NUMBER.sub("", own)
    definition = re.compile(rf"^def {re.escape(own)}\(", re.MULTILINE)
    mention = re.compile(rf"""["']{re.escape(own)}["']|f["']{re.escape(counted)}\{{""")
    applied_in = subsystem.replace("_passes", ".py")
    files = sorted(_files("torch/_inductor/fx_passes", "torch/_inductor"), key=lambda file: applied_in not in file)
    for pattern, what in ((definition, f"pass {own}"), (mention, f"where the pass {own} is applied")):
        for file in files:
            with open(file, encoding="utf-8") as source:
                text = source.read()
            found = pattern.search(text)
            if found:
                yield from _at(what, file, text.count("\n", 0, found.start()) + 1, own)
                return


def _files(*directories: str) -> Iterator[str]:
    for directory in directories:
        whole = os.path.join(_ROOT, directory)
        names = sorted(os.listdir(whole)) if os.path.isdir(whole) else []
        yield from (os.path.join(whole, name) for name in names if name.endswith(".py"))


def _handler(name: str) -> Iterator[SourceData]:
    """Yield Dynamo's own handler of a function of torch."""
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    function = functools.reduce(lambda owner, part: getattr(owner, part, None), name.split(".")[1:], torch)
    handlers: dict[Any, Any] = getattr(TorchInGraphFunctionVariable, "_get_handlers", dict)()
    if function is not None and function.__hash__ is not None and function in handlers:
        yield from _place(f"Dynamo's handler of {name}", handlers[function])


def _object(name: str) -> Iterator[SourceData]:
    module, _, path = name.partition(":")
    try:
        found = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):  # another torch has it elsewhere
        return
    yield from _place(path, found)


_LOOK: dict[PlaceKind, Callable[[str], Iterator[SourceData]]] = {
    "lowering": _lowering,
    "decomposition": _decomposition,
    "python-kernel": _python_kernel,
    "pass": _pass,
    "handler": _handler,
    "object": _object,
}


def _operator(name: str) -> Any:
    """Return the operator ``aten.relu.default``, or None."""
    return functools.reduce(lambda owner, part: getattr(owner, part, None), name.split("."), torch.ops)


def _place(what: str, value: Any) -> Iterator[SourceData]:
    """Yield where a function or a class is defined, if that is in torch's own source."""
    value = inspect.unwrap(value)
    while isinstance(value, functools.partial):
        value = inspect.unwrap(value.func)
    try:
        file, line = inspect.getsourcefile(value), inspect.getsourcelines(value)[1]
    except (OSError, TypeError):  # a built-in function
        return
    yield from _at(what, file or "", line, getattr(value, "__qualname__", ""))


def _at(what: str, file: str, line: int, function: str) -> Iterator[SourceData]:
    path = os.path.relpath(os.path.abspath(file), _ROOT).replace(os.sep, "/")
    if path.startswith("torch/"):
        yield {"what": what, "file": path, "line": line, "function": function.rsplit(".<locals>.", maxsplit=1)[-1]}
