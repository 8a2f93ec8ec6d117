"""What a candidate of a source reduction must show."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rank_states import write_state
from repro_kit.failure.failure import Difference, ExceptionLink, Failure, Frame, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature, signature_of
from repro_kit.probe.repro_probe.protocol.orders import ProbeOptions
from repro_kit.probe.repro_probe.protocol.queries import ScriptOrder
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.supervised import Run
from repro_kit.script import Script
from repro_kit.stages.minify.source_oracle import Compared, Expected, ScriptVerdict, SourceOracle, raising_lines

FAILURE = Failure(Kind.COMPILE_ERROR, text="no kernel")
FAILS = ScriptVerdict(Verdict(Status.FAIL, failure=FAILURE))
PASSES = ScriptVerdict(Verdict(Status.PASS))


class Told(SourceOracle):
    """Answers its runs with the compiler in order, and passes without it."""

    def __init__(self, runs: Sequence[ScriptVerdict], seeds: Sequence[str], failure: Failure = FAILURE) -> None:
        super().__init__(ProgramOracle("python"), Expected(signature_of(failure), seeds=frozenset(seeds)), 60)
        self.left = list(runs)

    def runs(self, programs: Sequence[Script]) -> list[ScriptVerdict]:
        return [self.left.pop(0) for _ in programs]

    def needs_compiler(self, program: Script) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "seeds", "runs", "outcome"),
    [
        ("x = torch.randn(2)", ["torch.manual_seed"], [FAILS, FAILS, FAILS], RunOutcome.FAILS_ALIKE),
        ("x = torch.randn(2)", ["torch.manual_seed"], [FAILS, FAILS, PASSES], RunOutcome.PASSES),
        ("torch.manual_seed(0); x = torch.randn(2)", ["torch.manual_seed"], [FAILS], RunOutcome.FAILS_ALIKE),
        ("torch.manual_seed(0)", ["torch.manual_seed", "random.seed"], [FAILS, FAILS, PASSES], RunOutcome.PASSES),
        ("x = torch.randn(2)", [], [FAILS], RunOutcome.FAILS_ALIKE),
        ("r = random.Random()", [], [FAILS], RunOutcome.INVALID),
        ("r = random.Random(7)", [], [FAILS], RunOutcome.FAILS_ALIKE),
    ],
)
def test_without_the_scripts_seed_other_random_numbers_must_fail_too(
    text: str, seeds: list[str], runs: list[ScriptVerdict], outcome: RunOutcome
) -> None:
    oracle = Told(runs, seeds)
    (answer,) = oracle.check([Script(text)])
    assert answer.outcome is outcome
    assert oracle.left == []


@pytest.mark.parametrize(
    ("kind", "runs"),
    [(Kind.COMPILE_ERROR, 4), (Kind.DYNAMO_ERROR, 4), (Kind.CRASH, 6), (Kind.ACCURACY, 6)],
)
def test_later_programs_are_repeated_only_where_values_may_decide(kind: Kind, runs: int) -> None:
    failure = Failure(kind, text="no kernel")
    oracle = Told([ScriptVerdict(Verdict(Status.FAIL, failure=failure))] * runs, ["torch.manual_seed"], failure)
    programs = [Script("x = torch.randn(2)"), Script("torch.randn(2)")]
    assert [answer.outcome for answer in oracle.check(programs[:1])] == [RunOutcome.FAILS_ALIKE]
    assert [answer.outcome for answer in oracle.check(programs[1:])] == [RunOutcome.FAILS_ALIKE]
    assert oracle.left == []


def test_the_lines_of_traced_code_come_after_those_of_frames() -> None:
    frames = (Frame("/tmp/query-1/script.py", 9, "<module>"), Frame("/torch/_dynamo/eval_frame.py", 3, "wrapper"))
    message = 'no\n\nfrom user code:\n   File "/tmp/query-1/script.py", line 4, in g\n    f()\n'
    link = ExceptionLink("torch._dynamo.exc.Unsupported", message, frames)
    assert raising_lines(Failure(Kind.DYNAMO_ERROR, exceptions=(link,))) == (9, 4)


def test_what_is_shown_of_the_calls_decides_nothing() -> None:
    at_first = wrong("value", "output 0")
    shown = replace(at_first, shown=Difference("value", "output 0", eager="1.0", compiled="2.0"))
    assert not at_first.unlike(shown) and not shown.unlike(at_first)
    expected = Expected(Signature(Kind.ACCURACY), compared=at_first)
    about = [
        SourceOracle(ProgramOracle("python"), each, 60).about for each in (expected, replace(expected, compared=shown))
    ]
    assert about[0] == about[1], "a journal is read again after another draw of random numbers"


def wrong(kind: str, where: str, doubts: tuple[str, ...] = ()) -> Compared:
    difference = Difference(kind, where, max_rel=0.5)
    return Compared(signature_of(Failure(Kind.ACCURACY, difference=difference, doubts=doubts)))


@pytest.mark.parametrize(
    ("script", "candidate", "why"),
    [
        (Compared(), Compared(), ""),
        (Compared(), Compared(rounded=True), "by rounding alone"),
        (Compared(rounded=True), Compared(rounded=True), ""),
        (Compared(), wrong("value", "output 0"), "at first none does"),
        (wrong("value", "output 0"), wrong("value", "output 0"), ""),
        (wrong("value", "output 0"), Compared(), "no compiled call differs"),
        (wrong("value", "output 0"), Compared(rounded=True), "by rounding alone"),
        (wrong("value", "argument 0 after the call"), wrong("value", "output 0"), "another difference"),
        (wrong("alias", "output 0"), wrong("value", "output 0"), "another difference"),
        (wrong("value", "output 0"), wrong("value", "output 0", ("it draws random numbers",)), "it draws random"),
    ],
)
def test_the_calls_of_a_candidate_differ_as_those_of_the_script(
    script: Compared, candidate: Compared, why: str
) -> None:
    unlike = script.unlike(candidate)
    assert why in unlike and bool(why) is bool(unlike)


class Waiting(ProgramOracle):
    """The ranks of its scripts wait for each other; who does not notice that sees a script that ends well."""

    def run_scripts(
        self,
        orders: Sequence[ScriptOrder],
        *,
        timeout: float = 120.0,
        is_stuck: Callable[[ScriptOrder], bool] | None = None,
    ) -> Iterator[Run]:
        for order in orders:
            probe = Path(order["directory"], "probe")
            probe.mkdir()
            for rank, (pid, name) in enumerate([(os.getpid(), "all_reduce"), (os.getppid(), "all_gather")]):
                write_state(probe, pid, rank, name, waited=30.0)
            noticed = is_stuck is not None and is_stuck(order)
            yield Run(None if noticed else 0, None, timed_out=noticed, seconds=1.0, peak_memory=0)


@pytest.mark.parametrize("in_eager", [True, False])
@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_that_wait_for_each_other_are_noticed_while_they_run(ranks: int, in_eager: bool) -> None:
    expected = Expected(Signature(Kind.DEADLOCK), in_eager=in_eager)
    (seen,) = SourceOracle(Waiting("python"), expected, 60, ranks).runs([Script("import torch")])
    assert (seen.verdict.failure is not None) is (ranks == 2)


class Checked(SourceOracle):
    """Its programs fail alike, and their operators do otherwise than they say in the words behind their ``#``."""

    def runs(self, programs: Sequence[Script]) -> list[ScriptVerdict]:
        return [FAILS for _ in programs]

    def needs_compiler(self, program: Script) -> bool:
        return True

    def mismatch(self, program: Script) -> str:
        return program.text.strip().partition("# ")[2]


