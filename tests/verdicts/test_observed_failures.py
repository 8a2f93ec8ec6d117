from dataclasses import replace
from pathlib import Path

from repro_kit.failure.exception_origin import Nature, is_of_a_peer
from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind
from repro_kit.runner.read_findings import Findings, TorchProcess, UncaughtException
from repro_kit.runner.supervised import Run
from repro_kit.trace import TraceSummary
from repro_kit.trace.compiles import CompileFailure
from repro_kit.trace.rank_history import RankState
from repro_kit.verdicts.observed_failures import crashes, excerpt, found_in, parted_by

ENDED = Run(exit_status=1, signal=None, timed_out=False, seconds=1.0, peak_memory=0)
CHILD = UncaughtException(7, 1.0, (ExceptionLink("torch._inductor.exc.InductorError", "no lowering"),))
REPORT = UncaughtException(
    6, 2.0, (ExceptionLink("torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "train.py FAILED"),)
)


def kinds(place: Path, *uncaught: UncaughtException) -> list[str]:
    found = found_in(place, ENDED, Findings(exceptions=uncaught), TraceSummary())
    return [one.failure.exceptions[0].type for one in found]


def test_a_launcher_s_report_of_its_child_is_no_failure_of_its_own(tmp_path: Path) -> None:
    assert kinds(tmp_path, CHILD, REPORT) == [CHILD.links[0].type]


def test_the_report_is_all_there_is_when_the_child_told_nothing(tmp_path: Path) -> None:
    assert kinds(tmp_path, REPORT) == [REPORT.links[0].type]


def test_an_exit_status_alone_comes_after_what_was_swallowed(tmp_path: Path) -> None:
    swallowed = TraceSummary(
        failures=(CompileFailure("0/0", None, "InductorError", "no lowering", "InductorError: no lowering"),)
    )
    found = found_in(tmp_path, ENDED, Findings(), swallowed)
    assert [one.source for one in found] == ["trace", "exit"]
    raised = Findings(exceptions=(UncaughtException(7, 1.0, (ExceptionLink("ValueError", "the loss is off"),)),))
    assert [one.source for one in found_in(tmp_path, ENDED, raised, swallowed)] == ["exception", "trace"]


def test_an_exception_that_ended_the_script_comes_before_a_crash_at_the_end_of_its_process(tmp_path: Path) -> None:
    """As with a thread that still compiles."""
    raised = UncaughtException(7, 1.0, (ExceptionLink("_queue.Empty", ""),))
    crashed = replace(ENDED, exit_status=None, signal="SIGABRT")
    for ended, source in ((frozenset({7}), "exception"), (frozenset(), "exit")):
        found = found_in(tmp_path, crashed, Findings(exceptions=(raised,), ended=ended), TraceSummary())
        assert [one.source for one in found] == [source]


PEER = UncaughtException(
    5, 0.5, (ExceptionLink("RuntimeError", "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]"),)
)
LATE = UncaughtException(
    8, 3.0, (ExceptionLink("RuntimeError", "Timed out waiting 60000ms for recv operation to complete"),)
)


def test_what_the_peers_of_a_failed_rank_raise_is_no_failure_of_its_own(tmp_path: Path) -> None:
    assert kinds(tmp_path, PEER, CHILD, LATE, REPORT) == [CHILD.links[0].type]


def test_a_rank_that_waited_in_vain_blames_nobody(tmp_path: Path) -> None:
    found = found_in(tmp_path, ENDED, Findings(exceptions=(PEER, LATE, REPORT)), TraceSummary())
    assert [(one.signature.kind, one.nature) for one in found] == [(Kind.RUNTIME_ERROR, Nature.MACHINE)] * 2


CAUGHT = CompileFailure("0/0", 1, "InductorError", "no lowering", "InductorError: no lowering")
RANKS = tuple(
    RankState(rank=rank, size=2, pid=10 + rank, time=9.0, collectives=(), doing="python") for rank in range(2)
)


def test_what_one_rank_caught_comes_before_the_wait_that_follows_from_it(tmp_path: Path) -> None:
    waited = Findings(exceptions=(PEER, LATE, REPORT), ranks=RANKS)
    found = found_in(tmp_path, ENDED, waited, TraceSummary(failures=(CAUGHT,)))
    assert [one.source for one in found] == ["trace", "exception", "exception"]
    assert parted_by(found).startswith("Rank 1 caught InductorError")
    assert found[0].count == 1
    on_both = TraceSummary(failures=(replace(CAUGHT, rank=0), CAUGHT))
    found = found_in(tmp_path, ENDED, waited, on_both)
    assert [one.source for one in found] == ["exception", "exception", "trace"], "both ranks went on alike"
    assert not parted_by(found)


ABORT = "terminate called without an active exception\n"
ABORTED = UncaughtException(
    6,
    2.0,
    (
        ExceptionLink(
            "ChildFailedError", "train.py FAILED\nexitcode  : -15 (pid: 5)\nexitcode  : -6 (pid: 7)  (SIGABRT)"
        ),
    ),
)


def rank_state(rank: int, pid: int) -> RankState:
    return RankState(rank, 2, 1.0, "python", pid=pid)


def test_a_rank_that_is_aborted_after_its_script_has_ended_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "stderr.txt").write_text(ABORT)
    states = (rank_state(0, 5), rank_state(1, 7))
    ended = Findings(exceptions=(ABORTED,), ranks=states, ended=frozenset({5, 7}))
    assert found_in(tmp_path, ENDED, ended, TraceSummary()) == []
    cut_short = replace(ended, ended=frozenset({7}))
    assert [seen.nature for seen in found_in(tmp_path, ENDED, cut_short, TraceSummary())] == [Nature.MACHINE]
    with_failure = replace(ended, exceptions=(replace(CHILD, pid=5), ABORTED))
    assert [seen.failure.exceptions[0].message for seen in found_in(tmp_path, ENDED, with_failure, TraceSummary())] == [
        "no lowering"
    ]
    unexplained = replace(ended, ended=frozenset())
    assert [seen.nature for seen in found_in(tmp_path, ENDED, unexplained, TraceSummary())] == [Nature.OPEN]


SIGTERM, SIGSEGV, SIGKILL = "exitcode  : -15 (pid: 5)", "exitcode  : -11 (pid: 7)", "exitcode  : -9 (pid: 7)"
STACK = """Fatal Python error: Segmentation fault

Current thread 0x00007f13a0c00b80 (most recent call first):
  File "/env/torch/_inductor/lowering.py", line 521 in wrapped
"""


def of_launcher(message: str, kind: str = "ChildFailedError") -> UncaughtException:
    return UncaughtException(6, 2.0, (ExceptionLink(kind, message),))


def test_a_rank_that_a_signal_ended_is_a_crash(tmp_path: Path) -> None:
    states = (rank_state(0, 5), rank_state(1, 7))
    report = of_launcher(f"train.py FAILED\n{SIGTERM}\n{SIGSEGV}")
    findings = Findings(exceptions=(PEER, report), ranks=states, stacks={7: STACK})
    steps = {5: "codegen of graph 0/0 on rank 0", 7: "lowering of graph 0/0 on rank 1"}
    (crash,) = found_in(tmp_path, ENDED, findings, TraceSummary(open_step=steps[5], open_steps=steps))
    assert (crash.failure.kind, crash.failure.signal, crash.source) == (Kind.CRASH, "SIGSEGV", "exit")
    assert crash.failure.step == steps[7]
    assert [frame.function for frame in crash.failure.stack] == ["wrapped"]
    own = replace(findings, exceptions=(CHILD, report))
    assert [seen.source for seen in found_in(tmp_path, ENDED, own, TraceSummary())] == ["exception"]


#: What a rank prints that NCCL's watchdog ends (ProcessGroupNCCL.cpp); std::terminate prints the last two lines.
NCCL_TIMEOUT = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, Timeout(ms)=5000)"
NCCL_WATCHDOG = f"""[rank0]:[E1127 10:00:00.1 ProcessGroupNCCL.cpp:690] [Rank 0] {NCCL_TIMEOUT}
terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated: {NCCL_TIMEOUT}
"""


