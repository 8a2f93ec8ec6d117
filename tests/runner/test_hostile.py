"""Candidates that do what they can to harm: nothing of them stays behind, and others are judged as always."""

import re
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from repro_kit.failure.failure import Status, Verdict
from repro_kit.runner.compiler import probes
from repro_kit.runner.program_oracle import ProgramOracle
from texts import failing_backend, program

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SLEEP = "import subprocess, sys; subprocess.Popen(['sleep', '1000'], start_new_session=True, env={}, cwd='/')"
DAEMON = (
    "pid = os.fork()\n"
    "    if pid == 0:\n"
    "        os.setsid()\n"
    "        if os.fork() == 0:\n"
    "            os.chdir('/')\n"
    "            import time; time.sleep(1000)\n"
    "        os._exit(0)\n"
    "    os.waitpid(pid, 0)"
)
OURS = (
    "for fd in [int(it) for it in os.listdir('/proc/self/fd') if int(it) > 2]:\n"
    "        try: {}\n"
    "        except OSError: pass"
)

KINDS = {
    "pass": (program(), Status.PASS),
    "fail": (failing_backend("raise ValueError('no')"), Status.FAIL),
    "invalid": (program("y = x @ x\nreturn (y,)"), Status.INVALID),
    "crash": (failing_backend("os.abort()"), Status.FAIL),
    "hang": (failing_backend("import time; time.sleep(1000)"), Status.FAIL),
    "mute": (failing_backend("os._exit(0)"), Status.CANNOT_TELL),
    "session": (failing_backend(SLEEP), Status.PASS),
    "daemon": (failing_backend(DAEMON), Status.PASS),
    "memory": (program(calls="x = torch.ones(1 << 40)\nreturn [(x,)]"), Status.INVALID),
    "flood": (failing_backend("print('x' * 50_000_000, flush=True); os.write(2, b'y' * 50_000_000)"), Status.PASS),
    "closer": (failing_backend(OURS.format("os.close(fd)")), Status.CANNOT_TELL),
    "closed and hangs": (
        failing_backend(OURS.format("os.close(fd)") + "\n    import time; time.sleep(1000)"),
        Status.FAIL,
    ),
    "garbage": (failing_backend(OURS.format("os.write(fd, b'\\xff[{\\n{\"reply\": 1}\\n[[\\n')")), Status.PASS),
}
SLOW = ("hang", "closed and hangs")  # they take their whole time-out
OF_THE_SERVER = re.compile("server.txt|libraries|header-[0-9a-f]{64}")


def ask(zygote: ProgramOracle, names: list[str]) -> list[Verdict]:
    """One verdict a kind; those that hang are the only ones for which time is short."""
    quick = [name for name in names if name not in SLOW]
    found = dict(zip(quick, zygote.check([KINDS[name][0] for name in quick], None, timeout=600), strict=True))
    hang = [name for name in names if name in SLOW]
    found |= dict(zip(hang, zygote.check([KINDS[name][0] for name in hang], None, timeout=8), strict=True))
    return [found[name] for name in names]


def test_hostile_candidates_leave_nothing_behind_and_harm_no_other(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    me = psutil.Process()
    others = me.children(recursive=True)
    with ProgramOracle(sys.executable, cache=probes(sys.executable), jobs=2) as zygote:
        assert next(iter(zygote.check([program()], None))).status is Status.PASS
        (guard,) = [it for it in me.children() if it not in others]
        (watcher,) = guard.children()
        (server,) = watcher.children()
        (scratch,) = tmp_path.iterdir()
        before = server.num_fds(), me.num_fds(), server.memory_info().rss
        for _ in range(2):
            verdicts = ask(zygote, list(KINDS))
            assert {name: it.status for name, it in zip(KINDS, verdicts, strict=True)} == {
                name: status for name, (_, status) in KINDS.items()
            }
        children = [it for it in me.children(recursive=True) if it not in others]
        assert children == [guard, watcher, server], "the server was never started anew"
        assert [path.name for path in scratch.iterdir() if not OF_THE_SERVER.match(path.name)] == []
        assert (server.num_fds(), me.num_fds()) == before[:2]
        assert server.memory_info().rss < before[2] + (20 << 20)
    assert not [it for it in me.children(recursive=True) if it not in others]
    assert list(tmp_path.iterdir()) == []
    assert not [it for it in psutil.process_iter(["cmdline"]) if it.info["cmdline"] == ["sleep", "1000"]]


def test_a_server_that_is_killed_leaves_nothing_of_its_queries_and_is_started_anew(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    started = tmp_path / "started"
    sleeper = f"import subprocess; subprocess.Popen(['sleep', '1001']); open({str(started)!r}, 'a').write('x')"
    murder = failing_backend(sleeper + "; os.kill(os.getppid(), 9); signal.pause()")
    with ProgramOracle(sys.executable, cache=probes(sys.executable)) as zygote:
        verdicts = list(zygote.check([murder, program()], None, timeout=30))
    assert [verdict.status for verdict in verdicts] == [Status.CANNOT_TELL, Status.PASS]
    assert started.read_text() == "xx"
    left = [it for it in psutil.process_iter(["cmdline"]) if it.info["cmdline"] == ["sleep", "1001"]]
    assert not psutil.wait_procs(left, timeout=10)[1], "what was killed may take a moment to be gone"
    assert [path.name for path in tmp_path.iterdir()] == ["started"]
