"""A bundle that nobody vouches for: opened with care, shown before it runs, run with little and within limits."""

from __future__ import annotations

import os
import re
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
from repro_kit.session.case_paths import is_case
from repro_kit.session.strangers.runnable import REPRO, RunnableFiles, copy_runnable
from repro_kit.ui import Ui

_SHOWN_LINES = 300
_LARGEST = 4 << 20  # bytes of a script or a manifest
_LONGEST = 3600.0  # seconds that a bundle may ask for
_MOST_REPEATS = 100  # runs of it

#: Variables that a `repro.py` gets: where an interpreter, torch and a compiler find what they need on this machine, and
#: no more. What changes how these behave (threads, languages, launches) belongs into repro.py.
_NEEDED = re.compile(
    r"PATH|LD_LIBRARY_PATH|DYLD_\w+|LIBRARY_PATH|CPATH|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|CC|CXX|SYSTEMROOT|"
    r"CUDA_(HOME|PATH|ROOT|VISIBLE_DEVICES|DEVICE_ORDER)|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES)|"
    r"(ROCM?|HIP|HSA|ZE|ONEAPI)_\w+|TORCH_CUDA_ARCH_LIST|TRITON_LIBCUDA_PATH"
)


@dataclass(frozen=True)
class Claim:
    """What the bundle says of itself; a bare `repro.py` says nothing."""

    signature: Signature | None = None
    torch: str | None = None
    python: str | None = None
    platform: str | None = None
    accelerator: str | None = None
    limit: float | None = None  # seconds
    layer: str | None = None
    repeats: int = 1  # runs that must all pass before it counts as fixed


@dataclass(frozen=True)
class UntrustedBundle:
    """A bundle, case or `repro.py` at hand: as it lies, and what of it runs, which is in a directory of its own."""

    target: Path
    whole: Path
    directory: Path
    runs: RunnableFiles


@contextmanager
def opened(target: Path) -> Iterator[UntrustedBundle]:
    """What is at `target`, unpacked where it is packed; what was made for it is removed afterwards.

    Raises ReproKitError for what is no bundle, case, or `repro.py`, or is damaged.
    """
    with scratch() as scratch_directory:
        try:
            whole = _whole(target, scratch_directory / "whole")
            runs = copy_runnable(whole, scratch_directory / "runs")
        except OSError as error:
            raise UsageError(f"Cannot read {target}: {error.strerror or error}.") from error
        yield UntrustedBundle(target, whole, scratch_directory / "runs", runs)


def _whole(target: Path, unpacked: Path) -> Path:
    """The directory of the bundle at `target`; `unpacked` where it has to be made."""
    if target.is_dir():
        for directory in (target / "bundle", target):
            if (directory / REPRO).is_file():
                return directory
        raise UsageError(f"{target} holds no repro.py; `repro-kit bundle {target}` makes one of a case.")
    if target.suffix != ".py":
        unpack(target, unpacked)
        if not (unpacked / REPRO).is_file():
            raise UsageError(f"{target} is not a bundle: it has no repro.py.")
        return unpacked
    if target.name == REPRO and target.with_name(MANIFEST).is_file():
        return target.parent  # unpacked by hand
    unpacked.mkdir()
    (unpacked / REPRO).write_bytes(read_plain(target, _LARGEST))
    return unpacked


def changed_since(directory: Path, target: Path) -> list[str]:
    """What of an unpacked bundle is not as it was packed; nothing for a case, which is one's own."""
    if not target.is_dir() or is_case(target) or not (directory / CHECKSUMS).is_file():
        return []
    return wrong_sums(directory)


def claim_of(directory: Path, target: Path) -> Claim:
    """What the bundle unpacked in `directory` says of itself. Raises ReproKitError when that is damaged or newer."""
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
    """Show what is about to run, and ask whether it may. Raises ReproKitError when it may not."""
    for sentence in bundle.runs.left_out:
        ui.warn(f"{sentence}; it is not taken along.")
    if ui.yes:
        return
    _show(bundle, ui)
    for name in changed_since(bundle.whole, bundle.target):
        ui.warn(f"{name} is not as it was packed.")
    if not ui.confirm(f"Run this code from {bundle.target} with {python}, with your rights?"):
        raise UsageError(f"Nothing was run; look at {bundle.target}, and give --yes if you trust it.")


def _show(bundle: UntrustedBundle, ui: Ui) -> None:
    """All that runs: its text as far as a person reads at once, of the rest how much it is and where it can be read."""
    room, hidden = _SHOWN_LINES, []
    for name in bundle.runs.texts:
        lines = _lines((bundle.directory / name).read_bytes().decode("utf-8"))
        if name != REPRO:
            ui.print(f"\n{name} ({len(lines)} lines), which it can run:\n")
        ui.print("\n".join(lines[:room]))
        if len(lines) > room:
            hidden.append(f"{len(lines) - room} more lines of {name}")
        room = max(room - len(lines), 0)
    if bundle.runs.values:
        ui.print("It can load these values: " + ", ".join(bundle.runs.values))
    if hidden:
        ui.warn(f"{', '.join(hidden)} are not shown; all that runs lies in {bundle.directory} until you have answered.")


def _lines(text: str) -> list[str]:
    """The lines that Python sees; a terminal would take others."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def environment_for(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """The variables of `env` that a `repro.py` gets; its home is `home`, packages of the user's stay importable."""
    allowed = {name: value for name, value in env.items() if _NEEDED.fullmatch(name)}
    base = env.get("PYTHONUSERBASE") or os.path.expanduser("~/.local")  # noqa: PTH111 - as the site module has it
    return {**allowed, "HOME": str(home), "PYTHONUSERBASE": base}
