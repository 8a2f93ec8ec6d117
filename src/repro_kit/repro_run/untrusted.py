"""An untrusted bundle: its files that run, checked when opened, shown before they run, and run with few variables."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from cattrs.errors import BaseValidationError

from repro_kit.bundle.archive.archive import CHECKSUMS, unpack, wrong_sums
from repro_kit.bundle.archive.manifest import MANIFEST, SCHEMA
from repro_kit.bundle.repro.source_files import PLACE
from repro_kit.errors import UsageError
from repro_kit.failure.signature import Signature
from repro_kit.files import no_file, open_plain, read_plain
from repro_kit.runner.places import scratch
from repro_kit.serialize import from_data
from repro_kit.session.case_paths import CHECKED, is_case
from repro_kit.ui import Ui

REPRO = "repro.py"
CHECK = "check.py"  # runs `repro.py`, and judges its end; bundles of earlier versions have none
VALUES = "inputs"

_LARGEST_TEXT = 4 << 20  # bytes; the sources in a bundle are smaller
_MOST_FILES = 10_000
_MOST_VALUES = 4 << 30  # bytes
_PIECE = 1 << 20
_VALUES = re.compile(rf"{VALUES}/[^/]+\.pt")
#: Files of a bundle that only people read (docs/reference/bundle-format.md).
_READ = re.compile(
    r"README\.md|test_repro\.py|issue\.md|report\.html|story\.json|recipe\.toml|env\.json|ablation\.json|explain\.html|"
    r"redactions\.json|manifest\.json|MANIFEST\.sha256|(trace|artifacts|logs|tlparse)/.*"
)


def entry_of(directory: Path) -> str:
    """The file of the bundle in `directory` that is run, and answers by its exit status."""
    return CHECK if (directory / CHECK).is_file() else REPRO


@dataclass(frozen=True)
class RunnableFiles:
    """Names of the files that run: texts, with `repro.py` first, and values; and the files that were left out."""

    texts: tuple[str, ...]
    values: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # each with the reason


def copy_runnable(directory: Path, target: Path) -> RunnableFiles:
    """Copy the files that run from the bundle in `directory` to the new directory `target`.

    Raises ReproKitError when Python would run something else than the text that a person sees in `repro.py`.
    """
    target.mkdir()
    texts: list[str] = []
    values: list[str] = []
    left_out: list[str] = []
    room = _MOST_VALUES
    for name in _names(directory):
        path = directory / name
        is_values = bool(_VALUES.fullmatch(name))
        fault = _fault(path, name, is_values=is_values)
        if is_values and not fault:
            room -= path.stat().st_size
            fault = f"exceeds the limit of {_MOST_VALUES >> 30} GiB for all values" if room < 0 else ""
        if not fault:
            (values if is_values else texts).append(name)
            _copy(path, target / name)
        elif name in (REPRO, CHECK):
            raise UsageError(f"{path} {fault}, so repro-kit does not run it.")
        elif not _READ.fullmatch(name):
            left_out.append(f"{name} {fault}")
    texts.sort(key=lambda name: (name != REPRO, name != CHECK, name))
    return RunnableFiles(tuple(texts), tuple(values), tuple(left_out))


def _names(directory: Path) -> Iterator[str]:
    """The names of all files and links below `directory`."""
    count = 0
    for folder, folders, files in os.walk(directory):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted((*files, *links)):
            count += 1
            if count > _MOST_FILES:
                raise UsageError(f"{directory} holds more than {_MOST_FILES} files, so it is not a bundle.")
            yield Path(folder, name).relative_to(directory).as_posix()


def _fault(path: Path, name: str, *, is_values: bool) -> str:
    """Why a file is not copied; "" if it is."""
    if path.is_symlink():
        return "is a link"
    if no_file(path):
        return f"is {no_file(path)}"
    if is_values:
        return ""
    if name not in (REPRO, CHECK) and not name.startswith(f"{PLACE}/"):
        return "is not a file of a bundle"
    return _unlike_its_text(path)


def _unlike_its_text(path: Path) -> str:
    """Why Python would run something else than the text that a person sees; "" if both are the same."""
    if path.stat().st_size > _LARGEST_TEXT:
        return f"is larger than {_LARGEST_TEXT >> 20} MiB"
    try:
        data = read_plain(path, _LARGEST_TEXT)
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "is not a text file"
    if "\0" in text:
        return "is not a text file"
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        return "names an encoding that does not exist"
    return "" if encoding in ("utf-8", "utf-8-sig") else f"is in the encoding {encoding}"


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_plain(source) as file, target.open("xb") as out:
        shutil.copyfileobj(file, out, _PIECE)


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
