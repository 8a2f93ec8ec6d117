"""Write the orders of a run for the probe to a file that only the user can read, and lock the file during the run.

`probe/repro_probe/common/run_files.py` reads the file, and says why environment variables alone are not enough.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from repro_kit.errors import UsageError
from repro_kit.probe.repro_probe.protocol.orders import ORDERS_PATH, ORDERS_TOKEN, PREFIX, Orders, ProbeOptions, RunMode

#: The descriptor that holds the lock, for each file of orders in force.
_locks: dict[str, int] = {}


def give(directory: Path, mode: RunMode, options: ProbeOptions) -> dict[str, str]:
    """Write the orders of a run whose findings go to `directory`. Return the variables that point the probe to them.

    The orders hold until the block of `in_force` with these variables ends, or this process ends.
    """
    token = secrets.token_hex(32)
    orders: Orders = {"token": token, "mode": mode, "directory": str(directory.absolute()), "options": options}
    path, handle = _private_file(directory.absolute())
    _locks[str(path)] = handle
    with open(os.dup(handle), "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        json.dump(orders, file)
    return {ORDERS_PATH: str(path), ORDERS_TOKEN: token}


@contextmanager
def in_force(variables: Mapping[str, str]) -> Iterator[None]:
    """Withdraw the orders that `variables` point to, if any, when the block ends."""
    try:
        yield
    finally:
        path = variables.get(ORDERS_PATH, "")
        handle = _locks.pop(path, None)
        if handle is not None:
            os.close(handle)
            with suppress(OSError):
                Path(path).unlink()


def without(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without the variables of the probe."""
    return {name: value for name, value in env.items() if not name.startswith(PREFIX)}


def _private_file(directory: Path) -> tuple[Path, int]:
    """Return a new locked file that only this user can read.

    The file is in `directory`, or among the temporary files if the file system of `directory` has no locks or no
    permissions.
    """
    for parent in (directory, Path(tempfile.gettempdir())):
        path = parent / ("orders.json" if parent == directory else f"repro-kit-orders-{secrets.token_hex(8)}.json")
        with suppress(OSError):
            path.unlink(missing_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IRUSR | stat.S_IWUSR)
            try:
                if _is_private(handle):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return path, handle
            except OSError:
                pass
            os.close(handle)
            path.unlink()
    raise UsageError(
        f"Neither {directory} nor {tempfile.gettempdir()} can hold a private, locked file; "
        "use --output on another file system."
    )


def _is_private(handle: int) -> bool:
    status = os.fstat(handle)
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077
