"""Mark a case as made by this user on this machine.

The mark is made with a key in the user's state directory, which nobody else can read. The mark holds for one directory
only: a copy of the case, or a case unpacked from an archive, has no valid mark.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat

_LENGTH = 32


def mark_of(directory: str, text: str) -> str:
    """Return the mark of the directory that `text` describes; "" where no key can be stored."""
    key = _key()
    if not key:
        return ""
    content = f"{os.stat(directory).st_ino}\n{text}"
    return hmac.new(key, content.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _key() -> bytes:
    base = os.environ.get("XDG_STATE_HOME", "")
    base = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".local", "state")
    path = os.path.join(base, "repro-kit", "key")
    try:
        if not os.path.lexists(path):
            _make(path)
        return _read(path)
    except OSError:
        return b""


def _make(path: str) -> None:
    """Write a new key atomically. A key that another process has written stays."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    aside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(_LENGTH))
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    finally:
        os.unlink(aside)


def _read(path: str) -> bytes:
    """Return the key; nothing where other users could have read or written it."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        others_have_access = hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o077)
        key = b"" if others_have_access or not stat.S_ISREG(status.st_mode) else file.read(_LENGTH + 1)
    return key if len(key) == _LENGTH else b""
