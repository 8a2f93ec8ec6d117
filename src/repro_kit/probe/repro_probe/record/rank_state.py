"""Write down, every second, what this process does as one rank of several: its collectives, and its own place.

The collectives come from torch's flight recorder (torch/csrc/distributed/c10d/FlightRecorder.hpp), which knows those of
compiled code too. A rank may be killed at any time, so the last state on disk is at most a second old.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from repro_probe.common.imports import when_imported
from repro_probe.common.run_files import FindingsDirectory
from repro_probe.common.tracebacks import own_packages
from repro_probe.protocol.findings import RANK, CollectiveData, CompileSpan, Doing, RankStateData

_EVERY, _LOOK = 1.0, 0.2  # seconds between states, and between looks at the main thread
_LONG = 10.0  # seconds in one collective
_MOST, _SPANS = 200, 50  # collectives and compiles that are kept
_BUFFER = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")  # how many collectives the flight recorder keeps
#: Files of torch, and their functions, that run only while something is compiled.
_COMPILES = (("torch/_dynamo/convert_frame.py", "_compile"), ("torch/_inductor/compile_fx.py", "_compile_fx_inner"))
_GENERATED = ("torchinductor_", "/inductor/")
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def install(findings: FindingsDirectory) -> None:
    """Watch this process from the time when it is in a group of ranks; a process in none has no further thread."""
    if not any(name in os.environ for name in _BUFFER):  # some versions of torch record nothing by default
        os.environ[_BUFFER[0]] = "2000"  # the default of the newer ones
    when_imported("torch.distributed.distributed_c10d", lambda module: _watch_group(findings, module))


def _watch_group(findings: FindingsDirectory, distributed: Any) -> None:
    watch = RankWatch(findings, distributed)
    update = getattr(distributed, "_update_default_pg", None)
    if update is None:
        watch.start()
        return

    @functools.wraps(update)
    def starting(group: Any) -> Any:
        updated = update(group)
        if group is not None:
            watch.start()
        return updated

    distributed._update_default_pg = starting


class RankWatch:
    """Looks at the main thread of this process, and writes its state, from a separate thread and at the end."""

    def __init__(self, findings: FindingsDirectory, distributed: Any) -> None:
        self._findings, self._distributed = findings, distributed
        self._main = threading.main_thread().ident or 0
        self._rank: tuple[int, int] | None = None  # and the size of the world; stays when the group is gone
        self._compiles: list[CompileSpan] = []
        self._was_compiling = False
        self._watched = 0  # the process that has the thread: forks have none

    def start(self) -> None:
        """Start the thread, once."""
        if self._watched == os.getpid():
            return
        self._watched = os.getpid()
        threading.Thread(target=self._watch, daemon=True).start()
        atexit.register(self._write, None)

    def _watch(self) -> None:
        while True:
            until = time.monotonic() + _EVERY
            while time.monotonic() < until:
                time.sleep(_LOOK)
                self._look(sys._current_frames().get(self._main))
            self._write(sys._current_frames().get(self._main))

    def _look(self, frame: FrameType | None) -> None:
        if self._rank is None and self._distributed.is_initialized():
            self._rank = (self._distributed.get_rank(), self._distributed.get_world_size())
        now, compiling = time.time(), _compiles(frame)
        if compiling and self._was_compiling:
            self._compiles[-1]["ended"] = now
        elif compiling:
            self._compiles = [*self._compiles[-_SPANS:], {"began": now, "ended": now}]
        self._was_compiling = compiling

    def _write(self, frame: FrameType | None) -> None:
        if self._rank is not None:
            with contextlib.suppress(Exception):  # at the end of the process, torch is half gone
                self._findings.write(RANK, self._state(self._rank, frame))

    def _state(self, rank: tuple[int, int], frame: FrameType | None) -> RankStateData:
        collectives = _collectives(lines=frame is None or _knows_lines())
        if collectives and not collectives[-1]["done"] and time.time() - collectives[-1]["began"] > _LONG:
            collectives = _collectives(lines=True)  # the main thread waits, and imports nothing meanwhile
        doing: Doing = "compiling" if _compiles(frame) else "python"
        if doing == "python" and collectives and not collectives[-1]["done"]:
            doing = "collective"
        return {
            "rank": rank[0],
            "size": rank[1],
            "time": time.time(),
            "doing": doing,
            "line": users_line(_places(frame)),
            "collectives": collectives,
            "compiles": self._compiles,
        }


def _compiles(frame: FrameType | None) -> bool:
    while frame is not None:
        file = frame.f_code.co_filename.replace(os.sep, "/")
        if any(file.endswith(home) and frame.f_code.co_name == name for home, name in _COMPILES):
            return True
        frame = frame.f_back
    return False


def _places(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def users_line(places: Iterable[tuple[str, int]]) -> str:
    """The innermost place in the user's code, else in a package that is installed; "" in torch alone."""
    users = [place for place in places if _is_users(place[0])]
    own = [place for place in users if not any(mark in place[0] for mark in _INSTALLED)]
    return "{}:{}".format(*(own or users)[0]) if users else ""


def _is_users(file: str) -> bool:
    torch = os.path.dirname(sys.modules["torch"].__file__ or "")
    parts = (torch, *own_packages(), os.path.dirname(os.__file__))
    generated = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or "<"
    return not file.startswith(("<", generated, *parts)) and not any(mark in file for mark in _GENERATED)


def _knows_lines() -> bool:
    """Whether torch names the lines of collectives without importing Dynamo, which the main thread may do now."""
    dynamo = sys.modules.get("torch._dynamo")
    return dynamo is not None and not getattr(dynamo.__spec__, "_initializing", False)


def _collectives(*, lines: bool) -> list[CollectiveData]:
    """Return the last collectives, oldest first, perhaps with the user's lines; none where torch records none."""
    import pickle

    dump = getattr(sys.modules["torch"]._C._distributed_c10d, "_dump_fr_trace", None)
    if dump is None:
        return []
    entries = pickle.loads(dump(includeStackTraces=lines))["entries"][-_MOST:]  # from this process's own memory
    return [
        {
            "name": str(entry["profiling_name"]).rpartition(":")[2],
            "group": str(entry["process_group"][0]),
            "number": int(entry["collective_seq_id"]),
            "sizes": entry["input_sizes"],
            "dtypes": entry["input_dtypes"],
            "line": users_line((frame["filename"], frame["line"]) for frame in entry.get("frames") or []),
            "began": entry["time_created_ns"] / 1e9,
            "done": bool(entry["retired"]),
        }
        for entry in entries
        if not entry["is_p2p"]
    ]
