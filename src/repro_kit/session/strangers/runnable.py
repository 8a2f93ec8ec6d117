"""The files of a bundle that run (`repro.py`, `check.py`, sources, values), copied to a separate directory."""

from __future__ import annotations

import io
import os
import re
import shutil
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from repro_kit.bundle.repro.source_files import PLACE
from repro_kit.errors import UsageError
from repro_kit.plain_file import no_file, open_plain, read_plain

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
