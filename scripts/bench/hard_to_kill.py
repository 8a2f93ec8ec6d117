"""Scripts whose processes do what they can to outlive whoever ends them; each has a mark on its command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

#: By what they do. Python's code is run with ``-c``, and the mark is an argument, which forked processes keep.
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


def command(form: str, mark: str) -> list[str]:
    """The command line of one of `FORMS`."""
    return [sys.executable, "-c", FORMS[form], mark]


def processes(form: str) -> int:
    """How many processes one of `FORMS` has, once it has started them."""
    return 64 if form == "sixty-four processes" else 2


def marked(mark: str) -> list[int]:
    """Every process with `mark` on its command line that has not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Whether `condition` comes to hold in so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False
