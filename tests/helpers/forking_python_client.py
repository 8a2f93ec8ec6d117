"""The command line of an interpreter whose processes are forks of a server (forking_python.py): asks it for one.

It passes its own files, directory and variables on, and ends as the fork ends. What a fork cannot do as a new process
does is left to the interpreter itself: other options than ``-c``, inherited files, and variables that torch reads when
it is imported.
"""

from __future__ import annotations

import marshal
import os
import re
import resource
import signal
import socket
import sys
from collections.abc import Mapping, Sequence

#: Variables that Python, torch and its libraries read when they are loaded, but for some that a fork can follow.
_READ_AT_START = re.compile(
    r"(?!PYTHON(PATH|UNBUFFERED|DONTWRITEBYTECODE|FAULTHANDLER|USERBASE)$|TORCH(INDUCTOR_CACHE_DIR|_COMPILE_DISABLE)$)"
    r"((PY)?TORCH|PYTHON|TRITON_(?!CACHE_DIR$)|[OGK]?OMP_|KMP_|MKL_|ATEN_|LD_|MALLOC_|CUDA_|REPRO_(KIT|PROBE)|CC$|CXX$)"
)
_SETS_ONE = re.compile(r'^\s*os\.environ\[(?!"TORCH_COMPILE_DISABLE"\]).*\] = ', re.MULTILINE)
_PASSED_ON = (signal.SIGABRT, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """Those of `env` that a process must be started with to have an effect."""
    return {name: value for name, value in env.items() if _READ_AT_START.match(name)}


def _can_be_forked(words: Sequence[str], server: Mapping[str, str]) -> bool:
    if not words or (words[0].startswith("-") and words[0] != "-c") or read_at_start(os.environ) != server:
        return False
    if any(int(number) > 2 for number in os.listdir("/proc/self/fd")[:-1]):  # the last is the listed directory
        return False
    for word in words:
        if word.endswith(".py") and os.path.isfile(word):
            with open(word, encoding="utf-8", errors="replace") as file:
                if _SETS_ONE.search(file.read()):
                    return False
    return True


def _ask(place: str, words: Sequence[str]) -> int:
    """The status of the fork that runs `words`, as `os.waitpid` tells it."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(f"{place}/socket")
        for number in _PASSED_ON:
            signal.signal(number, lambda number, _: line.send(bytes([number])))
        order = marshal.dumps((list(words), dict(os.environ), os.getcwd()))
        socket.send_fds(line, [len(order).to_bytes(8, "big")], [0, 1, 2])
        line.sendall(order)
        told = b""
        while len(told) < 4:
            piece = line.recv(4)
            if not piece:
                sys.exit("the server of forks has ended")
            told += piece
    return int.from_bytes(told, "big")


def main() -> None:
    """Run the words of the command line; the first two are the real interpreter and the server's directory."""
    python, place, *words = sys.argv[1:]
    with open(f"{place}/variables", "rb") as file:
        server = marshal.load(file)
    if not _can_be_forked(words, server):
        os.execv(python, [python, *words])
    status = _ask(place, words)
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
