"""Whether a failure on the CPU is the one that was recorded on another device."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from repro_kit.failure.failure import Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import KEPT_MAGNITUDE, Signature, Strength

_DEVICE = re.compile(r"(?<![\w.])(?:cuda|xpu|mps|hpu|mtia|npu|cpu)(?::[\d#]+)?(?![\w.])", re.IGNORECASE)
#: Failures of one device: its memory, its times, its kernels.
_UNKNOWN = "The record does not say whether it failed there."
_WRONG = "There its results were wrong, says the record, but not by how much."


@dataclass(frozen=True)
class MovedToCpu:
    """How a program came to the CPU that was recorded on devices which this machine lacks.

    `recorded` is the failure there; None: the file with the program does not say. `layer` is the layer that an ablation
    named there.
    """

    devices: tuple[str, ...]
    recorded: Signature | None = None
    layer: Layer | None = None
    sizes: str = ""  # how the sizes differ from the recorded ones, in words

    def is_twin(self, layer: Layer | None) -> bool:
        """Whether the failure on the CPU, in `layer`, is the recorded one."""
        return self.recorded is not None and (None in (self.layer, layer) or self.layer is layer)

    def label(self, layer: Layer | None) -> str:
        """A few words for titles."""
        where = in_words(self.devices)
        return f"CPU twin of a failure on {where}" if self.is_twin(layer) else f"on the CPU; recorded on {where}"

    def sentence(self, layer: Layer | None) -> str:
        """What is claimed, and what is not."""
        where = in_words(self.devices)
        sizes = f", with {self.sizes}," if self.sizes else ""
        if self.recorded is None:
            return (
                f"The program was recorded on {where} and moved to the CPU. The record does not say how it failed on"
                f" {where}, so nothing shows that this is the same failure."
            )
        seen = f"The program was recorded on {where}, where it failed: {self.recorded.summary()}."
        if not self.is_twin(layer):
            return f"{seen} On the CPU the layer at fault is {layer}, and not {self.layer}: this is another failure."
        twin = f"Moved to the CPU{sizes} it fails in the same way: this is a CPU twin, which was not run on {where}."
        return f"{seen} {twin}"


def in_words(devices: tuple[str, ...]) -> str:
    """``CUDA`` or ``CUDA and XPU``."""
    return " and ".join(device.upper() for device in devices)


def gpu_only(
    devices: tuple[str, ...],
    seen: str,
    recorded: Signature | None,
    *,
    runs: bool = True,
    is_wrong_result: bool = False,
) -> str:
    """The sentence about a program whose failure does not show on the CPU; `seen` says what it does there.

    `runs`: it runs there in eager. What a program lacks on the CPU, it may lack on its own device too.
    `is_wrong_result`: of the failure no more is known than that.
    """
    where = in_words(devices)
    unknown = _WRONG if is_wrong_result else _UNKNOWN
    failed = f"There it failed: {recorded.summary()}." if recorded else unknown
    remedy = f"run the same command on a machine with {where}" if runs else f"a machine with {where} may run it"
    return (
        f"GPU only: the program was recorded on {where}, which this machine lacks, and on the CPU {seen}. {failed}"
        f" The record is unchanged; {remedy}."
    )


def is_same_on_cpu(recorded: Signature, found: Signature) -> bool:
    """Whether `found`, of a run on the CPU, is the failure `recorded` on another device.

    Kind, exception, operator, innermost frame and message must be equal; only the names of devices may differ. So an
    error of one device's code generator is never that of another's. Memory and times are the device's own.
    """
    if recorded.kind is Kind.OOM or recorded.kind.policy.measured:
        return False
    if recorded.kind is Kind.ACCURACY and not _is_as_wrong(recorded, found):
        return False
    if recorded.frames and recorded.frames[:1] != found.frames[:1]:
        return False
    if recorded.kind is Kind.CRASH and not (recorded.frames or recorded.message):
        return False  # the class of the signal alone says too little
    first, second = _without_devices(recorded), _without_devices(found)
    return first.message == second.message and first.matches(second, Strength.REBASED)


def _is_as_wrong(recorded: Signature, found: Signature) -> bool:
    alike = recorded.difference is not None and recorded.difference == found.difference
    smaller, larger = sorted((recorded.magnitude, found.magnitude))
    return alike and smaller >= KEPT_MAGNITUDE * larger


def _without_devices(signature: Signature) -> Signature:
    return replace(signature, message=_DEVICE.sub("<device>", signature.message))
