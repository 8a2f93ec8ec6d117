"""Start a subject with the probe: command line, environment, private caches; which processes lack the probe."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from repro_kit.case.case import Subject
from repro_kit.probe.repro_probe.protocol.findings import HELLO, finding
from repro_kit.probe.repro_probe.protocol.orders import Override, ProbeOptions, RunMode
from repro_kit.recipe import module_of, qualified
from repro_kit.runner import write_orders
from repro_kit.runner.compiler import give_probes, users_cache
from repro_kit.runner.places import breaks_commands, scratch
from repro_kit.runner.supervised import with_probe


def command(subject: Subject) -> list[str]:
    """Return the command line that runs `subject`."""
    match subject.form:
        case "script":
            return [subject.python, *subject.argv]
        case "module":
            return [subject.python, "-m", *subject.argv]
        case "command":
            return list(subject.argv)


def command_with(subject: Subject, settings: Mapping[str, object], imports: str = "", code: str = "") -> list[str]:
    """Return the command line that makes torch's `settings` (``inductor.cpp.simdlen``), runs `code`, then `subject`.

    Empty for a subject of form "command", whose interpreter repro-kit does not start.
    """
    if subject.form == "command":
        return []
    words = [f"{qualified(name)} = {value!r}" for name, value in settings.items()]
    modules = sorted(set(map(module_of, settings)))
    name = subject.argv[0]
    run = f"runpy.run_path({name!r}, run_name='__main__')"
    if subject.form == "module":
        run = f"runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    first = "import " + ", ".join(filter(None, ["runpy", imports, *modules]))
    return [subject.python, "-c", "; ".join(filter(None, [first, *words, code, run])), *subject.argv[1:]]


def dump_before(timeout: float) -> float:
    """Return the seconds before a time-out at which the probe writes the Python stack."""
    return min(2.0, timeout / 10)


def probe_environment(
    env: Mapping[str, str], mode: RunMode, directory: Path, timeout: float, override: Override | None = None
) -> dict[str, str]:
    """Return `env` with orders for the probe to run in `mode`. The orders hold until the `launch` with them ends.

    The probe writes the Python stack shortly before `timeout` seconds from now.
    """
    deadline = time.time() + timeout - dump_before(timeout)
    options: ProbeOptions = {"deadline": deadline, **override} if override else {"deadline": deadline}
    directory.mkdir(parents=True, exist_ok=True)
    return {
        **with_probe(write_orders.without(env)),
        **write_orders.give(directory, mode, options),
    }


@contextmanager
def private_caches(python: str, copy_of: Path | None = None) -> Iterator[dict[str, str]]:
    """Yield variables that point the compiler's caches to a directory of this run, which is removed afterwards.

    The directory is a copy of `copy_of`. Without `copy_of` it is empty but for the shared test libraries of `python`
    (`runner/compiler.py`). Caching itself stays on or off as the user had it. Where the path of the user's own cache
    makes compilations fail, they fail here too: the path of the private one ends like that.
    """
    with scratch() as directory:
        own = users_cache(os.environ)
        cache = directory / (str(own.absolute()).lstrip(os.sep) if breaks_commands(own) else "inductor")
        if copy_of is not None:
            shutil.copytree(
                copy_of,
                cache,
                ignore=shutil.ignore_patterns(*NOT_COPIED),
                copy_function=_copy_what_stays,
                ignore_dangling_symlinks=True,
            )
        cache.mkdir(parents=True, exist_ok=True)
        if copy_of is None:
            give_probes(python, cache)
        yield {
            "TORCHINDUCTOR_CACHE_DIR": str(cache),
            "TRITON_CACHE_DIR": str(directory / "triton"),
        }


def _copy_what_stays(source: str, target: str) -> None:
    """Copy a file unless it is gone. The cache may be in use, and torch renames files there after writing them."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)


#: Directories of a cache that a copy of it leaves out: headers are large, and torch finds them elsewhere; a leftover
#: "bisect" forces a backend.
NOT_COPIED = ("precompiled_headers", "bisect")
_LIBRARY = "libtorch"  # part of the name of a file that every process with torch has mapped
#: Words of commands that compile nothing of the user's. boot.py leaves the first two alone too. The last one is torch's
#: test of the CPU's vector instructions (torch/_inductor/cpu_vec_isa.py).
_TOOLS = (
    "torch/_inductor/compile_worker",
    "multiprocessing.resource_tracker",
    "from ctypes import cdll\ncdll.LoadLibrary(",
)


class ProcessesWithoutProbe:
    """Watches the descendants of this process during a run (`look` is for the launcher's `on_tick`).

    Only Linux shows which libraries another process has loaded. On other systems the result is empty.
    """

    def __init__(self) -> None:
        self._before = {process.pid for process in _below()}
        self._with_torch: dict[int, str] = {}

    def look(self, seconds: float = 0.0) -> None:
        """Note the processes that have loaded torch by now."""
        for process in _below():
            if process.pid in self._before or process.pid in self._with_torch:
                continue
            with suppress(psutil.Error, OSError):
                words = " ".join(process.cmdline())
                loaded = _LIBRARY in Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8", errors="replace")
                if loaded and not any(tool in words for tool in _TOOLS):
                    self._with_torch[process.pid] = words

    def without_probe(self, findings: Path) -> tuple[str, ...]:
        """Return the command lines of the processes that the probe wrote nothing about to `findings`."""
        unseen = [pid for pid in self._with_torch if not (findings / finding(HELLO, pid)).exists()]
        return tuple(self._with_torch[pid] for pid in unseen)


def _below() -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process().children(recursive=True)
    return []
