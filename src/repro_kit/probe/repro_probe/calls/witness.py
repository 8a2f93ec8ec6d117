"""Record digests of the result of each compiled call, and of the Python state after the call."""

from __future__ import annotations

import atexit
import functools
import random
from collections.abc import Callable
from typing import Any

from repro_probe.calls.state_digest import StateDigest
from repro_probe.protocol.findings import WitnessedCall

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
                self._note(original, before, ["raised", type(error).__name__], given)
                raise
            self._note(original, before, self._digest.of(result), given)
            return result

        return call

    def _note(self, original: Any, before: Any, result: Any, given: dict[Any, Any]) -> None:
        if len(self._calls) < _CALLS:
            name = getattr(original, "__qualname__", type(original).__name__)
            state = {**self._digest.of_reach(original), "arguments": self._digest.of(given)}
            self._calls.append([name, before, result, state])
