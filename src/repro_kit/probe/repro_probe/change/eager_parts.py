"""Run a script in eager, or only some of its functions or graphs, by hooks in private parts of Dynamo."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

from repro_probe.common.imports import when_imported
from repro_probe.common.run_files import FindingsDirectory
from repro_probe.protocol.findings import COMPILED, LOADED
from repro_probe.protocol.orders import FunctionData
from repro_probe.protocol.recipe_data import CONFIG_MODULES

Fix = Callable[[Any, str, object], None]

#: The functions that see every graph of Dynamo, and every graph that Inductor generates code for.
_BORDERS = (
    ("torch._dynamo.output_graph", "OutputGraph", "call_user_compiler"),
    ("torch._inductor.graph", "GraphLowering", "compile_to_module"),
)

#: The methods (or a module's functions, for "") that run or load code which an earlier run has compiled.
_LOADED = (
    ("torch.export.pt2_archive._package", "AOTICompiledModel", "__call__"),
    ("torch._inductor.package.package", "AOTICompiledModel", "__call__"),  # an older torch has the class here
    ("torch._dynamo.aot_compile", "AOTCompiledFunction", "__call__"),
    ("torch._export", "", "aot_load"),
    ("torch._precompile", "PrecompiledModule", "__call__"),
)


_operator = threading.local()  # `traced`: whether an operator of higher order has its functions traced


def run_all_in_eager(findings: FindingsDirectory, fix: Fix) -> None:
    """Switch Dynamo off for the whole run with `fix`, and watch for graphs that are compiled, and code that is loaded.

    Operators of higher order, such as `torch.cond` and `flex_attention`, let Dynamo trace their functions in eager too:
    some raise an exception without it. So Dynamo is on while such an operator runs.
    """
    when_imported(CONFIG_MODULES["dynamo"], lambda config: fix(config, "disable", True))
    when_imported("torch._higher_order_ops.utils", lambda module: _let_operators_trace(module, fix))
    for name, cls, method in _BORDERS:
        when_imported(name, functools.partial(_watch, findings=findings, finding=COMPILED, cls=cls, method=method))
    for name, cls, method in _LOADED:
        when_imported(name, functools.partial(_watch, findings=findings, finding=LOADED, cls=cls, method=method))


def _let_operators_trace(module: Any, fix: Fix) -> None:
    original = getattr(module, "_set_compilation_env", None)
    if original is None:
        return

    @contextlib.contextmanager
    def set_compilation_env() -> Iterator[None]:
        from torch._dynamo import config

        before = getattr(_operator, "traced", False)
        _operator.traced = True
        fix(config, "disable", False)
        try:
            with original():
                yield
        finally:
            _operator.traced = before
            fix(config, "disable", not before)

    module._set_compilation_env = set_compilation_env


def _watch(module: Any, findings: FindingsDirectory, finding: str, cls: str, method: str) -> None:
    owner = getattr(module, cls, None) if cls else module
    original = getattr(owner, method, None)
    if original is None or (cls and getattr(owner, "__module__", "") != module.__name__):
        return  # this torch lacks it, or has it elsewhere

    @functools.wraps(original)
    def noted(*arguments: Any, **named: Any) -> Any:
        if not getattr(_operator, "traced", False):
            findings.append(finding, f"{cls}.{method}")
        return original(*arguments, **named)

    setattr(owner, method, noted)


def is_named(code: CodeType, functions: Sequence[FunctionData]) -> bool:
    """Whether the function of `code` is among `functions`."""
    description = {"name": code.co_name, "file": code.co_filename, "line": code.co_firstlineno}
    return description in functions


def run_functions_in_eager(functions: Sequence[FunctionData]) -> None:
    """Run `functions` in eager wherever Dynamo would compile or inline them.

    As ``@torch.compiler.disable`` on their definitions would. Hooked are the place where Dynamo gets a frame
    (`CatchErrorsWrapper`, torch/_dynamo/convert_frame.py), and the place where it decides whether to inline a call
    (`InliningInstructionTranslator`, torch/_dynamo/symbolic_convert.py).
    """

    def is_wanted(code: CodeType) -> bool:
        return is_named(code, functions)

    when_imported("torch._dynamo.convert_frame", lambda module: _skip_frames(module, is_wanted))
    when_imported("torch._dynamo.symbolic_convert", lambda module: _refuse_inlining(module, is_wanted))


def _skip_frames(module: Any, is_wanted: Callable[[CodeType], bool]) -> None:
    """Compile neither the frames of wanted functions nor the functions that they call."""
    original = module.CatchErrorsWrapper.__call__

    @functools.wraps(original)
    def call(self: Any, frame: Any, *rest: Any) -> Any:
        if not is_wanted(frame.f_code):
            return original(self, frame, *rest)
        return _skip_with_callees()

    module.CatchErrorsWrapper.__call__ = call


def _skip_with_callees() -> Any:
    """Return the answer with which Dynamo runs a frame, and all that the frame calls, in eager."""
    from torch._dynamo import types

    if not hasattr(types, "FrameExecStrategy"):  # an older torch has a flag for it
        return sys.modules["torch._C._dynamo.eval_frame"].skip_code_recursive_flag
    skip = types.FrameExecStrategy(types.FrameAction.SKIP, types.FrameAction.SKIP)
    return types.ConvertFrameReturn(frame_exec_strategy=skip)


def _refuse_inlining(module: Any, is_wanted: Callable[[CodeType], bool]) -> None:
    """Make a call of a wanted function break the graph: Dynamo asks the function whether it is disabled."""
    cls = module.InliningInstructionTranslator
    original = cls.check_inlineable

    @functools.wraps(original)
    def check_inlineable(function: Any) -> Any:
        if hasattr(function, "get_code") and hasattr(function, "get_function") and is_wanted(function.get_code()):
            function.get_function()._torchdynamo_disable = True
        return original(function)

    cls.check_inlineable = staticmethod(check_inlineable)


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
