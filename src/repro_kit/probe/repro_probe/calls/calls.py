"""Pass the outermost calls of compiled callables in the user's script to observers.

An observer may repeat a call. Therefore runs with observers are used for their measurements only.
"""

from __future__ import annotations

import atexit
import functools
import math
import threading
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from repro_probe.calls import call_timing
from repro_probe.change.export_stand_ins import EXPORTS, Function, wrap
from repro_probe.common.run_files import FindingsDirectory
from repro_probe.protocol.findings import MEASURED, CompiledCallData, MeasuredCalls
from repro_probe.protocol.orders import Measure

if TYPE_CHECKING:
    from repro_probe.calls.exported_calls import ExportedCalls


#: Makes a call: gets the function, its arguments and its named arguments.
Maker = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class OutermostCalls:
    """The calls of compiled callables that no other such call of the same thread encloses."""

    def __init__(self) -> None:
        self._inside = threading.local()

    def enter(self) -> None:
        """Leave the later calls of this thread as they are."""
        self._inside.flag = True

    def made_by(self, make: Maker, compiled: Any) -> Any:
        """Return `compiled`, whose outermost calls `make` makes. A module stays the same object."""
        if hasattr(compiled, "forward"):
            compiled.forward = self._replaced(compiled.forward, make)
            return compiled
        return self._replaced(compiled, make)

    def _replaced(self, run: Callable[..., Any], make: Maker) -> Callable[..., Any]:
        @functools.wraps(run)
        def call(*arguments: Any, **named: Any) -> Any:
            if getattr(self._inside, "flag", False):
                return run(*arguments, **named)
            self._inside.flag = True
            try:
                return make(run, arguments, named)
            finally:
                self._inside.flag = False

        return call


#: A function that observes a call, and the number of first calls to observe of each compiled callable.
Observer = tuple[Callable[["Call"], None], Optional[int]]

#: A function that gets a call before it is made, and returns a function for afterwards: it gets what the call raises.
AroundCall = Callable[["Call"], Callable[[Optional[Exception]], None]]
Result = TypeVar("Result")

_outermost = OutermostCalls()


class WatchedCalls:
    """Everything that the script compiles, with observers of its calls."""

    def __init__(
        self, findings: FindingsDirectory, observers: list[Observer], around: AroundCall | None = None
    ) -> None:
        """Each observer is (function, number): the function gets that many first calls of each compiled callable.

        With None for the number, the function gets the second call, or the only call when the script ends. `around`
        is called before each call, and what it returns after the call, with the exception of the call or None.
        """
        self.findings = findings
        self.observers = observers
        self.around = around
        self.compiled: list[CompiledCallable] = []
        self.records: list[CompiledCallData] = []
        atexit.register(self._end)

    def watch(self, compiled: Any, original: Any) -> Any:
        """Return `compiled` with its outermost calls observed."""
        if isinstance(original, type) or not callable(compiled):
            return compiled
        watched = CompiledCallable(self, original, compiled)
        self.compiled.append(watched)
        self.add(watched.record)
        return _outermost.made_by(watched.call, compiled)

    def add(self, record: CompiledCallData) -> None:
        """Write another record, of calls that are observed elsewhere."""
        self.records.append(record)

    def write(self) -> None:
        """Write the measurements of all callables."""
        seen = [record for record in self.records if record["calls"] or record.get("problem")]
        measured: MeasuredCalls = {"compiled": seen}
        self.findings.write(MEASURED, measured)

    def _end(self) -> None:
        for compiled in self.compiled:
            compiled.end()
        if self.records:
            self.write()


