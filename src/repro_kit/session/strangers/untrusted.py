"""An untrusted bundle: checked when opened, shown before it runs, and run with few variables and with limits."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from cattrs.errors import BaseValidationError

from repro_kit.bundle.archive.archive import CHECKSUMS, unpack, wrong_sums
from repro_kit.bundle.archive.manifest import MANIFEST, SCHEMA
from repro_kit.errors import UsageError
from repro_kit.model.failure.signature import Signature
from repro_kit.model.serialize import from_data
from repro_kit.plain_file import read_plain
from repro_kit.runner.scratch import scratch
from repro_kit.session.case_paths import CHECKED, is_case
from repro_kit.session.strangers.runnable import CHECK, REPRO, RunnableFiles, copy_runnable
from repro_kit.ui import Ui

_SHOWN_LINES = 300
_LARGEST = 4 << 20  # bytes of a script or a manifest
_LONGEST = 3600.0  # longest time limit that a bundle may ask for, in seconds
_MOST_REPEATS = 100  # most runs that a bundle may ask for

#: Variables that a `repro.py` gets: those with which Python, torch and a compiler find their files on this machine.
#: Variables that change behaviour (threads, language, launches) belong in repro.py.
_NEEDED = re.compile(
    r"PATH|LD_LIBRARY_PATH|DYLD_\w+|LIBRARY_PATH|CPATH|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|CC|CXX|SYSTEMROOT|"
    r"CUDA_(HOME|PATH|ROOT|VISIBLE_DEVICES|DEVICE_ORDER)|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES)|"
    r"(ROCM?|HIP|HSA|ZE|ONEAPI)_\w+|TORCH_CUDA_ARCH_LIST|TRITON_\w+_PATH"
)


@dataclass(frozen=True)
class Claim:
    """What the manifest of a bundle claims; all defaults for a bare `repro.py`."""

    signature: Signature | None = None
    torch: str | None = None
    python: str | None = None
    platform: str | None = None
    accelerator: str | None = None
    limit: float | None = None  # seconds
    layer: str | None = None
    repeats: int = 1  # runs that must all pass before the failure counts as fixed
    needs: tuple[str, ...] = ()  # what it lacks, and needs to fail as expected, in words


@dataclass(frozen=True)
class UntrustedBundle:
    """A bundle, case or `repro.py`: its path, its directory, and a separate directory with the files that run."""

    target: Path
    whole: Path
    directory: Path
    runs: RunnableFiles


@contextmanager
def opened(target: Path) -> Iterator[UntrustedBundle]:
    """Open the bundle, case or `repro.py` at `target`; temporary files are removed afterwards.

    Raises ReproKitError when `target` is something else, or damaged.
    """
    with scratch() as scratch_directory:
        try:
            whole = _whole(target, scratch_directory / "whole")
            runs = copy_runnable(whole, scratch_directory / "runs")
        except OSError as error:
            raise UsageError(f"Cannot read {target}: {error.strerror or error}.") from error
        yield UntrustedBundle(target, whole, scratch_directory / "runs", runs)


def _whole(target: Path, unpacked: Path) -> Path:
    """The directory of the bundle at `target`; an archive is unpacked to `unpacked`."""
    if target.is_dir():
        for directory in (*([target / CHECKED] if is_case(target) else []), target / "bundle", target):
            if (directory / REPRO).is_file():
                return directory
        again = f"repro-kit bundle {shlex.quote(str(target))}"
        raise UsageError(f"{target} holds no repro.py; if it is a case, `{again}` makes one.")
    if target.suffix != ".py":
        unpack(target, unpacked)
        if not (unpacked / REPRO).is_file():
            raise UsageError(f"{target} is not a bundle: it has no repro.py.")
        return unpacked
    if target.name == REPRO and target.with_name(MANIFEST).is_file():
        return target.parent  # a bundle that the user has unpacked
    unpacked.mkdir()
    (unpacked / REPRO).write_bytes(read_plain(target, _LARGEST))
    return unpacked


def changed_since(directory: Path, target: Path) -> list[str]:
    """Files of an unpacked bundle that differ from its checksums; none for a case."""
    if not target.is_dir() or is_case(target) or not (directory / CHECKSUMS).is_file():
        return []
    return wrong_sums(directory)


def claim_of(directory: Path, target: Path) -> Claim:
    """The claims of the bundle in `directory`. Raises ReproKitError when its manifest is damaged or newer."""
    path = directory / MANIFEST
    if not path.is_file():
        return Claim()
    try:
        data: dict[str, Any] = orjson.loads(read_plain(path, _LARGEST))
        if data["schema"] > SCHEMA:
            raise UsageError(
                f"{target} was made by a newer repro-kit (schema {data['schema']}, this one knows {SCHEMA}); upgrade."
            )
        fields = {name: data[name] for name in Claim.__dataclass_fields__ if data.get(name) is not None}
        claim = from_data(fields, Claim)
        claim = replace(claim, repeats=max(1, min(claim.repeats, _MOST_REPEATS)))
        return replace(claim, limit=min(claim.limit, _LONGEST) if claim.limit and claim.limit > 0 else None)
    except (OSError, BaseValidationError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{target} is damaged: its {MANIFEST} cannot be read.") from error


def ask(bundle: UntrustedBundle, python: str, ui: Ui) -> None:
    """Show the code that is about to run, and ask for consent. Raises ReproKitError without consent."""
    for sentence in bundle.runs.left_out:
        ui.warn(f"{sentence}; repro-kit leaves it out.")
    if ui.yes:
        return
    _show(bundle, ui)
    for name in changed_since(bundle.whole, bundle.target):
        ui.warn(f"{name} differs from the checksum in the bundle.")
    if not ui.confirm(f"Run this code from {bundle.target} with {python}, with your rights?"):
        raise UsageError(f"Nothing was run; look at {bundle.target}, and give --yes if you trust it.")


def _show(bundle: UntrustedBundle, ui: Ui) -> None:
    """Print the code that runs, up to a limit of lines; say how much more there is, and where to read it."""
    room, hidden = _SHOWN_LINES, []
    for name in bundle.runs.texts:
        lines = _lines((bundle.directory / name).read_bytes().decode("utf-8"))
        if name != REPRO:
            role = "which runs repro.py" if name == CHECK else "which repro.py can run"
            ui.print(f"\n{name} ({len(lines)} line{'s' * (len(lines) != 1)}), {role}:\n")
        ui.print("\n".join(lines[:room]))
        if len(lines) > room:
            hidden.append(f"{len(lines) - room} more lines of {name}")
        room = max(room - len(lines), 0)
    if bundle.runs.values:
        ui.print("repro.py can load these values: " + ", ".join(bundle.runs.values))
    if hidden:
        ui.warn(f"{', '.join(hidden)} are not shown; until you answer, all code is in {bundle.directory}.")


def _lines(text: str) -> list[str]:
    """The lines as Python sees them; a terminal may break lines elsewhere."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def environment_for(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """The variables of `env` that a `repro.py` gets. Its home is `home`; the user's packages stay importable."""
    allowed = {name: value for name, value in env.items() if _NEEDED.fullmatch(name)}
    base = env.get("PYTHONUSERBASE") or os.path.expanduser("~/.local")  # noqa: PTH111 - as the site module has it
    return {**allowed, "HOME": str(home), "PYTHONUSERBASE": base}
