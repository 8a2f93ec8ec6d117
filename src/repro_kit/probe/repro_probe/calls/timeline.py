"""Measure what compiled calls do: the time of each, whether it compiled, and a digest of what it returned.

One file a process, ``timeline-PID.json``, written when it ends. Only calls from plain Python count: one within another
belongs to that. Seeds are set first, so that two runs of a script that sets none can be compared.

Option ``timeline``: the seed, or null for none to be set.
"""

import atexit
import functools
import os
import sys
import threading
import time

from repro_probe.common.imports import when_imported

_MOST_CALLS = 20_000  # that are noted
_MOST_DIGESTS = 300  # calls whose results are
_MOST_TENSORS = 32  # of one call
_SAMPLES = 32  # elements of a tensor
_LARGEST_SUM = 1 << 24  # elements that are summed


class _Calls:
    """The calls of this process."""

    def __init__(self, place):
        self.place = place
        self.pid = os.getpid()
        self.started = time.time()
        self.calls = []
        self.left_out = 0
        self.compiles = 0  # begun so far
        self.inside = threading.local()

    def write(self):
        if os.getpid() == self.pid and (self.calls or self.left_out):
            told = {"rank": os.environ.get("RANK"), "started": self.started, "calls": self.calls}
            self.place.write("timeline", {**told, "left_out": self.left_out})


def install(place):
    """Arrange for it; nothing is imported before the script does it."""
    calls = _Calls(place)
    if place.options["timeline"] is not None:
        when_imported("torch", lambda torch: _seed(torch, place.options["timeline"]))
    when_imported("torch._dynamo.callback", lambda module: _count_compiles(module, calls))
    when_imported("torch._dynamo.eval_frame", lambda module: _wrap(module, calls))
    atexit.register(calls.write)


def _seed(torch, seed):
    import random

    random.seed(seed)
    torch.manual_seed(seed)
    when_imported("numpy.random", lambda numpy_random: numpy_random.seed(seed))


def _count_compiles(module, calls):
    handler = getattr(module, "callback_handler", None)
    if handler is None:
        return

    def begun(*_):
        calls.compiles += 1

    handler.register_start_callback(begun)


def _wrap(eval_frame, calls):
    """Wrap what torch.compile returns for a function; a module's forward is one too."""
    context = getattr(eval_frame, "OptimizeContext", None)
    if context is None:
        return
    call = context.__call__

    @functools.wraps(call)
    def wrapped_call(self, fn):
        compiled = call(self, fn)
        return _timed(compiled, calls) if hasattr(compiled, "_torchdynamo_inline") else compiled

    context.__call__ = wrapped_call


def _timed(compiled, calls):
    owner = getattr(getattr(compiled, "_torchdynamo_orig_callable", None), "__self__", None)
    name = type(owner).__qualname__ if owner is not None else getattr(compiled, "__qualname__", "?")

    @functools.wraps(compiled)
    def timed(*args, **kwargs):
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

    # Dynamo knows a wrapper by this number (torch/_dynamo/eval_frame.py, innermost_fn), and must not compile this one.
    timed._torchdynamo_wrapper_id = id(timed)
    skip = getattr(sys.modules.get("torch._C._dynamo.eval_frame"), "skip_code", None)
    if skip is not None:
        skip(timed.__code__)
    return timed


def _now():
    """The time when what was queued on an accelerator is done."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def _note(calls, name, seconds, compiled, result, inputs):
    if len(calls.calls) >= _MOST_CALLS:
        calls.left_out += 1
        return
    call = {"name": name, "seconds": seconds, "compiled": compiled}
    if len(calls.calls) < _MOST_DIGESTS:
        call.update(result=_digest(result), inputs=_digest(inputs))
    calls.calls.append(call)


def _digest(values):
    """Shape, dtype, sum of magnitudes and some elements of the tensors in `values`; None where they cannot be read."""
    import torch

    found = []
    try:
        with torch.no_grad():
            for value in _leaves(values):
                if len(found) == _MOST_TENSORS:
                    break
                found.append(_of(torch, value))
    except Exception:  # a fake or deferred tensor, a mode that is on: who compares says how many calls were not
        return None
    return found


def _leaves(value):
    import torch

    if isinstance(value, torch.Tensor) or type(value) in (bool, int, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)


def _of(torch, value):
    if not isinstance(value, torch.Tensor):
        return [[], type(value).__name__, None, [float(value)]]
    tensor = value.detach()
    flat = tensor.reshape(-1)
    total = float(flat.abs().sum(dtype=torch.float64)) if 0 < flat.numel() <= _LARGEST_SUM else None
    some = flat[:: max(1, flat.numel() // _SAMPLES)][:_SAMPLES]
    numbers = torch.view_as_real(some).reshape(-1) if some.is_complex() else some
    return [list(tensor.shape), str(tensor.dtype), total, [float(number) for number in numbers.tolist()]]
