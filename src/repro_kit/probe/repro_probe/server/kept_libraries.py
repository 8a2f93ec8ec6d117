"""Let the queries of one server share the libraries that the C++ compiler makes of equal sources."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil


def library_key(command: str, target: str) -> str | None:
    """Return the name of the library that `command` makes as `target`, or None where it must be made anew.

    Many queries run the same kernel: with another setting, on other inputs, or to see whether a failure is flaky. A
    library is taken for equal if the whole command and the contents of every file that the query gives to it are
    equal.

    The name of a file in the query's directory says nothing, so its contents count instead. A source that names the
    directory itself may read other files there, and is not shared. The environment counts too, as the compiler reads
    variables such as CPATH.
    """
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if not cache or not target.endswith(".so"):
        return None
    private = os.path.dirname(cache)
    parts = [f"{name}={value}" for name, value in sorted(os.environ.items()) if private not in value]
    try:
        for word in shlex.split(command):
            parts.append("target" if word == target else _digest(word, private) if private in word else word)
    except (OSError, ValueError):  # an option that holds a directory of the query, or an unknown way of quoting
        return None
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _digest(path: str, private: str) -> str:
    """Return the digest of a file. Raises ValueError if the file names the directory `private`, OSError if unread."""
    with open(path, "rb") as file:
        content = file.read()
    if private.encode() in content:
        raise ValueError(f"{path} may read files of {private}")
    return hashlib.sha256(content).hexdigest()


def take_library(directory: str, name: str, target: str) -> bool:
    """Copy the library `name` to `target`. Return False where it is not kept."""
    try:
        copy_whole(os.path.join(directory, name), target)
    except OSError:
        return False
    return True


def keep_library(directory: str, name: str, target: str) -> None:
    """Keep the finished library `target` as `name`. Without it, later queries build their own."""
    with contextlib.suppress(OSError):
        os.makedirs(directory, exist_ok=True)
        copy_whole(target, os.path.join(directory, name))


def copy_whole(source: str, target: str) -> None:
    """Copy a file so that nobody sees half of it. Raises OSError."""
    aside = f"{target}.{os.getpid()}"
    try:
        shutil.copy(source, aside)
        os.replace(aside, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(aside)