def test_a_rank_that_the_watchdog_of_nccl_ended_waited_for_another(tmp_path: Path) -> None:
    (tmp_path / "stderr.txt").write_text(NCCL_WATCHDOG)
    states = (rank_state(0, 5), replace(rank_state(1, 7), doing="compiling"))
    report = of_launcher("train.py FAILED\nexitcode  : -6 (pid: 5)\nexitcode  : -15 (pid: 7)")
    (waited,) = found_in(tmp_path, ENDED, Findings(exceptions=(report,), ranks=states), TraceSummary())
    assert (waited.failure.signal, waited.nature) == ("SIGABRT", Nature.MACHINE)
    assert is_of_a_peer(waited.failure)
    own = Findings(exceptions=(CHILD, report), ranks=states)
    assert [seen.source for seen in found_in(tmp_path, ENDED, own, TraceSummary())] == ["exception"]


def test_only_the_launcher_tells_of_a_rank_that_was_killed(tmp_path: Path) -> None:
    states = (rank_state(0, 5), rank_state(1, 7))
    by_torchrun = of_launcher(f"train.py FAILED\n{SIGTERM}\n{SIGKILL}")
    by_spawn = of_launcher("process 1 terminated with signal SIGKILL", "ProcessExitedException")
    for report in (by_torchrun, by_spawn):
        findings = Findings(exceptions=(PEER, report), ranks=states)
        assert crashes(findings) == {7: "SIGKILL"}
        assert [seen.signature.kind for seen in found_in(tmp_path, ENDED, findings, TraceSummary())] == [Kind.OOM]


