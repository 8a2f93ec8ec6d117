"""How findings, replies and runs name a signal, and the one by which a process is asked for its stack."""

from __future__ import annotations

import signal

#: A signal that programs leave alone, and that Python has no name for. None where the system has none of that kind.
STACK_SIGNAL: int | None = signal.SIGRTMAX - 7 if hasattr(signal, "SIGRTMAX") else None


def signal_name(number: int) -> str:
    """The name of signal `number`: ``SIGSEGV``; ``SIG36`` for a real-time signal, which has no name of its own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
