"""Run functions of an unmodified script in eager, as ``@torch.compiler.disable`` on their definitions would."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from repro_probe.common.imports import when_imported
from repro_probe.protocol.orders import FunctionData


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
