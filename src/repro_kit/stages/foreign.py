"""A bundle that nobody vouches for: opened with care, shown before it runs, run with little and within limits."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from cattrs.errors import BaseValidationError

from repro_kit.bundle.archive import CHECKSUMS, unpack, wrong_sums
from repro_kit.bundle.manifest import MANIFEST, SCHEMA
from repro_kit.errors import ReproKitError
from repro_kit.model.serialize import from_data
from repro_kit.model.signature import Signature
from repro_kit.stages.options import Options
from repro_kit.stages.place import is_case
from repro_kit.ui import Ui

_SHOWN_LINES = 300
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


@contextmanager
def opened(target: Path) -> Iterator[Path]:
    """A directory with `repro.py` and what it needs; removed afterwards when it was unpacked.

    Raises ReproKitError for what is no bundle, case, or `repro.py`, or is damaged.
    """
    if target.is_dir():
        for directory in (target / "bundle", target):
            if (directory / "repro.py").is_file():
                yield directory
                return
        raise ReproKitError(f"{target} holds no repro.py; `repro-kit bundle {target}` makes one of a case.")
    place = Path(tempfile.mkdtemp(prefix="repro-kit-"))
    try:
        try:
            _open(target, place)
        except OSError as error:
            raise ReproKitError(f"Cannot read {target}: {error.strerror or error}.") from error
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _open(target: Path, place: Path) -> None:
    if target.suffix == ".py":
        shutil.copyfile(target, place / "repro.py")
        for name in ("inputs", "files", MANIFEST):
            _copy_beside(target, name, place)
        return
    unpack(target, place)
    if not (place / "repro.py").is_file():
        raise ReproKitError(f"{target} is not a bundle: it has no repro.py.")


def _copy_beside(target: Path, name: str, place: Path) -> None:
    """Take along what lies beside a `repro.py` that was unpacked by hand."""
    source = target.with_name(name)
    if source.is_dir() and target.with_name(MANIFEST).is_file():
        shutil.copytree(source, place / name)
    elif source.is_file():
        shutil.copyfile(source, place / name)


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
        data: dict[str, Any] = orjson.loads(path.read_bytes())
        if data["schema"] > SCHEMA:
            raise ReproKitError(
                f"{target} was made by a newer repro-kit (schema {data['schema']}, this one knows {SCHEMA}); upgrade."
            )
        known = {name: data[name] for name in Claim.__dataclass_fields__ if data.get(name) is not None}
        claim = from_data(known, Claim)
        claim = replace(claim, repeats=max(1, min(claim.repeats, _MOST_REPEATS)))
        return replace(claim, limit=min(claim.limit, _LONGEST) if claim.limit and claim.limit > 0 else None)
    except (OSError, BaseValidationError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ReproKitError(f"{target} is damaged: its {MANIFEST} cannot be read.") from error


def ask(target: Path, directory: Path, python: str, options: Options, ui: Ui) -> None:
    """Show what is about to run, and ask whether it may. Raises ReproKitError when it may not."""
    if options.yes:
        return
    lines = (directory / "repro.py").read_text(encoding="utf-8", errors="replace").splitlines()
    ui.print(visible("\n".join(lines[:_SHOWN_LINES])))
    if len(lines) > _SHOWN_LINES:
        ui.warn(f"{len(lines) - _SHOWN_LINES} more lines of repro.py are not shown; unpack {target} to read them.")
    others = sorted(path.relative_to(directory).as_posix() for path in directory.glob("files/**/*") if path.is_file())
    if others:
        ui.print("It runs these files as well: " + visible(", ".join(others)))
    for name in changed_since(directory, target):
        ui.warn(f"{visible(name)} is not as it was packed.")
    if not ui.confirm(f"Run this code from {target} with {python}, with your rights?"):
        raise ReproKitError(f"Nothing was run; look at {target}, and give --yes if you trust it.")


def visible(text: str) -> str:
    """`text` of a stranger's with what a terminal would obey, or hide code with, spelt out."""
    return "".join(it if it.isprintable() or it in "\n\t" else it.encode("unicode_escape").decode() for it in text)


def environment_for(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """The variables of `env` that a `repro.py` gets; its home is `home`, packages of the user's stay importable."""
    kept = {name: value for name, value in env.items() if _NEEDED.fullmatch(name)}
    base = env.get("PYTHONUSERBASE") or os.path.expanduser("~/.local")  # noqa: PTH111 - as the site module has it
    return {**kept, "HOME": str(home), "PYTHONUSERBASE": base}
