"""What torch says where a device is missing, and what it says for other reasons."""

import pytest

from repro_kit.failure.failure import ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.missing import may_lack_device, missing_device


def failure(*messages: str) -> Failure:
    return Failure(Kind.RUNTIME_ERROR, exceptions=tuple(ExceptionLink("RuntimeError", text) for text in messages))


@pytest.mark.parametrize(
    ("message", "device"),
    [
        ("Torch not compiled with CUDA enabled", "CUDA"),
        ("Torch not compiled with XPU enabled", "XPU"),
        ("PyTorch is not linked with support for cuda devices", "CUDA"),
        ("torch.cuda.Stream requires CUDA support", "CUDA"),
        ("Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.", "CUDA"),
        ("Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1.", "another GPU"),
        ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "CUDA"),
        ("No CUDA GPUs are available", "CUDA"),
        ("CUDA error: invalid device ordinal\nCUDA kernel errors might be asynchronously reported", "another GPU"),
        ("Cannot access accelerator device when none is available.", "a GPU"),
        ("Tried to instantiate dummy base class CUDAGraph", "a GPU"),
    ],
)
def test_a_missing_device_is_named(message: str, device: str) -> None:
    assert missing_device(failure("a wrapper", message)) == device
    assert may_lack_device(failure(message))


def test_an_operator_that_a_device_lacks_is_a_hint_only() -> None:
    message = "Could not run 'aten::empty.memory_format' with arguments from the 'CUDA' backend."
    assert not missing_device(failure(message)) and may_lack_device(failure(message))


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: an illegal memory access was encountered",
        "Could not run 'aten::_flash' with arguments from the 'CPU' backend.",
        "the model requires CUDA support",
        "",
    ],
)
def test_other_failures_are_of_no_missing_device(message: str) -> None:
    assert not missing_device(failure(message)) and not may_lack_device(failure(message))
