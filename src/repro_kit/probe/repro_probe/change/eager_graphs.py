"""Run some of a script's graphs in eager, by a setting of torch where there is one, else by a hook in Dynamo."""

from __future__ import annotations

import functools
from typing import Any

from repro_probe.change.compile_nothing import Fix
from repro_probe.common.imports import when_imported
from repro_probe.protocol.config_modules import CONFIG_MODULES


def run_graphs_in_eager(wanted: str, fix: Fix) -> None:
    """Run the graphs in `wanted` in eager, by the number of their frame: ``3``, ``0-2``, ``>3``, ``>=3``, or several.

    The text has the form of torch's own setting (torch/_dynamo/graph_id_filter.py).

    `fix(module, name, value)` makes a setting that the script cannot change.
    """

    def choose(config: Any) -> None:
        if hasattr(config, "debug_backend_override"):
            fix(config, "debug_backend_override", wanted + ":eager")
        else:
            when_imported("torch._dynamo.output_graph", lambda module: hook(module, wanted))

    when_imported(CONFIG_MODULES["dynamo"], choose)


def hook(module: Any, wanted: str) -> None:
    """Compile the wanted graphs with the backend ``eager``. `module` is `torch._dynamo.output_graph`."""
    cls = module.OutputGraph
    original = cls.call_user_compiler

    @functools.wraps(original)
    def call_user_compiler(self: Any, *arguments: Any, **named: Any) -> Any:
        from torch._dynamo.backends.registry import lookup_backend

        if not _is_wanted(_frame(self), wanted):
            return original(self, *arguments, **named)
        before, self.compiler_fn = self.compiler_fn, lookup_backend("eager")
        try:
            return original(self, *arguments, **named)
        finally:
            self.compiler_fn = before

    cls.call_user_compiler = call_user_compiler


def compile_id_of(graph: Any) -> Any:
    """Return the compile id of an `OutputGraph`; None while nothing is compiled."""
    compile_id = getattr(graph, "dynamo_compile_id", None)
    if compile_id is None:
        from torch._guards import CompileContext

        compile_id = CompileContext.current_compile_id()
    return compile_id


def _frame(graph: Any) -> int | None:
    compile_id = compile_id_of(graph)
    return None if compile_id is None else compile_id.frame_id


def _is_wanted(frame: int | None, wanted: str) -> bool:
    return frame is not None and any(_fits(frame, part) for part in wanted.split(","))


def _fits(frame: int, part: str) -> bool:
    if part.startswith(">="):
        return frame >= int(part[2:])
    if part.startswith(">"):
        return frame > int(part[1:])
    first, _, last = part.partition("-")
    return int(first) <= frame <= int(last or first)