_VIEW = "own::f returns a view of its argument 'x' with fake tensors only"
_READS = "own::{} has an autograd formula that reads {!r}, which changes between two calls"


@pytest.mark.parametrize(
    ("script", "candidate", "outcome"),
    [
        ("", _VIEW, RunOutcome.FAILS_OTHERWISE),
        (_READS.format("scaled", "scale"), _VIEW, RunOutcome.FAILS_OTHERWISE),
        (_READS.format("scaled", "scale"), _READS.format("f", "a"), RunOutcome.FAILS_ALIKE),
        (_VIEW, "", RunOutcome.FAILS_ALIKE),
        (None, _VIEW, RunOutcome.FAILS_ALIKE),
    ],
)
def test_no_operator_of_a_candidate_does_another_thing_than_it_says_than_the_scripts(
    script: str | None, candidate: str, outcome: RunOutcome
) -> None:
    expected = Expected(signature_of(FAILURE), mismatch=script)
    (answer,) = Checked(ProgramOracle("python"), expected, 60).check([Script(f"f = custom_op()  # {candidate}")])
    assert answer.outcome is outcome


class Asked(ProgramOracle):
    """Keeps the options of what it is asked to run; every script ends well."""

    def __init__(self) -> None:
        super().__init__("python")
        self.options: list[ProbeOptions] = []

    def run_scripts(
        self,
        orders: Sequence[ScriptOrder],
        *,
        timeout: float = 120.0,
        is_stuck: Callable[[ScriptOrder], bool] | None = None,
    ) -> Iterator[Run]:
        for order in orders:
            self.options.append(order["options"])
            yield Run(0, None, timed_out=False, seconds=1.0, peak_memory=0)


def test_operators_are_looked_at_only_where_there_are_some() -> None:
    asked = Asked()
    judge = SourceOracle(asked, Expected(signature_of(FAILURE)), 60)
    assert judge.mismatch(Script("f()")) is None and not asked.options
    assert judge.mismatch(Script("f = custom_op()")) == ""
    assert ["check()" in options["setup"] for options in asked.options] == [True]
