"""Let a program set no hook, handler or limit of its process that makes other code raise, such as the compiler's.

The setup of a cell is this text.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import Any

_CALLBACKS = "torch._dynamo.callback"
#: Functions by which a program has its own code called, or code stopped, wherever the process happens to be.
_SETTERS = {
    "sys": ("addaudithook", "setrecursionlimit", "settrace", "setprofile"),
    "threading": ("settrace", "setprofile", "stack_size"),
    "resource": ("setrlimit",),
    "signal": ("signal", "alarm", "setitimer"),
    _CALLBACKS: ("on_compile_start", "on_compile_end"),
    f"{_CALLBACKS}.callback_handler": (
        *("register_start_callback", "register_end_callback", "remove_start_callback", "remove_end_callback"),
    ),
}


def refuse() -> None:
    """Do nothing where the program calls such a function."""
    for name, setters in _SETTERS.items():
        owner = _found(name)
        for setter in setters:
            original = getattr(owner, setter, None)
            if original is not None:
                setattr(owner, setter, _refused(original))


def _found(name: str) -> Any:
    """Return the module `name`, or the object that it names in a module; None where there is none."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(_found(module), attribute, None) if module == _CALLBACKS else importlib.import_module(name)
    except ImportError:  # `resource` on Windows, callbacks in older torch
        return None


def _refused(original: Any) -> Any:
    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        if not _is_programs(sys._getframe(1).f_code.co_filename):
            return original(*arguments, **named)
        return _answer(original.__name__, arguments)

    return call


def _answer(name: str, arguments: tuple[Any, ...]) -> Any:
    """Return what the function returns that is not called: what was set before, or the decorated function."""
    import signal

    answers = {"alarm": 0, "setitimer": (0.0, 0.0), "stack_size": 0}
    if name.startswith("on_compile"):
        return arguments[0]
    return signal.getsignal(arguments[0]) if name == "signal" else answers.get(name)


def _is_programs(file: str) -> bool:
    """Whether `file` is none of torch's, Python's or the probe's."""
    import torch

    python, of_torch = os.path.dirname(os.__file__), os.path.dirname(torch.__file__)
    of_python = file.startswith(python) and "-packages" not in file[len(python) :]
    of_probe = f"{os.sep}repro_probe{os.sep}" in file or "repro_setup" in file
    return not (of_python or of_probe or file.startswith(("<frozen", of_torch)))
