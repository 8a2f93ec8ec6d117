"""The devices that the file of an exported program names, and a copy of the file with the CPU in their place.

`torch.export.passes.move_to_device_pass` moves a program that is loaded already, and torch cannot load the weights of a
device that is not there. So the archive is changed: its JSON (graph, weights, constants) and the pickles of
`torch.save` in it, which are not executed. Source of the formats: torch/_export/serde/schema.py.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickletools
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from repro_kit.builds.interpreters import find_python
from repro_kit.errors import UsageError
from repro_kit.files import replacing
from repro_kit.program.devices import device_type
from repro_kit.session.script.interpreter_environment import environment

_ARCHIVE = b"PK\3\4"  # what `torch.save` writes is an archive in the archive
_STRINGS = ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE")
_DIGITS = 12  # of the name of a program that was moved
_CPU = b"X\3\0\0\0cpu"  # the string "cpu" in a pickle


def devices_in_file(path: Path) -> frozenset[str]:
    """The types of the accelerators that the exported program in `path` names: ``cuda``, ``xpu`` …

    Raises UsageError when the file is damaged.
    """
    found: set[str] = set()

    def look(device: str) -> bool:
        found.add(device)
        return False

    with _readable(path):
        for _ in _records(path, look):
            pass
    return frozenset(found)


def lacking_here(path: Path, python: str | None) -> tuple[str, ...]:
    """The devices that the exported program in `path` names, and this machine lacks."""
    named = devices_in_file(path)
    if not named:
        return ()
    here = environment(find_python(python, Path.cwd(), os.environ))
    return tuple(sorted(named - {here.accelerator}))


def path_on_cpu(source: Path, directory: Path) -> Path:
    """Where the program of `source` lies in the case `directory` when it was moved. Another program: another name."""
    return directory / f"exported_on_cpu_{digest_of(source)[:_DIGITS]}.pt2"


def digest_of(path: Path) -> str:
    """The SHA-256 of the file at `path`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_on_cpu(source: Path, target: Path, devices: Collection[str]) -> None:
    """Write the exported program in `source` to `target`, with every device of one of the types `devices` the CPU."""
    with _readable(source), replacing(target) as file:
        _write(_records(source, devices.__contains__), file)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, ValueError, RecursionError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise UsageError(f"{path} is damaged ({error}); save the program again.") from error


def _records(source: Path | IO[bytes], moves: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """The files in the archive, each with its name; devices of the types that `moves` accepts become the CPU."""
    with zipfile.ZipFile(source) as archive:
        for record in archive.infolist():
            yield record.filename, _record(record.filename, archive.read(record), moves)


def _write(records: Iterable[tuple[str, bytes]], target: IO[bytes]) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in records:
            archive.writestr(name, data)


def _record(name: str, data: bytes, moves: Callable[[str], bool]) -> bytes:
    if data.startswith(_ARCHIVE):
        inner = io.BytesIO()
        _write(_records(io.BytesIO(data), moves), inner)
        return inner.getvalue()
    if name.endswith(".json") and data.startswith(b"{"):
        return json.dumps(json.loads(data, object_hook=lambda fields: _fields(fields, moves))).encode()
    return _pickle(data, moves) if name.endswith("/data.pkl") else data


def _fields(fields: dict[str, Any], moves: Callable[[str], bool]) -> dict[str, Any]:
    """A JSON object: a device, a string that may name one (of autocast), or anything else."""
    if fields.keys() == {"type", "index"} and _is_moved(fields["type"], moves):
        return {"type": "cpu", "index": None}
    if fields.keys() == {"as_string"} and _is_moved(fields["as_string"], moves):
        return {"as_string": "cpu"}
    return fields


def _pickle(data: bytes, moves: Callable[[str], bool]) -> bytes:
    """The pickle `data`, with other strings in it. Frames, which hold a length, are left out: they may be."""
    steps = list(pickletools.genops(data))
    ends = [at for _, _, at in steps[1:]] + [len(data)]
    parts = []
    for (step, value, at), end in zip(steps, ends, strict=True):
        if step.name in _STRINGS and _is_moved(value, moves):
            parts.append(_CPU)
        elif step.name != "FRAME":
            parts.append(data[at:end])
    return b"".join(parts)


def _is_moved(name: Any, moves: Callable[[str], bool]) -> bool:
    device = device_type(name) if isinstance(name, str) else ""
    return bool(device) and moves(device)
