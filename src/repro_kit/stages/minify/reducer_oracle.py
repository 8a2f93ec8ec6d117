"""The reducer's oracle: runs candidates, and decides what counts as the same failure."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import orjson

from repro_kit.failure.failure import Failure, Phase, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature, Strength, focused, outcome_of, signature_of
from repro_kit.graph import Program, render, size
from repro_kit.graph.effects import op_name
from repro_kit.graph.program import Statement
from repro_kit.graph.values import Metadata, TensorRecord, records
from repro_kit.probe.repro_probe.protocol.failure_data import GRADIENT
from repro_kit.probe.repro_probe.protocol.queries import Until
from repro_kit.reduce import Answer, Result
from repro_kit.runner.program_oracle import Divergence, ProgramOracle
from repro_kit.serialize import from_data, to_data
from repro_kit.ui import Ui

_LARGEST = 1 << 30  # bytes of intermediate values that are stored
_WATCHED = 16  # statements of the largest program of which the first wrong operator is looked for
_OTHER_OPERATOR = "the result is wrong from another operator on"


class ReducerOracle:
    """The reducer's oracle: runs candidates, and compares their failures with the signature of the original."""

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
        self._culprits: frozenset[str] = frozenset()  # the operators at which a wrong result begins
        self._harmless: frozenset[str] = frozenset()  # those that are wrong, too, and no result shows it
        self._watched = _WATCHED
        self._until = until
        self._ui = ui
        self._oracle = oracle
        self._signature = signature
        self._inputs = inputs
        self._timeout = timeout

    def begins_at(self, program: Program, divergence: Divergence) -> None:
        """Keep in mind at which statements of `program` a wrong result begins, and which are wrong and harmless.

        A candidate must begin at one of the former operators, too; where none is known, at none of the latter.
        """
        if self._signature.kind is Kind.ACCURACY:
            named = {it.target: operator(it) for it in program.graph.statements if it.target}
            self._culprits = frozenset(named[name] for name in divergence.names if name in named)
            self._harmless = frozenset(named[name] for name in divergence.harmless if name in named) - self._culprits

    @property
    def about(self) -> str:
        """A digest of everything that the answers depend on, except the program."""
        parts: list[object] = [to_data(self._signature), self._timeout, self._until, self._oracle.python]
        parts += [sorted(self._culprits), *([self._watched] if self._watched != _WATCHED else [])]
        parts += [sorted(self._harmless)] if self._harmless else []
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:16]

    @property
    def _only_gradients(self) -> bool:
        return self._signature.kind is Kind.ACCURACY and set(self._signature.places) == {GRADIENT}

    def _diverge(self, text: str) -> Divergence:
        return self._oracle.diverge(text, self._inputs, timeout=self._timeout, gradients=self._only_gradients)

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        """One answer for each program, in order. Closing the iterator kills the running programs.

        A program without a backward cannot have wrong gradients alone, and is not run.
        """
        hopeless = [self._only_gradients and program.recipe.backward == "none" for program in programs]
        with closing(self._judged([it for it, vain in zip(programs, hopeless, strict=True) if not vain])) as judged:
            for vain in hopeless:
                yield Answer(RunOutcome.PASSES, note="it has no backward") if vain else next(judged)

    def _judged(self, programs: Sequence[Program]) -> Generator[Answer, None, None]:
        texts = [render(program) for program in programs]
        running = self._oracle.check(texts, self._inputs, timeout=self._timeout, until=self._until)
        for at, verdict in enumerate(running):
            answer = self.answer(verdict)
            if not (answer.interesting and (self._culprits or self._harmless)):
                yield answer
                continue
            running.close()  # the server has one conversation at a time
            yield self._of_a_culprit(programs[at], texts[at], answer)
            yield from self._judged(programs[at + 1 :])
            return

    def _of_a_culprit(self, program: Program, text: str, answer: Answer) -> Answer:
        """`answer`, if the result is wrong from an operator on at which the original's is wrong, too.

        Of a large program the operators are compared only: to watch all of its values takes long. Nothing is watched
        either where the operators alone decide.
        """
        seen = Divergence()
        operators = {operator(it) for it in program.graph.statements}
        known = self._culprits or self._harmless
        if size(program) <= self._watched and operators & known and operators - known:
            seen = self._diverge(text)
        wrong = {operator(it) for it in program.graph.statements if it.target in seen.names}
        wrong = wrong or {operator(it) for it in program.graph.statements if it.target not in seen.right}
        if wrong & self._culprits if self._culprits else wrong - self._harmless:
            return answer
        note = f"{_OTHER_OPERATOR}: {', '.join(sorted(wrong))}" if seen.names else _OTHER_OPERATOR
        return replace(answer, outcome=RunOutcome.FAILS_OTHERWISE, note=note)

    def has_slipped(self, program: Program) -> bool:
        """Whether the result of a search, too large to be watched in it, is wrong from another operator on.

        From then on every program is watched.
        """
        if not (self._culprits or self._harmless) or size(program) <= self._watched:
            return False
        self._watched = sys.maxsize
        return not self._of_a_culprit(program, render(program), Answer(RunOutcome.FAILS_ALIKE)).interesting

    def answer(self, verdict: Verdict) -> Answer:
        """The answer to the reducer for a verdict."""
        # The stack of a compilation that takes exponential time differs each time.
        hangs = self._signature.kind.policy.hangs
        outcome = outcome_of(verdict, self._signature, Strength.REBASED if hangs else Strength.STRICT)
        if verdict.failure is None or outcome is RunOutcome.PASSES:
            return Answer(outcome, verdict.seconds, verdict.note)
        seen_signature = signature_of(focused(verdict.failure, self._signature))
        if verdict.fallback_random and verdict.status is Status.FAIL:
            # Without fallback_random, the program would differ from eager even without the bug.
            return Answer(
                RunOutcome.FAILS_OTHERWISE, verdict.seconds, f"{seen_signature.summary()}, with fallback_random on"
            )
        less_defined = self._signature.new_doubts(seen_signature)
        if less_defined:
            return Answer(RunOutcome.INVALID, verdict.seconds, "; ".join(less_defined))
        rebased = outcome is RunOutcome.FAILS_OTHERWISE and self._signature.matches(seen_signature, Strength.REBASED)
        equivalent = to_data(seen_signature) if rebased and seen_signature.kind is not Kind.ACCURACY else None
        return Answer(outcome, verdict.seconds, seen_signature.summary(), equivalent)

    def adopt(self, answer: Answer) -> None:
        """Replace the signature by that of an equivalent answer."""
        self._signature = from_data(answer.failure, Signature)

    def record(self, program: Program) -> Metadata:
        """The metadata of every value; values are stored as well, as long as they fit the limit."""
        text = render(program)
        verdict, calls = self._oracle.record(text, self._inputs, timeout=self._timeout)
        if not calls:
            self._ui.warn(
                f"The graph's values could not be recorded, so none can become an input ({_verdict_words(verdict)})."
            )
            return {}
        metadata = records(calls[0])
        names = _affordable(program, metadata)
        if names:
            _, calls = self._oracle.record(text, self._inputs, values=names, save=self._inputs, timeout=self._timeout)
        return records(calls[0]) if calls else metadata

    def hints(self, program: Program, failure: Failure | None) -> Divergence:
        """Names in the failure from which to start; for a wrong result, the values where it begins."""
        if failure is None or failure.kind is not Kind.ACCURACY:
            return Divergence(tuple(_hints(failure)))
        self._ui.progress("looking where the values begin to differ")
        return self._diverge(render(program))

    def fake_valid(self, programs: Sequence[Program]) -> Sequence[bool | None]:
        """Whether each program runs in eager, tested with fake tensors."""
        if self._signature.kind.policy.eager_raises:
            return [None] * len(programs)
        return self._oracle.fake([render(program) for program in programs], self._inputs)


