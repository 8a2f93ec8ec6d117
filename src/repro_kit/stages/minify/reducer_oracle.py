"""The reducer's oracle: what runs candidates, and what counts as the same failure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from repro_kit.model.failure.failure import Failure, Kind, Phase, Status, Verdict
from repro_kit.model.failure.signature import Signature, Strength, focused, signature_of
from repro_kit.model.run_outcome import RunOutcome, outcome_of
from repro_kit.model.serialize import from_data, to_data
from repro_kit.probe.repro_probe.protocol.queries import Until
from repro_kit.program import Program, render
from repro_kit.program.value_records import Metadata, TensorRecord, records
from repro_kit.reduce import Answer
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.ui import Ui

_LARGEST = 1 << 30  # bytes of intermediate values that are stored


class ReducerOracle:
    """The reducer's oracle: runs candidates, and holds their failures against the original's signature."""

    def __init__(
        self,
        oracle: ProgramOracle,
        signature: Signature,
        inputs: Path,
        timeout: float,
        ui: Ui,
        until: Until | None = None,
    ) -> None:
        self.jobs = oracle.jobs
        self._until = until
        self._ui = ui
        self._oracle = oracle
        self._signature = signature
        self._inputs = inputs
        self._timeout = timeout

    @property
    def about(self) -> str:
        """What its answers depend on beside the program, in short."""
        parts = (to_data(self._signature), self._timeout, self._until, self._oracle.python)
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:16]

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        """One answer a program, in order; closing the iterator kills what is under way."""
        texts = [render(program) for program in programs]
        yield from map(self.answer, self._oracle.check(texts, self._inputs, timeout=self._timeout, until=self._until))

    def answer(self, verdict: Verdict) -> Answer:
        """What a verdict means for the reduction."""
        # A compile that takes exponential time is found in another place each time it is looked at.
        hangs = self._signature.kind is Kind.TIMEOUT
        outcome = outcome_of(verdict, self._signature, Strength.REBASED if hangs else Strength.STRICT)
        if verdict.failure is None or outcome is RunOutcome.PASSES:
            return Answer(outcome, verdict.seconds, verdict.note)
        seen = signature_of(focused(verdict.failure, self._signature))
        if verdict.fallback_random and verdict.status is Status.FAIL:
            # As it stands, the program would differ from eager without the bug too.
            return Answer(RunOutcome.FAILS_OTHERWISE, verdict.seconds, f"{seen.summary()}, with fallback_random on")
        rebased = outcome is RunOutcome.FAILS_OTHERWISE and self._signature.matches(seen, Strength.REBASED)
        equivalent = to_data(seen) if rebased and seen.kind is not Kind.ACCURACY else None
        return Answer(outcome, verdict.seconds, seen.summary(), equivalent)

    def adopt(self, answer: Answer) -> None:
        """Go on with the signature of an equivalent answer."""
        self._signature = from_data(answer.failure, Signature)

    def record(self, program: Program) -> Metadata:
        """Metadata of every value; the values themselves are stored where they are small enough in all."""
        text = render(program)
        verdict, calls = self._oracle.record(text, self._inputs, timeout=self._timeout)
        if not calls:
            self._ui.warn(f"The graph's values could not be recorded, so none can become an input ({_told(verdict)}).")
            return {}
        known = records(calls[0])
        names = _affordable(program, known)
        if names:
            _, calls = self._oracle.record(text, self._inputs, values=names, save=self._inputs, timeout=self._timeout)
        return records(calls[0]) if calls else known

    def hints(self, program: Program, failure: Failure | None) -> list[str]:
        """What the failure tells to start from; for a wrong result, the values where it begins."""
        if failure is None or failure.kind is not Kind.ACCURACY:
            return _hints(failure)
        self._ui.progress("looking where the values begin to differ")
        return self._oracle.diverge(render(program), self._inputs, timeout=self._timeout)

    def fake_valid(self, programs: Sequence[Program]) -> Sequence[bool | None]:
        """Whether each runs in eager, judged with fake tensors."""
        return self._oracle.fake([render(program) for program in programs], self._inputs)


def until(verdict: Verdict, signature: Signature, program: Program) -> Until | None:
    """Where to stop when the failure is raised by Inductor's own Python code while the only graph is compiled.

    A candidate that gets as far as the C++ or Triton compiler has then passed, and its slowest step can be left out.
    """
    failure = verdict.failure
    if failure is None or failure.kind is not Kind.COMPILE_ERROR or len(program.calls) > 1 or program.bodies:
        return None
    if not signature.frames:  # the message of a native compiler has none, only an exception of Python code
        return None
    if program.recipe.backward == "none":
        return "native" if failure.phase is Phase.COMPILE else None
    return "native_backward" if failure.phase is Phase.BACKWARD else None


def _affordable(program: Program, known: Metadata) -> list[str]:
    """Values worth storing, the smallest first, until they fill the limit; none in the place of a stored input."""
    targets = {statement.target for statement in program.graph.statements if statement.target}
    targets -= {name.removesuffix(".pt") for name in program.stored}
    sized = []
    for name in targets:
        value = known.get(name)
        parts = value if isinstance(value, tuple) else (value,)
        tensors = [part for part in parts if isinstance(part, TensorRecord)]
        if tensors:
            sized.append((sum(part.elements * 8 for part in tensors), name))
    names, left = [], _LARGEST
    for size, name in sorted(sized):
        left -= size
        if left < 0:
            break
        names.append(name)
    return names


def _told(verdict: Verdict) -> str:
    return signature_of(verdict.failure).summary() if verdict.failure else verdict.note or str(verdict.status)


def _hints(failure: Failure | None) -> list[str]:
    """What the failure tells: values that the compiler was at work on, an operator, kernels in its message."""
    if failure is None:
        return []
    words = [failure.op] if failure.op else []
    return [*failure.origins, *words, *(link.message for link in failure.exceptions if "cpp_fused" in link.message)]
