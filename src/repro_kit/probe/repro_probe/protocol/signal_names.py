"""How findings, replies and runs name a signal."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """The name of signal `number`: ``SIGSEGV``; ``SIG36`` for a real-time signal, which has no name of its own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