def test_a_report_says_less_than_what_a_rank_printed_or_caught(tmp_path: Path) -> None:
    report = of_launcher("train.py FAILED\nexitcode  : 3 (pid: 7)")
    failure = CompileFailure("0/0", None, "InductorError", "no lowering", "InductorError: no lowering")
    found = found_in(tmp_path, ENDED, Findings(exceptions=(report,)), TraceSummary(failures=(failure,)))
    assert [seen.source for seen in found] == ["trace", "exception"]
    (tmp_path / "stderr.txt").write_text(
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: the loss is off\n'
    )
    (printed,) = found_in(tmp_path, ENDED, Findings(exceptions=(report,)), TraceSummary())
    assert (printed.source, printed.failure.exceptions[-1].type) == ("output", "ValueError")


def test_a_process_of_the_script_s_own_may_crash(tmp_path: Path) -> None:
    (tmp_path / "stderr.txt").write_text("")
    crashed = Findings(stacks={9: STACK})
    assert found_in(tmp_path, replace(ENDED, exit_status=0), crashed, TraceSummary()) == []
    (status,) = found_in(tmp_path, ENDED, crashed, TraceSummary())
    assert status.failure.exit_status == 1
    (crash,) = found_in(tmp_path, ENDED, replace(crashed, ranks=(rank_state(0, 8), rank_state(1, 9))), TraceSummary())
    assert crash.failure.signal == "SIGSEGV"


def test_an_excerpt_has_the_users_line_above_torchs():
    user, torchs = Frame("train.py", 12, "forward"), Frame("/env/torch/_ops.py", 1, "call")
    root = ExceptionLink("RuntimeError", "sizes differ", (torchs, user, *[torchs] * 9))
    lines = excerpt(Failure(Kind.COMPILE_ERROR, exceptions=(root,))).splitlines()
    assert lines[0] == '  File "train.py", line 12, in forward'
    assert lines[-1] == "RuntimeError: sizes differ" and len(lines) == 6


