"""What goes into a bundle: every file with its role, each text redacted on its way in."""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from repro_kit import __version__
from repro_kit.bundle.archive import CHECKSUMS, checksums
from repro_kit.bundle.manifest import (
    MANIFEST,
    REDACTIONS,
    SCHEMA,
    FileListed,
    Manifest,
    Redactions,
    Replaced,
    Tool,
)
from repro_kit.bundle.redact import Redactor
from repro_kit.bundle.trace_text import blank_payload_sums, recompute_payload_sums
from repro_kit.model.serialize import dumps, from_data, to_data

_TOKEN = re.compile(r"REDACTED_[A-Z]+_\d+|<[a-z]+(?:-\d+)?>|&lt;[a-z]+(?:-\d+)?&gt;")
_RUN = ("repro", "source", "values")  # roles of what a check of the bundle executes or loads


@dataclass(frozen=True)
class Entry:
    """One file: its bytes as packed, what it is for, what was replaced in it, and how much was cut out."""

    data: bytes
    role: str
    tokens: Counter[str] = field(default_factory=Counter)  # places by token
    truncated: int = 0  # bytes cut out of the middle

    @property
    def redactions(self) -> int:
        """How many places were redacted."""
        return self.tokens.total()


@dataclass(frozen=True)
class _Source:
    """The text that an entry was made of."""

    text: str
    name: str
    role: str
    verbatim: Mapping[str, str]
    truncated: int


@dataclass
class Contents:
    """The files by name, in the making."""

    redactor: Redactor
    entries: dict[str, Entry] = field(default_factory=dict)
    _sources: dict[str, _Source] = field(default_factory=dict)

    def add_text(
        self, name: str, text: str, role: str, verbatim: Mapping[str, str] | None = None, *, truncated: int = 0
    ) -> None:
        """Add a text, redacted; then put the `verbatim` texts, redacted before, in the places of their marks."""
        text = blank_payload_sums(text) if role == "trace" else text
        source = _Source(text, name, role, verbatim or {}, truncated)
        self.redactor.learn(text, name)
        place = self.redactor.file_name(name)
        self._sources[place] = source
        self.entries[place] = self._entry(source)

    def _entry(self, source: _Source) -> Entry:
        redacted = self.redactor.redact(source.text, source.name)
        shown = recompute_payload_sums(redacted.text) if source.role == "trace" else redacted.text
        for mark, finished in source.verbatim.items():
            shown = shown.replace(mark, finished)
        return Entry(shown.encode("utf-8", "replace"), source.role, redacted.tokens, source.truncated)

    def add_values(self, name: str, path: Path) -> None:
        """Add a file of tensor values as it is."""
        self.entries[name] = Entry(path.read_bytes(), "values")

    def settle(self) -> bool:
        """Redact all texts by what was learned of any of them; whether that changed what a check had run."""
        executed = self._executed()
        for before, source in list(self._sources.items()):
            del self.entries[before], self._sources[before]
            place = self.redactor.file_name(source.name)
            self.entries[place], self._sources[place] = self._entry(source), source
        self.entries = {name: self._counted(entry) for name, entry in self.entries.items()}
        return self._executed() != executed

    def _counted(self, entry: Entry) -> Entry:
        """`entry` with the tokens that stand in it: some of its text may have been redacted before it was added."""
        if entry.role == "values":
            return entry
        found = Counter(html.unescape(it) for it in _TOKEN.findall(entry.data.decode("utf-8", "replace")))
        known = Counter({token: places for token, places in found.items() if self.redactor.knows(token)})
        others = Counter({token: places for token, places in entry.tokens.items() if not _TOKEN.fullmatch(token)})
        return replace(entry, tokens=known + others)

    def _executed(self) -> dict[str, bytes]:
        return {name: entry.data for name, entry in self.entries.items() if entry.role in _RUN}

    def seal(self, about: Mapping[str, Any]) -> dict[str, bytes]:
        """All files with the redaction report, the manifest (which says `about` the bundle) and the checksums."""
        entries = {**self.entries, REDACTIONS: Entry(dumps(Redactions(self.replaced())), "redactions")}
        listed = tuple(_listed(name, entry) for name, entry in sorted(entries.items()))
        stated = {**about, "schema": SCHEMA, "tool": to_data(Tool("repro-kit", __version__)), "files": to_data(listed)}
        files = {name: entry.data for name, entry in entries.items()}
        files[MANIFEST] = dumps(from_data(stated, Manifest))
        return {**files, CHECKSUMS: checksums(files)}

    def replaced(self) -> tuple[Replaced, ...]:
        """The redaction report: each token, what it stands for in words, and where it stands; no original."""
        tokens = sorted({token for entry in self.entries.values() for token in entry.tokens})
        return tuple(
            Replaced(
                token,
                self.redactor.what(token),
                sum(entry.tokens[token] for entry in self.entries.values()),
                tuple(sorted(name for name, entry in self.entries.items() if entry.tokens[token])),
            )
            for token in tokens
        )

    def write(self, directory: Path) -> None:
        """Write the files so far below `directory`."""
        write_files({name: entry.data for name, entry in self.entries.items()}, directory)


def _listed(name: str, entry: Entry) -> FileListed:
    digest = hashlib.sha256(entry.data).hexdigest()
    return FileListed(name, digest, len(entry.data), entry.role, entry.redactions, entry.truncated)


def write_files(files: Mapping[str, bytes], directory: Path) -> None:
    """Write `files` below `directory`."""
    for name, data in files.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
