"""The limit of eager's time in a query: it counts CPU time of the process, and so no other work of the machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from repro_probe.query import evaluate, query_run

SECONDS = 0.2


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_run, "LEAST", SECONDS)
    monkeypatch.setattr(query_run, "SHARE", 0.0)


def loop() -> None:
    while True:
        pass


def test_a_loop_ends_after_its_share_of_cpu_time() -> None:
    before, began = signal.getsignal(signal.SIGVTALRM), time.thread_time()
    with pytest.raises(TimeoutError, match="eager has not ended"), query_run.eager_limit(time.time()):
        loop()
    assert SECONDS <= time.thread_time() - began < 20 * SECONDS
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0


def test_the_share_grows_with_the_time_of_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[float] = []
    monkeypatch.setattr(query_run, "SHARE", 0.2)
    monkeypatch.setattr(signal, "setitimer", lambda which, seconds, interval=0.0: armed.append(seconds))
    with query_run.eager_limit(time.time() + 1000):
        pass
    assert 150 < armed[0] <= 200 and armed[1] == 0


def test_what_sleeps_is_not_ended() -> None:
    with query_run.eager_limit(time.time()):
        time.sleep(2 * SECONDS)


def _in_child(action: Callable[[], bool]) -> bool:
    """Whether `action` returns true in a forked child, whose settings of torch are lost with it."""
    pid = os.fork()
    if pid == 0:
        held = False
        try:
            held = action()
        finally:
            os._exit(0 if held else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.torch
def test_a_program_whose_loop_has_lost_its_end_is_invalid() -> None:
    pytest.importorskip("torch")
    text = (
        "import torch\nRECIPE = {}\ndef graph(x):\n    while True:\n        pass\n"
        "def calls():\n    return [(torch.ones(2),)]\n"
    )

    def is_invalid() -> bool:
        answer = evaluate.evaluate({"mode": "check", "text": text, "ends": time.time() + 60}, lambda report: None)  # type: ignore[typeddict-item]
        phase, (error,) = answer["phase"], answer["exceptions"]
        return (answer["status"], phase, error["type"]) == ("invalid", "eager", "TimeoutError")

    assert _in_child(is_invalid)
