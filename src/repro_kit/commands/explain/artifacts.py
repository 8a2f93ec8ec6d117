"""Write the artifacts of a trace as files, by kind and compile id, and the phases for Perfetto."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from repro_kit.errors import UsageError
from repro_kit.trace import read
from repro_kit.trace.extraction import extracted, listed
from repro_kit.trace.perfetto import chrome_trace

_HEAD = 3  # pieces of a Chrome trace with at least one event: head, event, tail


@dataclass(frozen=True)
class ArtifactKind:
    """The artifacts of one kind."""

    kind: str
    count: int
    size: int
    compiles: tuple[str, ...]


@dataclass(frozen=True)
class Written:
    """An artifact that was written. `note` says what was repaired in it, or what is wrong with it."""

    path: str
    compile_id: str
    note: str = ""


def kinds_in(trace: Path) -> tuple[ArtifactKind, ...]:
    """The kinds of artifacts in `trace`, in the order of their first occurrence."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    compiles: dict[str, dict[str, None]] = {}
    for info in listed(read(trace)):
        counts[info.kind] += 1
        sizes[info.kind] += info.size
        seen = compiles.setdefault(info.kind, {})
        if info.compile is not None:
            seen.setdefault(str(info.compile))
    return tuple(ArtifactKind(kind, counts[kind], sizes[kind], tuple(compiles[kind])) for kind in compiles)


def write_artifacts(
    trace: Path, kinds: Collection[str], compile_ids: Collection[str], directory: Path
) -> tuple[Written, ...]:
    """Write the artifacts of these kinds and compiles below `directory`.

    Raises ReproKitError if there are none, or a file cannot be written.
    """
    written = []
    for artifact in extracted(read(trace), kinds, compile_ids):
        path = directory / artifact.info.path
        _write(path, [artifact.text.encode("utf-8", "replace")])
        written.append(Written(str(path), str(artifact.info.compile or ""), artifact.note))
    if not written:
        wanted = (" or ".join(kinds) or "artifact") + (f" of {', '.join(compile_ids)}" if compile_ids else "")
        raise UsageError(f"The trace {trace} holds no {wanted}; --list shows what it holds.")
    return tuple(written)


def write_perfetto(trace: Path, file: Path) -> None:
    """Write the phases of all compiles for ui.perfetto.dev.

    Raises ReproKitError if there are none, or the file cannot be written.
    """
    pieces = chrome_trace(read(trace))
    start = [*islice(pieces, _HEAD)]
    if len(start) < _HEAD:
        raise UsageError(f"The trace {trace} records no phases, so there is nothing to show in Perfetto.")
    _write(file, chain(start, pieces))


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(pieces)
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror}.") from error
