"""The progress of a reduction in one line."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from repro_kit.reduce import Event
from repro_kit.ui import Ui

_WINDOW = 30.0  # seconds over which the rate is measured
_SHORTEST = 1.0  # seconds before a rate is shown


def shown(ui: Ui, deadline: float, clock: Callable[[], float] = time.monotonic) -> Callable[[Event], None]:
    """A listener that shows the progress of a reduction that may take `deadline` seconds."""
    started = clock()
    answered: deque[float] = deque()
    accepted = 0

    def show(event: Event) -> None:
        nonlocal accepted
        now = clock()
        accepted += event.kind == "accepted"
        if event.kind == "query":
            answered.append(now)
        while answered and answered[0] < now - _WINDOW:
            answered.popleft()
        since = min(now - started, _WINDOW)
        rate = f" ({len(answered) / since:.1f}/s)" if since >= _SHORTEST else ""
        left = event.statements
        ui.progress(
            f"{left} statement{'s' * (left != 1)} left, {event.queries} queries{rate}, {accepted} accepted, "
            f"{event.name.replace('_', ' ')}, {_time(deadline - (now - started))}"
        )

    return show


def _time(seconds: float) -> str:
    """The time until the deadline; most reductions end before."""
    if seconds < 1:
        return "no time left"
    return f"≤ {seconds / 60:.0f} min left" if seconds >= 90 else f"≤ {seconds:.0f} s left"
