"""Record the compiled calls of a process: their times with digests of results, or what each returns and leaves."""

from __future__ import annotations

import atexit
import functools
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from repro_probe.calls.python_state import StateDigest
from repro_probe.common.imports import when_imported
from repro_probe.common.run_files import FindingsDirectory
from repro_probe.protocol.findings import TIMELINE, Digest, TimedCall, Timeline, WitnessedCall

_MOST_CALLS = 20_000  # calls that are recorded
_MOST_DIGESTS = 300  # calls with a digest
_MOST_TENSORS = 32  # tensors in the digest of one call
_SAMPLES = 32  # elements of a tensor in a digest
_LARGEST_SUM = 1 << 24  # elements of the largest tensor with a sum


class _TimedCalls:
    """The timed calls of this process."""

    def __init__(self, findings: FindingsDirectory) -> None:
        self.findings = findings
        self.pid = os.getpid()
        self.started = time.time()
        self.calls: list[TimedCall] = []
        self.left_out = 0
        self.compiles = 0  # begun so far
        self.inside = threading.local()

    def write(self) -> None:
        if os.getpid() == self.pid and (self.calls or self.left_out):
            timeline: Timeline = {
                "rank": os.environ.get("RANK"),
                "started": self.started,
                "calls": self.calls,
                "left_out": self.left_out,
            }
            self.findings.write(TIMELINE, timeline)


def record_timeline(findings: FindingsDirectory) -> None:
    """Install the hooks, without importing a module before the script does.

    Each process writes one file, ``timeline-PID.json``, when it ends. A call within another compiled call is part
    of that call. Random seeds are set first, so that two runs of a script without seeds can be compared: option
    ``timeline`` is the seed, or null to set no seed.
    """
    calls = _TimedCalls(findings)
    seed = findings.options["timeline"]
    if seed is not None:
        when_imported("torch", lambda torch: _seed(torch, seed))
    when_imported("torch._dynamo.callback", lambda module: _count_compiles(module, calls))
    when_imported("torch._dynamo.eval_frame", lambda module: _wrap(module, calls))
    atexit.register(calls.write)


def _seed(torch: Any, seed: int) -> None:
    import random

    random.seed(seed)
    torch.manual_seed(seed)
    when_imported("numpy.random", lambda numpy_random: numpy_random.seed(seed))


def _count_compiles(module: Any, calls: _TimedCalls) -> None:
    handler = getattr(module, "callback_handler", None)
    if handler is None:
        return

    def begun(*_: Any) -> None:
        calls.compiles += 1

    handler.register_start_callback(begun)


def _wrap(eval_frame: Any, calls: _TimedCalls) -> None:
    """Wrap the callables that torch.compile returns for functions and for the forward of modules."""
    context = getattr(eval_frame, "OptimizeContext", None)
    if context is None:
        return
    call = context.__call__

    @functools.wraps(call)
    def wrapped_call(self: Any, fn: Any) -> Any:
        compiled = call(self, fn)
        return _timed(compiled, calls) if hasattr(compiled, "_torchdynamo_inline") else compiled

    context.__call__ = wrapped_call


def _timed(compiled: Any, calls: _TimedCalls) -> Any:
    owner = getattr(getattr(compiled, "_torchdynamo_orig_callable", None), "__self__", None)
    name = type(owner).__qualname__ if owner is not None else getattr(compiled, "__qualname__", "?")

    @functools.wraps(compiled)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if getattr(calls.inside, "flag", False):
            return compiled(*args, **kwargs)
        calls.inside.flag = True
        before, started = calls.compiles, _now()
        try:
            result = compiled(*args, **kwargs)
            seconds = _now() - started
        finally:
            calls.inside.flag = False
        _note(calls, name, seconds, calls.compiles != before, result, (args, kwargs))
        return result

    wrapper: Any = timed
    # Dynamo recognises a wrapper by this number (torch/_dynamo/eval_frame.py, innermost_fn), and must not compile it.
    wrapper._torchdynamo_wrapper_id = id(timed)
    skip = getattr(sys.modules.get("torch._C._dynamo.eval_frame"), "skip_code", None)
    if skip is not None:
        skip(wrapper.__code__)
    return wrapper


