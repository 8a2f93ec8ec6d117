"""What the launcher of this very run asks of the probe.

A variable alone orders nothing: it outlives its run, is copied into files, and can be set by anybody. The variables
only name a file and hold a token; the file counts when it is this user's, nobody else can read it, it holds the token,
and the launcher has it locked. The lock is gone as soon as the run ends or the launcher dies, however it dies.
"""

import json
import os
import stat

PATH, TOKEN = "REPRO_PROBE_ORDERS", "REPRO_PROBE_TOKEN"

_LARGEST = 1 << 24  # bytes


def read():
    """The orders (`mode`, `directory`, `options`) of the run that this process belongs to; None without any."""
    path, token = os.environ.get(PATH), os.environ.get(TOKEN)
    if not path or not token or not os.path.isabs(path) or not hasattr(os, "geteuid"):
        return None
    try:
        orders = json.loads(_content(path))
    except (OSError, ValueError, RecursionError):
        return None
    fits = isinstance(orders, dict) and orders.get("token") == token
    return orders if fits and all(isinstance(orders.get(key), kind) for key, kind in _KINDS.items()) else None


_KINDS = {"mode": str, "directory": str, "options": dict}


def _content(path):
    """What the file at `path` says; nothing unless it is the launcher's."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not is_private(handle) or not _is_locked(handle):
            return b""
        return file.read(_LARGEST)


def is_private(handle):
    """Whether the open file `handle` is a plain file of this user's that nobody else can read or write."""
    status = os.fstat(handle)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _is_locked(handle):
    import fcntl  # not on every system

    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
