"""Ask a forked child whether it can use this machine's accelerator."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple

from repro_probe.common.torch_environment import accelerator

_LONGEST = 120  # seconds; the first use of a device that is busy or asleep can take some
_ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


class ForkedAccelerator(NamedTuple):
    """What a forked child found: the accelerator's `name`, and the `problem` with it; empty where there is none."""

    name: str = ""
    problem: str = ""


@contextlib.contextmanager
def accelerator_left_alone() -> Iterator[None]:
    """Within this block, ``torch.cuda.is_available()`` asks the driver's library, and does not start CUDA.

    torch itself offers that for processes that fork later (docs of ``torch.cuda.is_available``).
    """
    if _ASK_NVML in os.environ:
        yield
        return
    os.environ[_ASK_NVML] = "1"
    try:
        yield
    finally:
        del os.environ[_ASK_NVML]


def in_child(work: Callable[[], str]) -> tuple[str, int]:
    """Return the text that `work` returns in a forked child, and the status of the child."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            with open(write_end, "w", encoding="utf-8") as file:
                file.write(work())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as file:
        text = file.read()
    return text, os.waitpid(pid, 0)[1]


def ask_child() -> ForkedAccelerator:
    """Fork a child that uses the accelerator, and return what became of it.

    The runtime of an accelerator does not survive a fork: once a process has started it, torch refuses it in the
    process's children (`_is_in_bad_fork` in torch/cuda/__init__.py). A process that has not started it can fork as
    it likes.
    """
    text, status = in_child(_use)
    name, _, problem = text.partition("\n")
    return ForkedAccelerator(name, problem if not status else problem or f"the child ended with status {status}")


def _use() -> str:
    """Use the accelerator. Return its name, and on a second line what is wrong."""
    import torch

    signal.alarm(_LONGEST)
    name = ""
    try:
        name = accelerator(torch) or ""
        if name and torch.ones(2, device=name).sum().item() != 2.0:
            return f"{name}\nthe sum of two ones is wrong"
    except Exception as error:
        return f"{name}\n{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return name
