"""What Inductor asks this machine's C++ compiler before the first kernel: kept, and at hand in every empty cache.

It builds a probe for each vector instruction set (torch/_inductor/cpu_vec_isa.py), and precompiles its headers. That
takes longer than the rest of most runs that repro-kit makes, and has no part in what they judge.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from repro_kit.files import write_atomic

_PROBE = re.compile(rb"\b__\w+_chk_kernel")  # in the source of every probe (torch/_inductor/cpu_vec_isa.py)
_WRITTEN = 120.0  # seconds after which a header is no longer being written
_KEPT = 30 * 86400.0  # seconds after which a directory that nothing used is removed


def probes(python: str) -> Path | None:
    """The directory for `python`'s probes on this host, made if need be; None where none can be written.

    Only what depends on nothing but the machine may be put there (as Inductor's cache directory of the zygote, before
    it forks).
    """
    key = hashlib.sha256("\0".join([os.path.abspath(python), platform.node()]).encode()).hexdigest()[:16]  # noqa: PTH100
    place = _root() / key
    try:
        place.mkdir(parents=True, exist_ok=True)
        os.utime(place)
    except OSError:
        return None
    _remove_unused(place.parent)
    return place if os.access(place, os.W_OK) else None


def give_probes(python: str, cache: Path) -> None:
    """Copy what is known into an Inductor cache directory that is empty otherwise."""
    known = probes(python)
    for source in sorted(known.glob("??/*.so")) if known else ():  # others are in the making, and appear whole
        target = cache / source.relative_to(known or source)
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another repro-kit may be removing it
            shutil.copy2(source, target)


def take_probes(python: str, cache: Path) -> None:
    """Keep the probes that a run of `python` has built in its own Inductor cache directory, for the runs after it.

    Only from a run that ended by itself: a run that is killed may leave half of a file.
    """
    known = probes(python)
    for source in sorted(cache.glob("??/*.cpp")) if known else ():
        built = source.with_suffix(".so")
        target = (known or cache) / built.relative_to(cache)
        with suppress(OSError):  # without it the next run builds its own
            if _PROBE.search(source.read_bytes()) and built.is_file() and not target.exists():
                target.parent.mkdir(exist_ok=True)
                write_atomic(target, built.read_bytes())


def give_headers(temporary: Path) -> None:
    """Let a run whose temporary files go to `temporary` find the headers that were precompiled for others before.

    Inductor keeps them there, whatever its cache directory is (torch/_inductor/codecache.py). They are linked one by
    one: a run that is killed while it writes another leaves no half of it to anybody else.
    """
    known = _headers(Path(tempfile.gettempdir()))
    given = _headers(temporary)
    for file in sorted(known.glob("*.h*")):
        with suppress(OSError):  # gone, or on another device: it is only slower then
            if time.time() - file.stat().st_mtime > _WRITTEN:
                given.mkdir(parents=True, exist_ok=True)
                os.link(file, given / file.name)


def _headers(temporary: Path) -> Path:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid_{os.getuid()}"
    return temporary / ("torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", user)) / "precompiled_headers"


def _root() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "repro-kit" / "compiler"


def _remove_unused(root: Path) -> None:
    for path in root.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT:
                shutil.rmtree(path)