class CompiledCallable:
    """One compiled callable, and the record of its measurements."""

    def __init__(self, calls: WatchedCalls, original: Any, compiled: Any = None) -> None:
        self.calls = calls
        self.original = original
        self.compiled = compiled
        self.record: CompiledCallData = {"name": _name(original), "calls": 0, "backward": False}
        self.first: Call | None = None  # the first call, until there is a second

    def call(self, run: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return `run(*arguments, **named)`, and let the observers see the call."""
        self.record["calls"] += 1
        if self.record["calls"] == 2:
            self.first = None
        for observe, number in self.calls.observers:
            if self.record["calls"] == 2 if number is None else self.record["calls"] <= number:
                self._guarded(observe, Call(self, run, arguments, named))
        begin = self.calls.around
        end = begin and self._guarded(begin, Call(self, run, arguments, named))
        try:
            result = run(*arguments, **named)
        except Exception as error:
            if end is not None:
                self._guarded(end, error)
            raise
        if end is not None:
            self._guarded(end, None)
        if self.record["calls"] == 1 and any(number is None for _, number in self.calls.observers):
            self.first = Call(self, run, arguments, named)
            self._watch_backward(result)
        return result

    def end(self) -> None:
        """Observe a callable that was called only once, or never, when the script ends."""
        if not self.record["calls"] and self.calls.observers and hasattr(self.compiled, "forward"):
            apart = [ask.__name__ for ask in (bool, len) if _answer(ask, self.compiled) != _answer(ask, self.original)]
            if apart:
                words = f"{apart[0]}() of the compiled module is not that of the module itself"
                self.record["problem"] = f"it was never called, but {words}"
        if self.first is not None:
            _outermost.enter()
            for observe, number in self.calls.observers:
                if number is None:
                    self._guarded(observe, self.first)

    def _guarded(self, function: Callable[..., Result], *arguments: Any) -> Result | None:
        """Return the result of a function of an observer; None if it raises, which the record then says."""
        try:
            return function(*arguments)
        except Exception as error:
            self.record["problem"] = f"{type(error).__name__}: {error}"[:300]
            return None
        finally:
            self.calls.write()

    def _watch_backward(self, result: Any) -> None:
        import torch
        from torch.utils._pytree import tree_leaves

        from repro_probe.record.surroundings import compiles_autograd

        if compiles_autograd():  # compiled autograd would trace the hook too
            return

        def begun(gradient: Any) -> None:
            self.record["backward"] = True

        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.grad_fn is not None:
                leaf.register_hook(begun)


def _answer(ask: Callable[[Any], Any], module: Any) -> Any:
    """Return what `ask` says of a module; None where it has no answer."""
    try:
        return ask(module)
    except (TypeError, NotImplementedError):
        return None


class Call:
    """A call that can be repeated, compiled or in eager, under the same modes of torch."""

    def __init__(
        self, owner: CompiledCallable, run: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        import torch

        self.record = owner.record
        self.original = owner.original
        self.arguments = arguments, named
        self.run = run
        self.grad, self.inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

        def eager(
            *given: Any, **more: Any
        ) -> Any:  # a function, since disabling a module would wrap it in another module
            return owner.original(*given, **more)

        self.eager = torch._dynamo.disable(eager)

    def make(self, function: Callable[..., Any]) -> Any:
        """Call `function`, run the backward if the script did, and return the results."""
        import torch

        with torch.inference_mode(self.inference), torch.set_grad_enabled(self.grad):
            arguments, named = _apart(self.arguments)
            result = function(*arguments, **named)
            if self.record["backward"]:
                _backward(result)
        return result


def _apart(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    """Return `arguments` detached from the graph that computed them, whose backward belongs to the script."""
    import torch
    from torch.utils._pytree import tree_map

    def cut(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.requires_grad and not value.is_leaf:
            return value.detach().requires_grad_()
        return value

    return tree_map(cut, arguments)


def _backward(result: Any) -> None:
    """Run the backward of all differentiable results, and restore the gradients of leaves."""
    import torch
    from torch.utils._pytree import tree_leaves

    outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None]
    if not outputs:
        return
    leaves = _leaves([output.grad_fn for output in outputs])
    before = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    try:
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    finally:
        for leaf, gradient in zip(leaves, before):
            leaf.grad = gradient


def _leaves(nodes: list[Any]) -> list[Any]:
    """Return the leaf tensors of an autograd graph, in which gradients accumulate."""
    seen, tensors = set(), []
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            tensors.append(node.variable)
        nodes += [following for following, _ in node.next_functions]
    return tensors


def _name(function: Any) -> str:
    if getattr(function, "__name__", "") == "_call_impl":  # nn.Module.compile
        function = function.__self__
    code = getattr(getattr(function, "forward", function), "__code__", None)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    position = f" at {code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}" if code else ""
    return name.replace("<locals>.", "") + position


def nudged(compiled: Any, original: Any, direction: float, only: Collection[str] | None = None) -> Any:
    """Return `compiled`, whose outermost calls run with the results of their operators nudged by rounding errors.

    The sign of `direction` is that of the nudges, and its size chooses their random numbers. 0: no value changes.
    `only`: the names of the callables that are nudged; None: all.
    """

    def make(run: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        from repro_probe.judge.rounding import Nudge  # imports torch, which is imported by now

        with Nudge(max(0, int(abs(direction)) - 1), math.copysign(1.0, direction) if direction else 0.0):
            return run(*arguments, **named)

    if not callable(compiled) or isinstance(compiled, type) or (only is not None and _name(original) not in only):
        return compiled
    return _outermost.made_by(make, compiled)


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
    def _calls(self) -> WatchedCalls:
        observers: list[Observer] = []
        if {"accuracy", "validation"} & set(self.measures):
            from repro_probe.calls import compare_calls

            observe = compare_calls.observe if "accuracy" in self.measures else compare_calls.observe_validation
            observers.append((observe, self.compared or compare_calls.CALLS))
        if {"time", "memory"} & set(self.measures):
            observers.append((call_timing.observer(self.measures), None))
        if "state" not in self.measures:
            return WatchedCalls(self.findings, observers)
        from repro_probe.calls import compare_state

        return WatchedCalls(self.findings, observers, compare_state.compare)

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
