"""Switch the compiler off, even where ``TORCH_COMPILE_DISABLE`` does not reach, and record what was compiled anyway."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from repro_probe.common.findings_directory import FindingsDirectory
from repro_probe.common.imports import when_imported
from repro_probe.protocol.config_modules import CONFIG_MODULES
from repro_probe.protocol.findings import COMPILED, LOADED

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