def _now() -> float:
    """Return the time after the work queued on an accelerator is done."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def _note(calls: _TimedCalls, name: str, seconds: float, compiled: bool, result: Any, inputs: Any) -> None:
    if len(calls.calls) >= _MOST_CALLS:
        calls.left_out += 1
        return
    call: TimedCall = {"name": name, "seconds": seconds, "compiled": compiled}
    if len(calls.calls) < _MOST_DIGESTS:
        call["result"] = _digest(result)
        call["inputs"] = _digest(inputs)
    calls.calls.append(call)


def _digest(values: Any) -> list[Digest] | None:
    """Return shape, dtype, sum of magnitudes and some elements of each tensor; None where they cannot be read."""
    import torch
    from torch.utils._pytree import tree_leaves

    try:
        leaves = [leaf for leaf in tree_leaves(values) if isinstance(leaf, (torch.Tensor, bool, int, float))]
        with torch.no_grad():
            return [_of(torch, leaf) for leaf in leaves[:_MOST_TENSORS]]
    except Exception:  # a fake or deferred tensor, or a mode is on; the report counts such calls
        return None


def _of(torch: Any, value: Any) -> Digest:
    if not isinstance(value, torch.Tensor):
        return [[], type(value).__name__, None, [float(value)]]
    tensor = value.detach()
    flat = tensor.reshape(-1)
    total = float(flat.abs().sum(dtype=torch.float64)) if 0 < flat.numel() <= _LARGEST_SUM else None
    some = flat[:: max(1, flat.numel() // _SAMPLES)][:_SAMPLES]
    numbers = torch.view_as_real(some).reshape(-1) if some.is_complex() else some
    return [list(tensor.shape), str(tensor.dtype), total, [float(number) for number in numbers.tolist()]]


def _kind(error: Exception) -> str:
    """Return the name of the class of `error`; of one of Dynamo's own, that of the class which a script can catch."""
    own = "torch._dynamo."
    return next(kind.__name__ for kind in type(error).__mro__ if not f"{kind.__module__}.".startswith(own))


_CALLS = 1000  # calls that are recorded


class Witness:
    """Passes the list of calls to `write` when the process ends: [name, arguments before, result, state after].

    Two runs of a script can be compared by these digests, as far as their calls have the same arguments. The random
    number generators are seeded for that.
    """

    def __init__(self, torch: Any, write: Callable[[list[WitnessedCall]], None]) -> None:
        self._torch = torch
        self._digest = StateDigest(torch)
        self._calls: list[WitnessedCall] = []
        random.seed(0)
        torch.manual_seed(0)
        atexit.register(lambda: write(self._calls))

    def __call__(self, original: Any, compiled: Any) -> Any:
        """Return `compiled`, which was made from `original`, with its calls recorded."""
        if isinstance(compiled, self._torch.nn.Module):
            compiled.forward = self._witnessed(original, compiled.forward)
            return compiled
        return self._witnessed(original, compiled)

    def _witnessed(self, original: Any, compiled: Any) -> Callable[..., Any]:
        compiling = self._torch.compiler.is_compiling

        @functools.wraps(compiled)
        def call(*arguments: Any, **named: Any) -> Any:
            if compiling():
                return compiled(*arguments, **named)
            given: dict[Any, Any] = {**dict(enumerate(arguments)), **named}
            before = self._digest.of(given)
            try:
                result = compiled(*arguments, **named)
            except Exception as error:
                self._note(original, before, ["raised", _kind(error)], given)
                raise
            self._note(original, before, self._digest.of(result), given)
            return result

        return call

    def _note(self, original: Any, before: Any, result: Any, given: dict[Any, Any]) -> None:
        if len(self._calls) < _CALLS:
            name = getattr(original, "__qualname__", type(original).__name__)
            state = {**self._digest.of_reach(original), "arguments": self._digest.of(given)}
            self._calls.append([name, before, result, state])
