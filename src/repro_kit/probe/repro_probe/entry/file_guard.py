"""Refuse what a candidate of a source reduction must not do: change files, start processes, use the network."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from repro_probe.entry.record_expressions import is_writing

#: Events about paths that would be changed: the places of the paths, each with that of its directory's descriptor.
_CHANGES_PATHS: dict[str, tuple[tuple[int, int], ...]] = {
    "os.remove": ((0, 1),), "os.rmdir": ((0, 1),), "os.mkdir": ((0, 2),), "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2), (1, 3)), "os.symlink": ((1, 2),), "os.truncate": ((0, -1),), "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),), "os.chflags": ((0, -1),), "os.setxattr": ((0, -1),), "os.removexattr": ((0, -1),),
    "os.utime": ((0, 3),), "sqlite3.connect": ((0, -1),), "shutil.rmtree": ((0, 1),), "shutil.move": ((0, -1), (1, -1)),
}  # fmt: skip
_ACTS = {
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "subprocess.Popen", "pty.spawn", "os.kill",
    "os.killpg", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto",
    "ftplib.connect", "smtplib.connect", "urllib.Request", "webbrowser.open",
}  # fmt: skip
_HERE = ("", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::")
#: Parts of torch that write caches and start native compilers by themselves.
_COMPILER = tuple(
    os.path.join("torch", *parts)
    for parts in (("_inductor",), ("_dynamo",), ("_functorch",), ("_logging",), ("utils", "cpp_extension"))
)
_LIBRARIES = ("triton" + os.sep, "repro_probe" + os.sep)


class FileGuard:
    """Refuses, once installed, every event that reaches beyond the directories `own`.

    A candidate lacks statements of the user's script, so what is left may get other arguments than the user wrote,
    and may run where it did not run before. Python's audit events show it before it happens (PEP 578). The compiler
    itself writes to its caches and starts native compilers; it may.
    """

    def __init__(self, own: Sequence[str]) -> None:
        self.refused: list[str] = []
        self._own = tuple(os.path.join(os.path.realpath(path), "") for path in (*own, "/dev"))
        self._script = ""

    def install(self, script: str) -> None:
        """Watch this process to its end. `script` is the file of the candidate."""
        self._script = script
        _audit_writers(sys.modules["torch"])
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int):
                return  # a descriptor that is open already
            reaches = is_writing(mode, flags) and self._is_elsewhere(path)
        elif event in _CHANGES_PATHS:
            reaches = any(
                self._is_elsewhere(arguments[path], arguments[at] if 0 < at < len(arguments) else -1)
                for path, at in _CHANGES_PATHS[event]
            )
        else:
            reaches = event in _ACTS and not _asks_for_port(event, arguments)
        if reaches and not self._by_compiler(sys._getframe(1)):
            self.refused.append(event)
            raise PermissionError(f"repro-kit refuses {event} while it reduces the script")

    def _is_elsewhere(self, path: Any, directory: Any = -1) -> bool:
        """Whether `path` is outside of the own directories. `directory`: a descriptor that it counts from, or -1."""
        if path == ":memory:":
            return False
        if isinstance(path, int):
            path = f"/proc/self/fd/{path}"
        elif isinstance(directory, int) and directory >= 0:
            path = os.path.join(f"/proc/self/fd/{directory}", os.fsdecode(path))
        return not os.path.realpath(os.fsdecode(path)).startswith(self._own)

    def _by_compiler(self, frame: FrameType | None) -> bool:
        """Whether the compiler acts, and not the script: its frame is nearer than any frame of the script."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file == self._script:
                return False
            if file != __file__ and any(part in file for part in (*_COMPILER, *_LIBRARIES)):
                return True
            frame = frame.f_back
        return False


def _asks_for_port(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a socket only gets a free port of this machine, as a script chooses one for its ranks to meet at."""
    address = arguments[1] if event == "socket.bind" else None
    return isinstance(address, tuple) and address[:1] != () and address[0] in _HERE and address[1:2] == (0,)


def _audit_writers(torch: Any) -> None:
    """Report a file that ``torch.save`` opens in C++, which raises no event."""
    writer = getattr(torch.serialization, "_open_zipfile_writer_file", None)
    if writer is None:
        return
    opens = writer.__init__

    def audited(self: Any, name: Any, *arguments: Any, **named: Any) -> None:
        sys.audit("open", name, "w", 0)
        opens(self, name, *arguments, **named)

    writer.__init__ = audited
