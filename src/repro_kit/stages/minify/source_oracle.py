"""The oracle of a source reduction: a candidate fails alike with the compiler, and passes without it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import cast

import orjson

from repro_kit.diagnosis.contrasts import mismatch_in
from repro_kit.diagnosis.layer import INTERPRETERS
from repro_kit.failure.compiled_calls import CompiledCall, is_explained, wrong_result
from repro_kit.failure.failure import Difference, Failure, Frame, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import normalise, same_message
from repro_kit.failure.signature import (
    LIKENESS,
    RunOutcome,
    Signature,
    Strength,
    failure_alike,
    focused,
    outcome_of,
    signature_of,
)
from repro_kit.failure.symptom import Symptom
from repro_kit.graph.effects import CUSTOM_OPERATOR
from repro_kit.probe import setup_of
from repro_kit.probe.repro_probe.protocol.orders import ProbeOptions
from repro_kit.reduce import Answer
from repro_kit.runner.places import scratch
from repro_kit.runner.program_oracle import ProgramOracle, script_order
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.supervised import Run
from repro_kit.script import Script
from repro_kit.script.recording import Recorded, instrumented, read_recorded
from repro_kit.serialize import to_data
from repro_kit.trace.insights.causes import kept_causes
from repro_kit.trace.reader import read
from repro_kit.verdicts import eager_run, symptoms
from repro_kit.verdicts.deadlocks import is_stuck
from repro_kit.verdicts.settle import verdict_of

_TRACED = re.compile(r'\bscript\.py", line (\d+), in ')
#: With torch's own random numbers in eager and compiled code, only the bug can make the results differ.
_SAME_RANDOM = {"inductor.fallback_random": True}
_SEEDS = re.compile(r"[\w.]*\b(?:manual_seed|seed|set_seed|seed_everything)(?=\()")
#: A generator of random numbers that starts anywhere (random.Random, numpy.random); torch's own starts at one place.
_UNSEEDED = re.compile(r"\b(?:Random|default_rng|RandomState)\(\s*\)")
_AGAIN = 2  # runs with other random numbers


@dataclass(frozen=True)
class Expected:
    """What a candidate must show: the failure, the symptom if the failure is measured, and what may cause it."""

    signature: Signature
    symptom: Symptom | None = None
    causes: frozenset[str] = frozenset()  # of recompiles and graph breaks; see `kept_causes`
    same_random: bool = False  # the failure shows with `fallback_random` too
    seeds: frozenset[str] = frozenset()  # the functions by which the script sets seeds
    unseeded: bool = False  # the script has a generator without a seed
    in_eager: bool = False  # the failure needs no compiler, so that candidates run without it
    compared: Compared | None = None  # of a check of the script's own: how its compiled calls differ from eager
    mismatch: str | None = None  # what its own operators do otherwise than they say, in eager; None: it has none

    def is_caused_by(self, causes: frozenset[str]) -> bool:
        """Whether `causes` are among the expected ones, and at least one where some are expected."""
        return causes <= self.causes and bool(causes) == bool(self.causes)


@dataclass(frozen=True)
class Compared:
    """How the compiled calls of a script differ from the same calls in eager.

    `wrong`: the difference that nothing excuses. `rounded`: there are only such as eager's own rounding explains.
    `shown`: that difference with its values, for the reader alone.
    """

    wrong: Signature | None = None
    rounded: bool = False
    shown: Difference | None = None

    def unlike(self, other: Compared) -> str:
        """Why `other`, of a candidate, is other evidence than this, of the script; empty if it is the same."""
        if self.wrong is None and other.wrong is not None:
            return f"a compiled call differs from eager, which at first none does ({other.wrong.summary()})"
        if other.rounded and not self.rounded:
            return "the script's check fails by rounding alone"
        if self.wrong is None:
            return ""
        if other.wrong is None:
            return "no compiled call differs from eager any more"
        new = self.wrong.new_doubts(other.wrong)
        same = self.wrong.matches(other.wrong, Strength.STRICT)
        return "" if same else "; ".join(new) or f"another difference from eager: {other.wrong.summary()}"


@dataclass(frozen=True)
class ScriptVerdict:
    """The verdict on a source program, the causes of its failure, and the lines of the calls that compiled."""

    verdict: Verdict
    causes: frozenset[str] = frozenset()
    compiled_at: tuple[int, ...] = ()
    calls: tuple[CompiledCall, ...] = ()  # if compiled calls were compared with eager


def seeds_in(text: str) -> frozenset[str]:
    """The functions by which a script sets seeds of random numbers, as it calls them."""
    return frozenset(_SEEDS.findall(text))


def draws_unseeded(text: str) -> bool:
    """Whether a script makes a generator of random numbers without a seed."""
    return bool(_UNSEEDED.search(text))


class SourceOracle:
    """Runs source programs in a server that has imported torch, and holds them against the expected failure."""

    def __init__(self, oracle: ProgramOracle, expected: Expected, timeout: float, ranks: int = 1) -> None:
        """`ranks`: the processes that run each script, as torchrun starts them; `timeout` in seconds."""
        self._ranks = ranks
        waits = expected.signature.kind is Kind.DEADLOCK  # ranks that wait leave the machine to others
        self.jobs = oracle.jobs if waits else max(1, oracle.jobs // ranks)
        self._oracle = oracle
        self._expected = expected
        self._timeout = timeout
        self._seed_is_needless = False

    @property
    def about(self) -> str:
        """A digest of everything that the answers depend on, except the program."""
        expected = self._expected
        parts = (
            to_data(expected.signature),
            to_data(expected.symptom),
            sorted(expected.causes),
            expected.same_random,
            sorted(expected.seeds),
            self._timeout,
            self._oracle.python,
            *([self._ranks] if self._ranks > 1 else []),
            *(["eager"] if expected.in_eager else []),
            *([to_data(replace(expected.compared, shown=None))] if expected.compared else []),
            *([expected.mismatch] if expected.mismatch is not None else []),
        )
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:16]

    def check(self, programs: Sequence[Script]) -> Iterator[Answer]:
        """One answer for each program, in order."""
        for program, run in zip(programs, self.runs(programs), strict=True):
            yield self._answer(program, run)

    def adopt(self, answer: Answer) -> None:
        """No failure of a script is equivalent but not alike."""
        raise AssertionError(f"{answer.note} was not called equivalent")

    def _answer(self, program: Script, run: ScriptVerdict) -> Answer:
        expected, verdict = self._expected, run.verdict
        # A hang is interrupted at a random place: compare the part of the compiler that it is in.
        strength = Strength.REBASED if expected.signature.kind.policy.hangs else Strength.STRICT
        outcome = outcome_of(verdict, expected.signature, strength)
        failure = verdict.failure
        if outcome is RunOutcome.FAILS_ALIKE:
            if not expected.is_caused_by(run.causes):
                return Answer(RunOutcome.FAILS_OTHERWISE, verdict.seconds, "the same failure with another cause")
            if draws_unseeded(program.text) and not expected.unseeded:
                return Answer(RunOutcome.INVALID, verdict.seconds, "it draws other random numbers in each run")
            if not self.needs_compiler(program):
                return Answer(RunOutcome.INVALID, verdict.seconds, "it fails without torch.compile too")
            unlike = expected.compared.unlike(self.compared(program)) if expected.compared else ""
            unlike = unlike or self._breaks_another_word(program)
            if unlike:
                return Answer(RunOutcome.FAILS_OTHERWISE, verdict.seconds, unlike)
            if not self._needs_no_seed(program, strength):
                return Answer(RunOutcome.PASSES, verdict.seconds, "it fails only with some random seeds")
            return Answer(outcome, verdict.seconds)
        if failure is None or outcome is not RunOutcome.FAILS_OTHERWISE:
            return Answer(outcome, verdict.seconds, verdict.note)
        # Other kinds are mostly mistakes that the candidate makes itself, such as a name that is not defined.
        if not failure.kind.policy.in_compiler and failure.kind is not Kind.CRASH:
            return Answer(RunOutcome.INVALID, verdict.seconds)
        return Answer(outcome, verdict.seconds, signature_of(focused(failure, expected.signature)).summary())

    def _needs_no_seed(self, program: Script, strength: Strength) -> bool:
        """Whether a program that has lost a seed of the script's fails alike with other random numbers, too.

        When the compiler raises, hardly any value has been computed: the first such program is enough.
        """
        expected = self._expected
        if expected.seeds <= seeds_in(program.text) or self._seed_is_needless:
            return True
        verdicts = [run.verdict for run in self.runs([program] * _AGAIN)]
        fail_alike = all(failure_alike(it, expected.signature, strength) for it in verdicts)
        self._seed_is_needless = fail_alike and expected.signature.kind.policy.in_compiler
        return fail_alike

    def runs(self, programs: Sequence[Script]) -> list[ScriptVerdict]:
        """Run programs as they must fail: with the compiler, unless the failure needs none."""
        if self._expected.in_eager:
            return self._run(programs, cast(ProbeOptions, eager_run.PROBE), compiled=False)
        return self._run(programs, self._options(), compiled=True)

    def _options(self) -> ProbeOptions:
        options: ProbeOptions = {}
        if self._expected.symptom is not None and symptoms.probes(self._expected.symptom):
            options["measure"] = symptoms.probes(self._expected.symptom)
        if self._expected.same_random:
            options["config"] = _SAME_RANDOM
        return options

    def compared(self, program: Script) -> Compared:
        """How the compiled calls of a script differ from the same calls in eager.

        The script's own check is not enough: it may also fail by rounding, by chance, or by another bug.
        """
        (run,) = self._run([program], {"measure": ["accuracy"], **self._options()}, compiled=True)
        failure, before = wrong_result(run.calls), self._expected.compared
        if failure is None:
            return Compared(rounded=is_explained(run.calls))
        target = before.wrong if before else None
        evidence = focused(failure, target) if target else failure
        return Compared(signature_of(evidence), shown=evidence.difference)

    def mismatch(self, program: Script) -> str | None:
        """What an operator of the program's own does in eager otherwise than it says, if any; None: it has none."""
        if not CUSTOM_OPERATOR.search(program.text):
            return None
        checked = {**eager_run.PROBE, "setup": setup_of("own_operators", "check()")}
        (run,) = self._run([program], cast(ProbeOptions, checked), compiled=False)
        return mismatch_in(run.verdict.failure)

    def _breaks_another_word(self, program: Script) -> str:
        """Why the operators of `program` may be at fault where the script's are not; empty if they may not."""
        before = self._expected.mismatch
        now = self.mismatch(program) if before is not None else None
        alike = now and same_message(normalise(before or ""), normalise(now), likeness=LIKENESS, keys=False)
        return "" if not now or alike else f"the custom operator {now}"

    def is_right_interpreted(self, program: Script) -> bool:
        """Whether a program that fails with a weaker backend passes if the graph is interpreted.

        A stronger backend gets that graph, and not the code that is printed for it: it fails by another bug.
        """
        (run,) = self._run([program], {"setup": INTERPRETERS, **self._options()}, compiled=True)
        return run.verdict.status is Status.PASS

    def needs_compiler(self, program: Script) -> bool:
        """Whether a program that fails passes without the compiler, as it must unless the failure needs none."""
        if self._expected.in_eager:
            return True
        (run,) = self._run([program], cast(ProbeOptions, eager_run.PROBE), compiled=False)
        return run.verdict.status is Status.PASS

    def record(self, program: Script, cwd: str | None = None, main: str = "") -> Recorded:
        """Run the script without the compiler, and record what its expressions return.

        `cwd` and `main`: the user's directory and file, for the whole script; a shorter one runs where candidates do.
        """
        with scratch() as directory:
            file = directory / "recorded.json"
            order = script_order(
                instrumented(program),
                directory,
                cast(ProbeOptions, eager_run.PROBE),
                env=eager_run.EAGER_VARIABLES,
                ranks=self._ranks,
                recording={"cwd": cwd, "main": main, "file": str(file)},
            )
            for _ in self._oracle.run_scripts([order], timeout=self._timeout):
                pass
            return read_recorded(file.read_bytes()) if file.is_file() else Recorded()

    def _run(self, programs: Sequence[Script], options: ProbeOptions, *, compiled: bool) -> list[ScriptVerdict]:
        env = {} if compiled else eager_run.EAGER_VARIABLES
        with scratch() as parent:
            directories = [parent / str(number) for number in range(len(programs))]
            for directory in directories:
                directory.mkdir()
            orders = [
                script_order(program.text, directory, options, env=env, ranks=self._ranks)
                for program, directory in zip(programs, directories, strict=True)
            ]
            stuck = is_stuck if self._ranks > 1 else None
            runs = self._oracle.run_scripts(orders, timeout=self._timeout, is_stuck=stuck)
            return [
                self._read(directory, run, compiled=compiled) for directory, run in zip(directories, runs, strict=True)
            ]

    def _read(self, directory: Path, run: Run, *, compiled: bool) -> ScriptVerdict:
        expected = self._expected
        if run.problem:
            return ScriptVerdict(Verdict(Status.CANNOT_TELL, seconds=run.seconds, note=run.problem[-200:]))
        if run.refused:
            note = f"it does what repro-kit refuses while it reduces a script ({', '.join(dict.fromkeys(run.refused))})"
            return ScriptVerdict(Verdict(Status.INVALID, seconds=run.seconds, note=note))
        if not compiled:
            doubt = eager_run.doubt_of_eager_run(directory / "probe")
            if doubt:
                return ScriptVerdict(Verdict(Status.CANNOT_TELL, seconds=run.seconds, note=doubt))
        is_check = expected.signature.kind is Kind.ACCURACY
        verdict = verdict_of(
            directory,
            run,
            expected.symptom if compiled else None,
            expected.signature,
            passes_in_eager=compiled and is_check,
        )
        if not compiled:
            return ScriptVerdict(verdict)
        trace = directory / "trace"
        calls = read_findings(directory / "probe").compiled if is_check else ()
        causes = kept_causes(verdict.failure, trace) if verdict.failure else frozenset()
        return ScriptVerdict(verdict, causes, _script_lines(_compile_stacks(trace)), calls)


def _compile_stacks(trace: Path) -> Iterator[Frame]:
    """The frames of the calls that began a compile."""
    if trace.is_dir():
        for record in read(trace):
            if record.name == "dynamo_start":
                yield from record.frames("stack")


def raising_lines(failure: Failure) -> tuple[int, ...]:
    """The lines of the script in the tracebacks of the failure, the root cause's last, then those in its messages.

    Dynamo's messages have the lines of the traced code, which is in no frame (torch/_dynamo/exc.py, "from user code").
    """
    of_frames = _script_lines([*failure.stack, *(frame for link in failure.exceptions for frame in link.frames)])
    traced = (int(line) for link in failure.exceptions for line in _TRACED.findall(link.message))
    return tuple(dict.fromkeys((*of_frames, *traced)))


def _script_lines(frames: Iterable[Frame]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(frame.line for frame in frames if PurePath(frame.file).name == "script.py"))
