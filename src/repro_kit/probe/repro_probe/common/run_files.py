"""The files of a run: the orders that the launcher gives the probe, and the findings that the probe writes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from typing import cast

from repro_probe.protocol.findings import finding
from repro_probe.protocol.orders import ORDERS_PATH, ORDERS_TOKEN, ORDERS_TYPES, Orders, ProbeOptions

_LARGEST = 1 << 24  # bytes
#: A program may put others in their places while it runs, as `mock.patch("builtins.open")` does in a test.
_open, _dumps, _replace = open, json.dumps, os.replace


def read_orders(variables: Mapping[str, str] = os.environ) -> Orders | None:
    """Return the orders (`mode`, `directory`, `options`) of the run that `variables` belong to, or None.

    Environment variables alone are not enough: a variable may outlive its run, may be copied into files, and can be
    set by anybody. The variables only name a file and hold a token. The probe follows the file only when this user
    owns it, nobody else can read it, it holds the token, and the launcher holds its lock, which is gone as soon as
    the run ends or the launcher dies.
    """
    path, token = variables.get(ORDERS_PATH), variables.get(ORDERS_TOKEN)
    if not path or not token or not os.path.isabs(path) or not hasattr(os, "geteuid"):
        return None
    try:
        orders = json.loads(_content(path))
    except (OSError, ValueError, RecursionError):
        return None
    fits = isinstance(orders, dict) and orders.get("token") == token
    if not fits or not all(isinstance(orders.get(key), kind) for key, kind in ORDERS_TYPES.items()):
        return None
    return cast(Orders, orders)


def _content(path: str) -> bytes:
    """Return the content of the file at `path`; nothing unless the launcher wrote the file and holds its lock."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not is_private(handle) or not _is_locked(handle):
            return b""
        return file.read(_LARGEST)


def is_private(handle: int) -> bool:
    """Whether the open file `handle` is a regular file of this user that nobody else can read or write."""
    status = os.fstat(handle)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _is_locked(handle: int) -> bool:
    import fcntl  # not on every system

    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def as_json(data: object) -> str:
    """Return `data` as one line of JSON."""
    return _dumps(data, default=repr)


def write_whole(path: str, text: str) -> None:
    """Write the file `path` so that nobody sees half of it. Raises OSError."""
    aside = f"{path}.{os.getpid()}.part"
    with _open(aside, "w", encoding="utf-8", errors="replace") as file:  # lone surrogates are not valid in a file
        file.write(text)
    _replace(aside, path)


class FindingsDirectory:
    """The directory of this run's findings, and the options of the probe's mode."""

    def __init__(self, directory: str, options: ProbeOptions) -> None:
        self.directory = directory
        self.options = options

    def path(self, name: str, ending: str = "json") -> str:
        """Return the path of this process's file for the finding `name`."""
        return os.path.join(self.directory, finding(name, os.getpid(), ending))

    def write(self, name: str, data: object) -> None:
        """Write `data` as JSON, atomically."""
        write_whole(self.path(name), _dumps(data, default=repr, ensure_ascii=False))

    def append(self, name: str, line: str, ending: str = "jsonl") -> None:
        """Append one line to this process's file for the finding `name`."""
        with _open(self.path(name, ending), "a", encoding="utf-8", errors="replace") as file:
            file.write(line + "\n")
