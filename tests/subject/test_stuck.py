"""The rule by which a compile is taken never to end, on files as a run leaves them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from repro_kit.runner.supervised import EndedEarly, launch
from repro_kit.subject.stuck import CompileWatch
from repro_kit.ui import SilentUi

BUSY = "while True: pass"
ASLEEP = "import time; time.sleep(600)"
TIMES = ("user", "system", "children_user", "children_system")
STEP = '{"chromium_event": {}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0, "has_payload": "x"}'


@pytest.fixture(params=[BUSY, ASLEEP])
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    code = f"import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN)\n{request.param}"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        yield process
        process.kill()


@contextmanager
def asleep(**env: str) -> Iterator[int]:
    """The pid of a process that sleeps by now: an interpreter that starts computes, or waits for a core."""
    command = [sys.executable, "-c", f"print(flush=True); {ASLEEP}"]
    with subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while psutil.Process(process.pid).status() != psutil.STATUS_SLEEPING:
            time.sleep(0.05)
        try:
            yield process.pid
        finally:
            process.kill()


def a_run(
    directory: Path, pid: int, *, silent: float, statements: int, mode: str | None = None, device: str = "cpu"
) -> Path:
    """The files of a run that began a compile and gave its last sign `silent` seconds ago."""
    for name in ("trace", "probe"):
        (directory / name).mkdir(parents=True)
    begin = {"name": "inductor_compile", "ph": "B", "tid": 1, "ts": 1.0, "cat": "dynamo_timed", "args": {}}
    text = "\t" + json.dumps(begin)
    log = directory / "trace" / "dedicated_log_torch_trace_x.log"
    log.write_text(f"V1120 17:29:56.314000 {pid} torch/_dynamo/utils.py:1] {STEP}\n{text}\n")
    hello = {"pid": pid, "executable": "python", "python": "3.11", "torch": "2.13", "time": 1.0}
    (directory / "probe" / f"hello-{pid}.json").write_text(json.dumps(hello))
    backend, inputs = {"mode": mode}, [{"kind": "tensor", "name": "x", "device": device}]
    graph = {"number": 0, "pid": pid, "compile_id": "0/0", "code": "x\n" * statements}
    graph = {**graph, "backend": backend, "inputs": inputs}
    (directory / "probe" / f"graph-0-{pid}.json").write_text(json.dumps(graph))
    before = time.time() - silent
    for path in (directory / "trace").iterdir():
        os.utime(path, (before, before))
    return directory


def watched(directory: Path, *, decides: bool = True) -> CompileWatch:
    watch = CompileWatch(directory, SilentUi(), "running", decides=decides)
    watch.tick(2.0)  # the first look finds the last sign
    watch.tick(4.0)
    return watch


def test_a_compile_that_sleeps_longer_than_its_limit_is_ended(tmp_path: Path) -> None:
    with asleep() as pid:
        watch = CompileWatch(a_run(tmp_path, pid, silent=600, statements=10), SilentUi(), "running", decides=True)
        watch.tick(1.0)
        with pytest.raises(EndedEarly):
            for seconds in range(2, 20, 2):
                watch.tick(float(seconds))
        assert "slept for" in watch.reason and "50 s" in watch.reason and "--timeout S" in watch.reason


@pytest.mark.parametrize(
    ("silent", "statements", "mode"), [(40, 1, None), (100, 200, None), (300, 1, "max-autotune")], ids=str
)
def test_below_the_limit_the_run_goes_on(
    tmp_path: Path, process: subprocess.Popen[bytes], silent: float, statements: int, mode: str | None
) -> None:
    watched(a_run(tmp_path, process.pid, silent=silent, statements=statements, mode=mode))


def test_a_compile_for_an_accelerator_may_take_longer(tmp_path: Path) -> None:
    with asleep() as pid:
        watched(a_run(tmp_path / "gpu", pid, silent=150, statements=1, device="cuda:0"))
        with pytest.raises(EndedEarly):
            watched(a_run(tmp_path / "cpu", pid, silent=150, statements=1))


def test_a_kernel_that_triton_has_ready_is_a_sign(tmp_path: Path) -> None:
    kernels = tmp_path / "triton"
    (kernels / "KERNEL").mkdir(parents=True)
    with asleep(TRITON_CACHE_DIR=str(kernels)) as pid:
        watch = watched(a_run(tmp_path / "run", pid, silent=600, statements=1))
        assert watch.silent < 60


def test_on_a_busy_machine_the_run_goes_on(tmp_path: Path) -> None:
    """A process that wants to compute, and got a few seconds of the last ten minutes, does not hang."""
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        directory = a_run(tmp_path, process.pid, silent=40, statements=1)
        watch = watched(directory)
        while psutil.Process(process.pid).cpu_times().user < 3:
            time.sleep(0.1)
        for path in (directory / "trace").iterdir():  # 3 s of 50: more than a sleeper takes, less than the limit
            os.utime(path, (time.time() - 50, time.time() - 50))
        watch.tick(6.0)
        process.kill()


def test_a_process_that_waits_for_a_core_does_not_sleep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil.Process, "cpu_times", lambda process: SimpleNamespace(**dict.fromkeys(TIMES, 1.0)))
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        watched(a_run(tmp_path, process.pid, silent=600, statements=1))
        process.kill()


@pytest.mark.parametrize(("statements", "ends"), [(10, True), (100, False)])
def test_a_compile_that_gives_signs_has_a_limit_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: int, ends: bool
) -> None:
    used = iter([0.0, 100.0, 100.0])  # CPU seconds, at each look and in the end

    def cpu_times(process: psutil.Process) -> SimpleNamespace:
        return SimpleNamespace(user=next(used), system=0.0, children_user=0.0, children_system=0.0)

    monkeypatch.setattr(psutil.Process, "cpu_times", cpu_times)
    with asleep() as pid:
        directory = a_run(tmp_path, pid, silent=30, statements=statements)
        os.utime(next((directory / "probe").glob("graph-*")), (time.time() - 200, time.time() - 200))
        watch = CompileWatch(directory, SilentUi(), "running", decides=True)
        watch.tick(2.0)
        with pytest.raises(EndedEarly) if ends else nullcontext():
            watch.tick(4.0)
    assert ("used 100 CPU seconds for its graph" in watch.reason) is ends


def test_the_seconds_of_several_ranks_are_not_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher has imported torch too, and the ranks are its children."""
    clock = {"now": 0.0}
    monkeypatch.setattr(
        psutil.Process, "cpu_times", lambda process: SimpleNamespace(**dict.fromkeys(TIMES, clock["now"]))
    )
    ranks = "import subprocess, sys; [subprocess.Popen([sys.executable, '-c', sys.argv[1]]) for _ in range(2)]; input()"
    with subprocess.Popen([sys.executable, "-c", ranks, ASLEEP], stdin=subprocess.PIPE) as launcher:
        directory = a_run(tmp_path, launcher.pid, silent=40, statements=1)  # a limit of 46 s
        os.utime(next((directory / "probe").glob("graph-*")), (time.time() - 200, time.time() - 200))
        hello = directory / "probe" / f"hello-{launcher.pid}.json"
        while len(children := psutil.Process(launcher.pid).children()) < 2:
            time.sleep(0.1)
        for rank in children:
            text = json.dumps({**json.loads(hello.read_text()), "pid": rank.pid})
            hello.with_name(f"hello-{rank.pid}.json").write_text(text)
        watch = CompileWatch(directory, SilentUi(), "running", decides=True)
        watch.tick(2.0)
        clock["now"] = 10.0  # four times that for each process
        watch.tick(4.0)
        clock["now"] = 12.0
        with pytest.raises(EndedEarly):
            watch.tick(6.0)
        for process in (*children, launcher):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def test_without_a_rule_it_only_speaks(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    watch = watched(a_run(tmp_path, process.pid, silent=600, statements=1), decides=False)
    assert watch.silent > 500 and watch.reason == ""


def test_a_run_that_is_ended_early_counts_as_a_time_out(tmp_path: Path) -> None:
    def tick(seconds: float) -> None:
        raise EndedEarly(seconds)

    ran = launch(
        [sys.executable, "-c", ASLEEP],
        cwd=tmp_path,
        env=dict(os.environ),
        timeout=60,
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        on_tick=tick,
    )
    assert ran.timed_out and ran.exit_status is None and ran.seconds < 30
