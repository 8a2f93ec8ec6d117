"""Where files lie whose paths torch gives to a compiler.

Torch does not quote most paths on a compiler's command line (torch/_inductor/cpp_builder.py). A blank or a quote in one
makes every compilation fail. So nothing of that kind is below the user's project or the case.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
import tempfile
from pathlib import Path

from repro_kit.errors import UsageError

_HARMLESS = re.compile(r"[A-Za-z0-9_./+-]+")
OTHERS = ("/tmp", "/var/tmp")


def breaks_commands(path: Path) -> bool:
    """Whether Inductor's command lines fall apart at this path."""
    text = os.path.abspath(path)  # noqa: PTH100 - as torch does
    try:
        return shlex.split(text) != [text]
    except ValueError:  # a quote without its end
        return True


def is_harmless(path: Path) -> bool:
    """Whether every tool can be given the real path of `path` without quotes."""
    return _HARMLESS.fullmatch(os.path.realpath(path)) is not None


def temporary() -> Path:
    """The directory for temporary files: the system's, or another if a compiler could not be given its path."""
    usual = Path(tempfile.gettempdir())
    others = (other for other in map(Path, OTHERS) if is_harmless(other) and os.access(other, os.W_OK | os.X_OK))
    return usual if is_harmless(usual) else next(others, usual)


def temporary_variables() -> dict[str, str]:
    """The variables that send the temporary files of repro-kit's own runs to `temporary`; none if they go anyway.

    Runs of the user's command get none: if the user's own directory makes compilations fail, these fail alike.
    """
    place = temporary()
    return {} if place == Path(tempfile.gettempdir()) else {"TMPDIR": str(place)}


def cache_home() -> Path:
    """The directory for what repro-kit keeps for this user: below ``XDG_CACHE_HOME``, else ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "repro-kit"


def instead_of(directory: Path) -> Path:
    """`directory`, or, if a compiler could not be given its path, another: the same one every time.

    Raises UsageError if that one belongs to somebody else.
    """
    if is_harmless(directory):
        return directory
    name = hashlib.sha256(os.fsencode(os.path.abspath(directory))).hexdigest()[:16]  # noqa: PTH100
    if is_harmless(cache_home()):
        return cache_home() / "places" / name
    own = temporary() / f"repro-kit-of-{os.getuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    status = own.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UsageError(f"{own} is not yours alone; remove it, or set XDG_CACHE_HOME to a path without blanks.")
    return own / name
