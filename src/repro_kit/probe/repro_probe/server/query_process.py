"""Prepare the process of a query: its directories and limits. After the answer, check its heap."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import tempfile
import time

from repro_probe.common.stacks import dump_at
from repro_probe.protocol.queries import Query
from repro_probe.run.load_program import limit_memory


def enter_scratch(request: Query) -> None:
    """Change to the request's scratch directory, and send caches, temporary files and stacks there.

    Every query starts with empty graph caches, since these are part of what is judged. Python's stack is written to
    ``fault.txt`` at a fatal signal and shortly before the time-out.
    """
    scratch, left = request["scratch"], request["ends"] - time.time()
    os.chdir(scratch)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(scratch, "cache")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(scratch, "triton")
    temporary = os.path.join(scratch, "tmp")
    os.makedirs(temporary)
    os.environ["TMPDIR"] = tempfile.tempdir = temporary
    fault = os.open("fault.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # stays open for faulthandler
    faulthandler.enable(fault)
    dump_at(request["ends"] - min(1.0, left / 10), fault)


_LARGEST = 4 << 30  # bytes of one file


def limit_process(memory: int | None) -> None:
    """Limit this process: no core files, no huge files, and `memory` more bytes of address space (None: no limit).

    Address space is limited because an allocation that does not fit then raises an exception with a traceback. A watch
    on resident memory would be too late, or would kill without a message. The number of processes is not limited, since
    the system counts all processes of the user.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    largest = _LARGEST if hard == resource.RLIM_INFINITY else min(hard, _LARGEST)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    if memory:
        try:
            with open("/proc/self/statm", encoding="ascii") as file:
                mapped = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            mapped = 0
        limit_memory(mapped + memory)


def disturb_heap() -> None:
    """Free and allocate memory, so that malloc checks its lists and heap corruption becomes a crash.

    This is called after the reply. A process that dies now has corrupted its heap before.
    """
    gc.collect()
    kept = [bytearray(16 << (number % 12)) for number in range(512)]
    del kept[::2]
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    for _ in range(2):
        kept.extend(bytearray(16 << (number % 12)) for number in range(256))
        if trim is not None:
            trim(0)  # makes glibc consolidate and check its free chunks
    del kept
    gc.collect()
