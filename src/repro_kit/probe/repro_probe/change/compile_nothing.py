"""Switch the compiler off, even where ``TORCH_COMPILE_DISABLE`` does not reach, and record any compiled graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from repro_probe.common.findings_directory import FindingsDirectory
from repro_probe.common.imports import when_imported
from repro_probe.protocol.config_modules import CONFIG_MODULES
from repro_probe.protocol.findings import COMPILED

Fix = Callable[[Any, str, object], None]

#: The functions that see every graph of Dynamo, and every graph that Inductor generates code for.
_BORDERS = (
    ("torch._dynamo.output_graph", "OutputGraph", "call_user_compiler"),
    ("torch._inductor.graph", "GraphLowering", "compile_to_module"),
)


def install(findings: FindingsDirectory, fix: Fix) -> None:
    """Switch Dynamo off for the whole run with `fix`, and watch for graphs that are compiled anyway."""
    when_imported(CONFIG_MODULES["dynamo"], lambda config: fix(config, "disable", True))
    for name, cls, method in _BORDERS:
        when_imported(name, functools.partial(_watch, findings=findings, cls=cls, method=method))


def _watch(module: Any, findings: FindingsDirectory, cls: str, method: str) -> None:
    owner = getattr(module, cls)
    original = getattr(owner, method)

    @functools.wraps(original)
    def noted(self: Any, *arguments: Any, **named: Any) -> Any:
        findings.append(COMPILED, f"{cls}.{method}")
        return original(self, *arguments, **named)

    setattr(owner, method, noted)
