"""Find the statements of a program that the compiler was working on when it raised.

The compiler keeps the source of each node: an FX node has `meta["stack_trace"]` (torch/fx/proxy.py), and Inductor's IR
has the FX nodes that it was made from in `origins` (torch/_inductor/ir.py). Both are looked up by name in the local
variables along the traceback. A torch without these attributes has no origins.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

_MOST = 12  # a frame with more nodes than this is no hint
_KERNEL = re.compile(r"(?:cpp|(?:triton|mps)_\w{3})_fused_\w+")
_DEFINITION = re.compile(rf"({_KERNEL.pattern}) = async_compile\.")
_CONTAINERS = (list, tuple, set, frozenset)


def origins(error: BaseException, text: str, path: str) -> list[str]:
    """Return names that statements of the program assign to, and names of kernels that were generated for it.

    The names from the innermost frame come first.
    """
    line = re.compile(rf'File "{re.escape(path)}", line (\d+), in graph\b')
    names = _names(text)
    interpreted: dict[str, None] = {}
    further: dict[str, None] = {}
    for trace in _innermost_first(error):
        further |= dict.fromkeys(_kernels_at(trace))
        # In `run_node`, the interpreters of torch/fx/interpreter.py work on a single node.
        origins_of_frame = interpreted if trace.tb_frame.f_code.co_name == "run_node" else further
        nodes = _nodes_in(trace.tb_frame)
        for node in nodes if len(nodes) <= _MOST else ():
            lines = map(int, line.findall(str(node.meta.get("stack_trace") or "")))
            origins_of_frame |= {names[number]: None for number in lines if number in names}
    return list(interpreted | further)


def _names(text: str) -> dict[int, str]:
    """Return for each line of `graph` the name that its statement assigns to."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "graph"]
    assigned = [statement for function in functions for statement in function.body if isinstance(statement, ast.Assign)]
    return {
        number: statement.targets[0].id
        for statement in assigned
        if isinstance(statement.targets[0], ast.Name)
        for number in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }


def _innermost_first(error: BaseException | None) -> Iterator[TracebackType]:
    """Yield the traceback entries of `error` and its causes, beginning with the innermost of the root cause."""
    chain = {}
    while error is not None and id(error) not in chain:
        chain[id(error)] = error
        error = error.__cause__ or error.__context__ or getattr(error, "inner_exception", None)
    for link in reversed(list(chain.values())):
        entries, trace = [], link.__traceback__
        while trace is not None:
            entries.append(trace)
            trace = trace.tb_next
        yield from reversed(entries)


def _kernels_at(trace: TracebackType) -> list[str]:
    """Return the kernel that Inductor waits for (torch/_inductor/async_compile.py) or a generated module defines."""
    frame = trace.tb_frame
    if frame.f_code.co_name == "<module>" and "AsyncCompile" in frame.f_globals:
        code = linecache.getlines(frame.f_code.co_filename)[: trace.tb_lineno]
        started = [match[1] for match in map(_DEFINITION.match, code) if match]
        return started[-1:]
    if "_inductor" in frame.f_code.co_filename:
        return [
            f_local for f_local in frame.f_locals.values() if isinstance(f_local, str) and _KERNEL.fullmatch(f_local)
        ]
    return []


def _nodes_in(frame: FrameType) -> list[Any]:
    """Return the FX nodes in the local variables, and those that Inductor's IR in them was made from."""
    import torch

    nodes: dict[Any, None] = {}
    for value in list(frame.f_locals.values()):
        for item in value if type(value) in _CONTAINERS and len(value) <= _MOST else (value,):
            for node in _nodes_of(item, torch.fx.Node):
                nodes.setdefault(node)
    return list(nodes)


def _nodes_of(value: Any, kind: Any) -> list[Any]:
    if isinstance(value, kind):
        return [value]
    if not type(value).__module__.startswith("torch._inductor."):
        return []
    members = _read(value, "snodes") or [value]  # of a fused node of the scheduler
    nodes = []
    for member in members if isinstance(members, (list, tuple)) else [value]:
        for holder in (member, _read(member, "node"), _read(member, "data")):
            nodes += [node for node in _read(holder, "origins") or () if isinstance(node, kind)]
    return nodes


def _read(value: Any, name: str) -> Any:
    """Return an instance's own attribute. Properties are not evaluated, since they may raise or do work."""
    return getattr(value, "__dict__", {}).get(name)