def without_slip(judge: ReducerOracle, search: Callable[[], Result[Program]]) -> Result[Program]:
    """The result of `search`; of a second one if the first has slipped to another bug."""
    result = search()
    return search() if judge.has_slipped(result.program) else result


def operator(statement: Statement) -> str:
    """The operator of a statement, the same for its form that writes to its argument."""
    return op_name(statement).rstrip("_")


def until(verdict: Verdict, signature: Signature, program: Program) -> Until | None:
    """The step at which queries may stop, if Inductor's own Python code raises the failure in the only graph.

    A candidate that reaches the C++ or Triton compiler has passed then, so that its slowest step can be left out.
    """
    failure = verdict.failure
    if failure is None or failure.kind is not Kind.COMPILE_ERROR or len(program.calls) > 1 or program.bodies:
        return None
    if not signature.frames:  # only exceptions of Python code have frames, messages of a native compiler do not
        return None
    if program.recipe.backward == "none":
        return "native" if failure.phase is Phase.COMPILE else None
    return "native_backward" if failure.phase is Phase.BACKWARD else None


def _affordable(program: Program, metadata: Metadata) -> list[str]:
    """The values to store, the smallest first, up to the limit; values that are stored inputs are left out."""
    targets = {statement.target for statement in program.graph.statements if statement.target}
    targets -= {name.removesuffix(".pt") for name in program.stored}
    sized = []
    for name in targets:
        value = metadata.get(name)
        parts = value if isinstance(value, tuple) else (value,)
        tensors = [part for part in parts if isinstance(part, TensorRecord)]
        if tensors:
            sized.append((sum(part.elements * 8 for part in tensors), name))
    names, room = [], _LARGEST
    for taken, name in sorted(sized):
        room -= taken
        if room < 0:
            break
        names.append(name)
    return names


def _verdict_words(verdict: Verdict) -> str:
    return signature_of(verdict.failure).summary() if verdict.failure else verdict.note or str(verdict.status)


def _hints(failure: Failure | None) -> list[str]:
    """Names in the failure: values that the compiler worked on, an operator, kernels in the message."""
    if failure is None:
        return []
    words = [failure.op] if failure.op else []
    return [*failure.origins, *words, *(link.message for link in failure.exceptions if "cpp_fused" in link.message)]
