"""The arithmetic of `scripts/bench/collect.py`, and that a command is measured with all that it starts."""

from __future__ import annotations

import os
import sys

import psutil
import pytest

from collect import Collected, Row, Sample, Usage, chosen, cpu_ratio, summary, table_row, usage_by_stage, wall_ratio
from measure import measured

#: A process and a daemon of its own take 0.4 CPU seconds each; the process ends after the daemon.
TWO_PROCESSES = """
import os, time
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(reading)
        while time.process_time() < 0.4:
            pass
    os._exit(0)
os.wait()
os.close(writing)
os.read(reading, 1)
while time.process_time() < 0.4:
    pass
"""


def test_the_cpu_seconds_of_a_daemon_are_counted(tmp_path):
    ended = measured([sys.executable, "-c", TWO_PROCESSES], tmp_path, os.environ)
    assert ended.code == 0
    assert ended.cpu >= 0.8


def test_a_command_that_reaches_its_limit_leaves_nothing_running(tmp_path):
    code = "import os, time; os.fork() or os.setsid(); os.write(1, b'%d ' % os.getpid()); time.sleep(600)"
    ended = measured([sys.executable, "-c", code], tmp_path, os.environ, limit=3.0)
    assert ended.code is None
    started = [int(pid) for pid in ended.stdout.split()]
    assert len(started) == 2
    assert not any(psutil.pid_exists(pid) for pid in started)


def test_the_time_between_two_samples_is_of_the_earlier_stage():
    samples = [
        Sample(0.0, 0.0, ""),
        Sample(1.0, 0.5, "observe"),
        Sample(3.0, 2.5, "capture"),
        Sample(4.0, 3.0, "observe"),
        Sample(6.0, 5.0, ""),
    ]
    assert usage_by_stage(samples) == {"observe": Usage(4.0, 4.0), "capture": Usage(1.0, 0.5)}


def test_ratios_are_of_commands_that_ended():
    whole, cold, stopped = Usage(90.0, 60.0), Usage(30.0, 15.0), Usage(30.0, 15.0, ended=False)
    assert (cpu_ratio(whole, cold), wall_ratio(whole, cold)) == (4.0, 3.0)
    assert (cpu_ratio(whole, stopped), cpu_ratio(stopped, cold), cpu_ratio(whole, None)) == (None, None, None)


def test_the_summary_says_how_far_the_goals_are_reached():
    ended = Collected(Usage(90.0, 60.0), {}, "verified", starts=1, peak_memory=90_000_000)
    stopped = Collected(Usage(600.0, 700.0, ended=False), {}, "stopped in capture")
    cold = Usage(30.0, 15.0)
    lines = summary([Row("small", cold, ended), Row("endless", cold, stopped)]).splitlines()
    assert lines == [
        "One start of the user's command: 1 of 2 cases.",
        "Median ratio of CPU seconds to one cold run: 4.0 (1 cases).",
        "Most memory of repro-kit's own process: 90 MB.",
        "Stopped at the limit: endless.",
    ]


def test_a_stopped_case_is_marked_in_the_table():
    stopped = Collected(Usage(600.0, 700.0, ended=False), {"observe": Usage(20.0, 15.0)}, "stopped in capture")
    line = table_row(Row("endless", Usage(30.0, 15.0), stopped))
    assert (
        line == "| endless |  | 30 s [15] | > 600 s [700] |  | 20 s [15] |  |  |  |  |  |  |  |  | stopped in capture |"
    )


def test_an_example_has_its_options():
    (script,) = chosen(["hang"], [])
    assert script.options == ("--timeout", "40", "--deadline", "5")


def test_an_unknown_name_is_refused():
    with pytest.raises(SystemExit, match="There is no case nonsense"):
        chosen(["nonsense"], [])
