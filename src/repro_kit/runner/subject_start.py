"""Build the command line and the environment that start a subject, with the probe and private caches."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from repro_kit.case.case import Subject
from repro_kit.model.torch_config import module_of, qualified
from repro_kit.probe.repro_probe.protocol.orders import Override, ProbeOptions, RunMode
from repro_kit.runner import write_orders
from repro_kit.runner.compiler import give_probes, users_cache
from repro_kit.runner.launch import with_probe
from repro_kit.runner.places import breaks_commands
from repro_kit.runner.scratch import scratch


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
                # Headers are large, and torch finds them elsewhere. A leftover "bisect" directory forces a backend.
                ignore=shutil.ignore_patterns("precompiled_headers", "bisect"),
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
