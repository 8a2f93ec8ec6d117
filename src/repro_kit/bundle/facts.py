"""The facts of a failure, gathered once for all texts of the bundle."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from repro_kit.bundle.story.story import seen_with
from repro_kit.case.stage_results import Capture, Environment, Reduction
from repro_kit.diagnosis.cell import Ablation
from repro_kit.diagnosis.layer import IN_EAGER
from repro_kit.failure.failure import Failure, Layer
from repro_kit.failure.kinds import ShownBy
from repro_kit.failure.messages import AT_DEPTH, cut, without_notes
from repro_kit.failure.moved_to_cpu import MovedToCpu
from repro_kit.failure.signature import Signature, in_words

#: gcc and clang: ``file.cpp:12:3: error: …``
_NATIVE_ERROR = re.compile(r":\d+:(?:\d+:)? (?:fatal )?error: ")
_LINE = 200  # characters of an error's first line that are shown


@dataclass(frozen=True)
class Facts:
    """The failure of the bundle's subject, where it lies, and where it was seen."""

    signature: Signature
    failure: Failure | None
    environment: Environment
    ablation: Ablation | None = None
    capture: Capture | None = None
    reduction: Reduction | None = None
    others: tuple[str, ...] = field(default=())  # further failures of the same run
    moved_to_cpu: MovedToCpu | None = None  # how the program came from another device to the CPU
    in_eager: bool = False  # the subject fails alike without torch.compile

    @property
    def layer(self) -> Layer | None:
        """The layer at fault, if the ablation names one."""
        return self.ablation.layer if self.ablation else None

    @property
    def signature_line(self) -> str:
        """What the case looks for: its signature in the words of the run, and whether it is that of another device."""
        words = in_words(self.signature, self.failure)
        return f"{self.moved_to_cpu.label(self.layer)}: {words}" if self.moved_to_cpu else words

    @property
    def moved(self) -> str:
        """What a failure on the CPU says of the device on which the program was recorded; empty if it was not moved."""
        return self.moved_to_cpu.sentence(self.layer) if self.moved_to_cpu else ""

    @property
    def failure_line(self) -> str:
        """How the failing run ends: the first line of the error, or a description."""
        return failure_line(self.signature, self.failure)

    @property
    def evidence(self) -> str:
        """Which settings pass and which fail, in one sentence."""
        return self.ablation.sentence if self.ablation else IN_EAGER if self.in_eager else ""

    @property
    def seen_with(self) -> str:
        """``torch 2.13.0, Python 3.11.9, Linux-…``."""
        return seen_with(self.environment)


def without_private(facts: Facts, redact: Callable[[str], str]) -> Facts:
    """`facts` with redacted messages.

    Redaction comes before any cutting or wrapping: a piece of a secret would not be recognised.
    """
    failure = facts.failure
    if failure is not None:
        exceptions = tuple(replace(exception, message=redact(exception.message)) for exception in failure.exceptions)
        failure = replace(failure, exceptions=exceptions, text=redact(failure.text))
    signature = replace(facts.signature, message=redact(facts.signature.message))
    return replace(facts, signature=signature, failure=failure)


def telling_line(message: str) -> str:
    """The most useful line of an exception's message: a native compiler's first error, else the first line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = (line[line.index("error: ") :] for line in lines if _NATIVE_ERROR.search(line))
    return AT_DEPTH.sub("", next(errors, without_notes(message).partition("\n")[0].strip()))


def failure_line(signature: Signature, failure: Failure | None) -> str:
    """The failure on one line, in the words of the run."""
    policy = signature.kind.policy
    if policy.shown_by is ShownBy.WAIT and failure and failure.text:
        return f"the run does not end: {failure.text}"
    if policy.line:
        return policy.line.format(signal=(failure and failure.signal) or signature.signal)
    if policy.compared:
        return in_words(signature, failure)
    if failure and failure.exceptions:
        root = failure.exceptions[-1]
        return cut(f"{root.type.rsplit('.', 1)[-1]}: {telling_line(root.message)}".rstrip(": "), _LINE)
    return signature.summary()
