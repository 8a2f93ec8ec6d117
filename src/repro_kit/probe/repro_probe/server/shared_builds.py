"""Let the queries of a server build libraries and headers once for all, and see only whole files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
from typing import Any

from repro_probe.common.run_files import write_whole


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


def build_whole(shared: str | None = None) -> None:
    """Let the builder (torch/_inductor/cpp_builder.py) write each target to another name and rename it.

    The builder writes a target in place, and takes an existing target as complete. A partial file that a killed
    query left, such as a precompiled header, would break every later compilation that uses it, even in the user's
    own runs.

    With `shared`, a directory, the queries of a server build a library once for all of them. Those that lie there
    under Inductor's own names, which an earlier run has built, are not built at all.
    """
    from torch._inductor.cpp_builder import CppBuilder

    build = CppBuilder.build

    def build_aside(self: Any) -> Any:
        target = getattr(self, "_target_file", "")
        aside = f"{target}.{os.getpid()}"
        redirected = _redirected(self, target, aside)
        if redirected is None:
            return build(self)
        if shared and take_library(shared, os.path.basename(target), target):
            return b"", target
        name = library_key(self.get_command_line(), target) if shared else None
        if shared and name and take_library(shared, name, target):
            return b"", target  # an older torch asks for the compiler's words and for the path
        before = {attribute: getattr(self, attribute) for attribute in redirected}
        vars(self).update(redirected)
        try:
            build(self)
            os.replace(aside, target)
            if shared and name:
                keep_library(shared, name, target)
        finally:
            vars(self).update(before)
            with contextlib.suppress(OSError):
                os.unlink(aside)
        return b"", target

    CppBuilder.build = build_aside


def _redirected(builder: Any, target: str, aside: str) -> dict[str, str] | None:
    """Return the attributes with which `builder` writes `aside` in place of `target`; None where it would not."""
    output = getattr(builder, "_output", None)
    if output is None:  # an older torch makes the command from the target
        return {"_target_file": aside} if f" -o {target}" in builder.get_command_line() else None
    return {"_output": output[: -len(target)] + aside} if target and output.endswith(f" {target}") else None


def share_headers(directory: str) -> None:
    """Let all children of this process note their precompiled headers in `directory`; nothing where torch has none.

    Torch runs the preprocessor over its headers once in each process (`_precompile_header`,
    torch/_inductor/codecache.py), to notice headers that changed. The headers do not change while a server runs.
    """
    from torch._inductor import codecache

    precompile: Any = getattr(codecache, "_precompile_header", None)
    if precompile is None:
        return

    def precompile_once(*arguments: Any, **command: Any) -> Any:
        wanted = repr((arguments, sorted(command.items())))
        note = os.path.join(directory, f"header-{hashlib.sha256(wanted.encode()).hexdigest()}")
        with contextlib.suppress(OSError), open(note, encoding="utf-8") as file:
            noted = file.read()
            if os.path.exists(noted):
                return noted
        header = precompile(*arguments, **command)
        with contextlib.suppress(OSError):
            write_whole(note, header)
        return header

    setattr(codecache, "_precompile_header", precompile_once)  # noqa: B010