WAITS = "Current thread 0x1 (most recent call first):\n"


def test_a_hang_is_where_the_process_that_compiles_is_else_a_rank(tmp_path: Path) -> None:
    stacks = {
        pid: f'{WAITS}  File "/job/{file}.py", line {pid} in wait\n'
        for pid, file in ((5, "launcher"), (6, "rank"), (7, "compiler"))
    }
    processes = (
        TorchProcess(5, "python", "3.11", "2.13.0", 1.0),
        TorchProcess(6, "python", "3.11", "2.13.0", 2.0, rank="0"),
        TorchProcess(7, "python", "3.11", "2.13.0", 3.0, rank="1"),
    )
    for open_steps, place in (({7: "Dynamo, of graph 0/0"}, "/job/compiler.py"), ({}, "/job/rank.py")):
        summary = TraceSummary(open_steps=open_steps)
        (found,) = found_in(
            tmp_path, replace(ENDED, timed_out=True), Findings(stacks=stacks, processes=processes), summary
        )
        assert [frame.file for frame in found.failure.stack] == [place]
        assert place in excerpt(found.failure)


GENERATED = f"/tmp/cache/6w/c{'w' * 51}.py"
RAISED = f"""Traceback (most recent call last):
  File "/home/me/serve.py", line 8, in main
    model(x)
  File "{GENERATED}", line 30, in call
    extern_kernels.mm(arg0_1, arg1_1, out=buf0)
TypeError: Multiple dispatch failed
"""
FROM_OWN_CODE = RAISED.replace(GENERATED, "/home/me/nets.py")


def test_what_compiled_code_raised_counts_though_the_program_caught_and_printed_it(tmp_path: Path) -> None:
    def found(printed: str, status: int = 0) -> list[tuple[str, str]]:
        (tmp_path / "stderr.txt").write_text(printed)
        seen = found_in(tmp_path, replace(ENDED, exit_status=status), Findings(), TraceSummary())
        return [(one.source, one.failure.exceptions[-1].type) for one in seen]

    assert found(f"ERROR request 3 failed\n{RAISED}INFO:root:going on\n") == [("log", "TypeError")]
    assert found(FROM_OWN_CODE) == []
    prefix = "E1127 10:11:12.131415 77 torch/_inductor/select_algorithm.py:99] [0/0] "
    assert found("".join(prefix + line + "\n" for line in RAISED.splitlines())) == [], "torch gets over it"
    assert found(RAISED, 1) == [("output", "TypeError")]


LOWERING = Frame("/venv/lib/python3.11/site-packages/torch/_inductor/sizevars.py", 190, "simplify")
ALARM = UncaughtException(
    7,
    60.0,
    (ExceptionLink("torch._inductor.exc.InductorError", "TimeoutError: late"), ExceptionLink("TimeoutError", "late")),
    interrupted=(Frame("/home/me/train.py", 9, "main"), LOWERING),
)


def test_a_compile_that_the_scripts_own_alarm_ended_late_is_a_hang(tmp_path: Path) -> None:
    late = replace(ENDED, seconds=60.0)
    (found,) = found_in(tmp_path, late, Findings(exceptions=(ALARM,)), TraceSummary())
    assert (found.signature.kind, found.signature.frames) == (Kind.TIMEOUT, ("sizevars.py:simplify",))
    assert found.failure.text == "TimeoutError: late" and found.source == "exception"


def test_an_alarm_after_a_short_time_or_in_the_users_own_code_tells_no_hang(tmp_path: Path) -> None:
    assert kinds(tmp_path, ALARM) == ["torch._inductor.exc.InductorError"]
    own = replace(ALARM, links=ALARM.links[1:], interrupted=ALARM.interrupted[:1])
    (found,) = found_in(tmp_path, replace(ENDED, seconds=60.0), Findings(exceptions=(own,)), TraceSummary())
    assert found.signature.kind is Kind.RUNTIME_ERROR
