"""Replace the outermost calls of compiled callables: a compiled callable may call another one, or itself."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

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
