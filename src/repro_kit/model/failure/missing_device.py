"""Failures that show that this machine, or this build of torch, lacks a device that the program needs."""

from __future__ import annotations

import re

from repro_kit.model.failure.failure import Failure

#: What torch says of a device that is not there, with its name if the message has none.
_MISSING = (
    (re.compile(r"Torch not compiled with (\w+) enabled"), ""),
    (re.compile(r"not linked with support for (\w+) devices"), ""),
    (re.compile(r"^torch\.\w+\.\w+ requires (\w+) support"), ""),
    (re.compile(r"Attempting to deserialize object on an? (\w+) device"), ""),
    (re.compile(r"No (\w+) GPUs are available"), ""),
    (re.compile(r"Found no NVIDIA driver on your system|CUDA error: no CUDA-capable device is detected"), "CUDA"),
    (re.compile(r"CUDA error: invalid device ordinal|deserialize object on \w+ device \d+ but"), "another GPU"),
    (re.compile(r"Tried to instantiate dummy base class|Cannot access accelerator device when none is"), "a GPU"),
)
#: What compiled code says if such a device is missing. A machine that has it may say the same for other reasons.
_FOR_WANT_OF_IT = re.compile(
    r"Could not run '[\w:.]+' with arguments from the '(?:CUDA|XPU|MPS|HPU|MTIA|PrivateUse1)' backend"
    r"|Cannot find a working triton installation"
)


def missing_device(failure: Failure) -> str:
    """The device that is missing (``CUDA``, or ``a GPU`` where the message has no name); empty if none is."""
    for link in failure.exceptions:
        for says, name in _MISSING:
            found = says.search(link.message)
            if found:
                return name or found[1].upper()
    return ""


def may_lack_device(failure: Failure) -> bool:
    """Whether a missing device may be the cause: only a run without the compiler shows whether one is missing."""
    return bool(missing_device(failure)) or any(_FOR_WANT_OF_IT.search(link.message) for link in failure.exceptions)
