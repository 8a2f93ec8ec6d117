"""Share Inductor's first results from the C++ compiler of this machine with every run that has an empty cache.

Before the first kernel, Inductor compiles a small test library for each vector instruction set
(torch/_inductor/cpu_vec_isa.py) and precompiles its headers. That takes longer than the rest of most runs of repro-kit,
and does not affect what these runs judge.
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
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from repro_kit.errors import UsageError
from repro_kit.files import link_or_copy, write_atomic
from repro_kit.runner.places import cache_home, instead_of, temporary

_PROBE = re.compile(rb"\b__\w+_chk_kernel")  # in the source of every probe (torch/_inductor/cpu_vec_isa.py)
_ELF = b"\x7fELF"  # the first bytes of a library on Linux
_WRITTEN = 120.0  # seconds after which a header is no longer being written
_KEPT = 30 * 86400.0  # seconds after which an unused directory is removed


def probes(python: str) -> Path | None:
    """Return the directory for the test libraries of `python` on this host, or None if it cannot be written.

    The zygote uses the directory as Inductor's cache before it forks. Only files that depend on nothing but the
    machine may be stored there.
    """
    key = hashlib.sha256("\0".join([os.path.abspath(python), platform.node()]).encode()).hexdigest()[:16]  # noqa: PTH100
    try:
        directory = _root() / key
        directory.mkdir(parents=True, exist_ok=True)
        os.utime(directory)
    except (OSError, UsageError):
        return None
    _remove_unused(directory.parent)
    return directory if os.access(directory, os.W_OK) else None


def give_probes(python: str, cache: Path) -> None:
    """Copy the shared test libraries, and the notes that they load, into `cache`, an empty cache of Inductor."""
    known = probes(python)
    for library in sorted(known.glob("??/*.so")) if known else ():  # other files are still being written
        (cache / library.parent.name).mkdir(parents=True, exist_ok=True)
        for file in (library, _note(library)):
            with suppress(FileNotFoundError):  # it has no note, or another repro-kit may be removing the file
                shutil.copy2(file, cache / file.parent.name / file.name)


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
                if _note(built).exists():
                    _note(target).touch()


def take_libraries(cache: Path, directory: Path) -> None:
    """Keep the kernels that a run has built in its own Inductor cache directory, under the names that Inductor gives.

    A name is the hash of the source and of the compiler's command (`torch/_inductor/codecache.py`). A failure may cut a
    build off: GNU's linker writes the first bytes of a library last (`bfd/elf.c`), and others rename a whole file.
    """
    shutil.rmtree(directory, ignore_errors=True)
    for library in cache.glob("??/*.so"):
        with suppress(OSError):  # without it the queries build their own
            with library.open("rb") as file:
                is_whole = file.read(len(_ELF)) == _ELF
            if is_whole:
                link_or_copy(library, directory / library.name)


def _note(library: Path) -> Path:
    """The file that says that a test library loads (probe/repro_probe/common/vec_isa.py)."""
    return library.with_name(f"{library.name}.loads")


def give_headers(directory: Path) -> None:
    """Give a run whose temporary files go to `directory` the headers that earlier runs precompiled.

    Inductor keeps precompiled headers in the directory for temporary files, whatever its cache directory is
    (torch/_inductor/codecache.py). Each header is linked on its own, so a run that is killed while it writes a header
    leaves no damaged header for other runs.
    """
    shared_headers = _headers(temporary())
    run_headers = _headers(directory)
    for file in sorted(shared_headers.glob("*.h*")):
        with suppress(OSError):  # the header is gone, or is on another device: the run is only slower
            if time.time() - file.stat().st_mtime > _WRITTEN:
                run_headers.mkdir(parents=True, exist_ok=True)
                os.link(file, run_headers / file.name)


def _headers(directory: Path) -> Path:
    return _users_directory(directory) / "precompiled_headers"


def users_cache(env: Mapping[str, str]) -> Path:
    """The directory of Inductor's cache (torch/_inductor/runtime/cache_dir_utils.py)."""
    chosen = env.get("TORCHINDUCTOR_CACHE_DIR")
    return Path(chosen) if chosen else _users_directory(Path(tempfile.gettempdir()))


def _users_directory(directory: Path) -> Path:
    """Inductor's directory of this user among the temporary files in `directory`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid_{os.getuid()}"
    return directory / ("torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", user))


def _root() -> Path:
    return instead_of(cache_home() / "compiler")


def _remove_unused(root: Path) -> None:
    for path in root.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT:
                shutil.rmtree(path)
