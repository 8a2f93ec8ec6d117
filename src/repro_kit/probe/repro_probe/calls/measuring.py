"""Take the measurements of compiled calls that the orders name."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from repro_probe.calls import call_timing, calls
from repro_probe.change.export_stand_ins import EXPORTS, Function, wrap
from repro_probe.common.findings_directory import FindingsDirectory
from repro_probe.protocol.orders import Measure

if TYPE_CHECKING:
    from repro_probe.calls.exported_calls import ExportedCalls


class Measuring:
    """Takes `measures` of the calls of everything that the script compiles or exports.

    The modules that import torch are imported once the script has imported torch. `compared` is the number of calls to
    compare with eager, or None for the usual number.
    """

    def __init__(self, findings: FindingsDirectory, measures: Sequence[Measure], compared: int | None) -> None:
        self.findings, self.measures, self.compared = findings, measures, compared

    def watch(self, compiled: Any, original: Any) -> Any:
        """Return `compiled` with its calls measured."""
        return self._calls.watch(compiled, original)

    def compare_exports(self) -> None:
        """Compare what the script exports from now on, where results are compared."""
        if "accuracy" in self.measures:
            for module, name in EXPORTS:
                wrap(module, name, self._comparing)

    @functools.cached_property
    def _calls(self) -> calls.WatchedCalls:
        observers: list[calls.Observer] = []
        if {"accuracy", "validation"} & set(self.measures):
            from repro_probe.calls import compare_calls

            observe = compare_calls.observe if "accuracy" in self.measures else compare_calls.observe_validation
            observers.append((observe, self.compared or compare_calls.CALLS))
        if {"time", "memory"} & set(self.measures):
            observers.append((call_timing.observer(self.measures), None))
        if "state" not in self.measures:
            return calls.WatchedCalls(self.findings, observers)
        from repro_probe.calls import compare_state

        return calls.WatchedCalls(self.findings, observers, compare_state.compare_state)

    @functools.cached_property
    def _exported(self) -> ExportedCalls:
        from repro_probe.calls.exported_calls import ExportedCalls

        return ExportedCalls(self._calls)

    def _comparing(self, original: Function) -> Function:
        return lambda *positional, **named: self._exported.export(original, *positional, **named)


def measuring_of(findings: FindingsDirectory) -> Measuring:
    """Return what takes the measurements that the orders name."""
    options = findings.options
    return Measuring(findings, options["measure"], options.get("compared_calls"))
