"""What is said of ranks, from their last states."""

from dataclasses import replace

from rank_states import GATHER, REDUCE, state
from repro_kit.failure.failure import ExceptionLink
from repro_kit.runner.read_findings import Findings, UncaughtException
from repro_kit.trace.rank_history import CompileTime
from repro_kit.verdicts.ranks import cause_sentences, late_ranks, rank_lines


def raised(rank: int, kind: str, message: str, at: float) -> UncaughtException:
    return UncaughtException(10 + rank, at, (ExceptionLink(kind, message),))


def test_a_rank_that_waits_points_to_the_one_that_does_not_come() -> None:
    late = state(1, doing="compiling", line="/user/model.py:3")
    (sentence,) = cause_sentences(Findings(ranks=(state(0, REDUCE), late)))
    assert "rank 1 does not come: rank 1 was compiling at model.py:3. A slow compile is not a hang" in sentence


def test_the_first_failure_is_told_from_what_the_other_ranks_raise() -> None:
    own = raised(1, "ValueError", "the loss is off", 5.0)
    peer = raised(0, "RuntimeError", "Connection closed by peer [127.0.0.1]", 4.0)
    findings = Findings(exceptions=(peer, own), ranks=(state(0, REDUCE), state(1)), ended=frozenset({10, 11}))
    assert "Rank 1 failed first, with ValueError; what rank 0 raised follows from it." in cause_sentences(findings)
    first, second = rank_lines(findings, {0: 2, 1: 1})
    assert first.startswith("rank 0: RuntimeError: Connection closed by peer") and "because of another rank" in first
    assert second == "rank 1: ValueError: the loss is off; no collective; 1 compile"


def test_a_failure_of_the_compiler_is_named_as_in_the_verdict() -> None:
    links = (
        ExceptionLink(
            "torch._inductor.exc.InductorError", "CppCompileError: C++ compile error\n\nOutput:\na.cpp:1:2: error: no"
        ),
        ExceptionLink("subprocess.CalledProcessError", "Command '['g++', '-c']' returned non-zero exit status 1."),
    )
    peer = raised(0, "RuntimeError", "Connection closed by peer [127.0.0.1]", 4.0)
    findings = Findings(exceptions=(peer, UncaughtException(11, 5.0, links)), ranks=(state(0, REDUCE), state(1)))
    assert next(cause_sentences(findings)).startswith("Rank 1 failed first, with CppCompileError;")
    assert rank_lines(findings, {})[1].startswith("rank 1: CppCompileError: no;")


def test_a_rank_that_a_signal_ended_failed_first() -> None:
    peer = raised(0, "RuntimeError", "Connection closed by peer [127.0.0.1]", 4.0)
    crashed = state(1, doing="compiling", line="/user/model.py:3")
    findings = Findings(
        exceptions=(peer,), ranks=(state(0, REDUCE), crashed), stacks={11: "Fatal Python error: Bus error"}
    )
    assert "Rank 1 failed first, with SIGBUS; what rank 0 raised follows from it." in cause_sentences(findings)
    assert rank_lines(findings, {})[1].startswith("rank 1: was ended by SIGBUS, was compiling at model.py:3;")


def test_a_rank_that_the_launcher_ended_is_not_said_to_go_on() -> None:
    links = (ExceptionLink("ChildFailedError", "exitcode  : -15 (pid: 10)\nexitcode  : -11 (pid: 11)"),)
    findings = Findings(exceptions=(UncaughtException(9, 5.0, links),), ranks=(state(0, REDUCE), state(1)))
    first, second = rank_lines(findings, {})
    assert first.startswith("rank 0: was ended by the launcher, waited in all_reduce at train.py:9;")
    assert second.startswith("rank 1: was ended by SIGSEGV,")


def test_what_spawn_leaves_of_the_ranks_it_ends_itself() -> None:
    report = ExceptionLink("torch.multiprocessing.spawn.ProcessRaisedException", "-- Process 1 terminated …")
    findings = Findings(
        exceptions=(raised(1, "ValueError", "no batch", 4.0), UncaughtException(9, 5.0, (report,))),
        ranks=(state(0, REDUCE), state(1), state(2)),
        ended=frozenset({12}),
    )
    first, second, third = rank_lines(findings, {})
    assert first.startswith("rank 0: was ended by the launcher, waited in all_reduce at train.py:9;")
    assert second.startswith("rank 1: ValueError: no batch;")
    assert third.startswith("rank 2: ended without an exception;")


def test_a_rank_that_gave_up_points_to_the_one_that_was_late() -> None:
    gave_up = raised(0, "RuntimeError", "Timed out waiting 12000ms for recv operation to complete", 112.0)
    waited = state(0, replace(REDUCE, done=True), time=112.0, doing="python")
    late = state(1, doing="compiling", line="/user/model.py:3")
    (sentence,) = cause_sentences(Findings(exceptions=(gave_up,), ranks=(waited, late), ended=frozenset({10})))
    assert sentence == (
        "Rank 0 waits in all_reduce at train.py:9 for 12 s, to which rank 1 does not come: rank 1 was compiling at "
        "model.py:3. A longer `timeout` of init_process_group lets the others wait for a slow compile."
    )


def test_a_late_rank_that_was_compiling_did_not_hang() -> None:
    quick = state(0, replace(REDUCE, began=100.0))
    slow = state(1, replace(REDUCE, began=130.0), compiles=(CompileTime(99.0, 129.0),))
    (sentence,) = late_ranks([quick, slow])
    assert "Rank 1 came 30 s later" in sentence and "it was compiling for 29 s of them" in sentence
    assert not list(late_ranks([quick, replace(slow, collectives=quick.collectives)]))
    other = replace(slow, collectives=(replace(GATHER, began=130.0),))
    assert not list(late_ranks([quick, other])), "the ranks never meet in it"
