"""Scripts whose processes try to outlive their killer; each process has a mark on its command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

#: Scripts by what they do. They run with ``python -c`` and the mark as an argument, which forked processes keep.
FORMS = {
    "a child": "import os, time\nos.fork()\ntime.sleep(600)",
    "a session of its own": "import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(600)",
    "a daemon (double fork)": (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork(): os._exit(0)\n"
        "time.sleep(600)"
    ),
    "a child that ignores signals": (
        "import os, signal, time\n"
        "for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)\n"
        "if os.fork() == 0: os.setsid()\n"
        "time.sleep(600)"
    ),
    "a child with a clean environment": (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    os.chdir('/')\n"
        "    os.execve('/bin/sleep', [sys.argv[1] + '-sleep', '600'], {})\n"
        "time.sleep(600)"
    ),
    "nohup in a shell's background": (
        "import subprocess, sys, time\n"
        "line = 'nohup setsid \"$0\" -c \"import time; time.sleep(600)\" \"$1\" >/dev/null 2>&1 &'\n"
        "subprocess.run(['sh', '-c', line, sys.executable, sys.argv[1]])\n"
        "time.sleep(600)"
    ),
    "a stopped child": (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "time.sleep(600)"
    ),
    "a child that forks and ends, for ever": (
        "import os, time\n"
        "if os.fork(): time.sleep(600)\n"
        "while True:\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()"
    ),
    "sixty-four processes": (
        "import os, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0: os.setsid()\n"
        "time.sleep(600)"
    ),
    "a child that is started anew when it ends": (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while True:\n"
        "        child = os.fork()\n"
        "        if child == 0:\n"
        "            os.setsid()\n"
        "            time.sleep(600)\n"
        "        os.waitpid(child, 0)\n"
        "time.sleep(600)"
    ),
    "a thread's child": (
        "import os, subprocess, sys, threading, time\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(600)', sys.argv[1]]\n"
        "threading.Thread(target=lambda: subprocess.Popen(command, start_new_session=True).wait()).start()\n"
        "time.sleep(600)"
    ),
}  # fmt: skip


#: Starts the command in its arguments as every stage does: DIRECTORY TIMEOUT WORDS...
LAUNCHER = """
import os, sys
from pathlib import Path

import psutil
from repro_kit.runner.supervised import launch
place, timeout, *argv = sys.argv[1:]
ran = launch(argv, cwd=Path(place), env=os.environ, timeout=float(timeout),
             stdout=Path(place, "out"), stderr=Path(place, "err"))
print(ran)
"""

_SETTLED = 0.5  # seconds without a marked process after which none is to come

#: The process to kill: repro-kit, or one of the two processes that watch over the command.
VICTIMS = ("repro-kit", "guard", "watcher")


def start(directory: Path, argv: list[str], timeout: float = 600) -> subprocess.Popen[str]:
    """Start a process that runs the command below it, as repro-kit does."""
    command = [sys.executable, "-c", LAUNCHER, str(directory), str(timeout), *argv]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def supervisors(pid: int) -> list[int]:
    """The guard and the watcher of the first command below process `pid`; empty when there is none."""
    with suppress(psutil.Error, IndexError):
        for child in psutil.Process(pid).children():
            if any(word.endswith("supervisor.py") for word in child.cmdline()):
                return [child.pid, child.children()[0].pid]
    return []


def outlived(directory: Path, form: str, whom: str) -> list[int]:
    """The processes of a script in `FORMS` that are left 5 s after a kill. There should be none."""
    mark = f"mark-{uuid.uuid4().hex}"
    process = start(directory, command(form, mark))

    def others() -> set[int]:
        return {pid for pid in marked(mark) if pid != process.pid}

    try:
        if not wait_until(lambda: len(others()) >= processes(form)):
            raise RuntimeError(f"{form}: the processes did not start")
        first = others()
        os.kill([process.pid, *supervisors(process.pid)][VICTIMS.index(whom)], signal.SIGKILL)
        if whom != "repro-kit":  # the command is started once more, and its processes must end too
            wait_until(lambda: not first & others(), seconds=5)
            left = first & others()
            process.kill()
        else:
            left = set()
        process.communicate()
        return sorted(left | set(still_marked(mark, seconds=5)))
    finally:
        for pid in marked(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def command(form: str, mark: str) -> list[str]:
    """The command line of one of `FORMS`."""
    return [sys.executable, "-c", FORMS[form], mark]


def processes(form: str) -> int:
    """The number of processes that a script in `FORMS` starts."""
    return 64 if form == "sixty-four processes" else 2


def marked(mark: str) -> list[int]:
    """Every process with `mark` on its command line that has not ended."""
    pids = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                pids.append(int(entry.name))
    return pids


def still_marked(mark: str, seconds: float) -> list[int]:
    """The marked processes that are left after this many seconds.

    A supervisor that was just started has no mark before it starts its command, so one look without any is not enough.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not wait_until(lambda: bool(marked(mark)), seconds=_SETTLED):
            return []
        wait_until(lambda: not marked(mark), seconds=deadline - time.monotonic())
    return marked(mark)


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Whether `condition` becomes true within this many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False
