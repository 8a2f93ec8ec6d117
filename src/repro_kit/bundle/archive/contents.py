"""The content of a bundle: every file with its role; each text is redacted when it is added."""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from repro_kit import __version__
from repro_kit.bundle.archive.archive import CHECKSUMS, checksums
from repro_kit.bundle.archive.manifest import (
    MANIFEST,
    REDACTIONS,
    SCHEMA,
    FileListed,
    Kept,
    Manifest,
    Redactions,
    Replaced,
    Tool,
)
from repro_kit.bundle.privacy.encodings_of_value import alternatives
from repro_kit.bundle.privacy.private_values import Part, is_harmless, parts_of
from repro_kit.bundle.privacy.redact import KeptValue, Redacted, Redactor
from repro_kit.bundle.privacy.redact_files import blank_payload_sums, learn_file, redact_file, redact_typed, texts_in
from repro_kit.serialize import dumps, from_data, to_data

_TOKEN = re.compile(r"REDACTED_[A-Z]+_\d+|<[a-z]+(?:-\d+)?>|&lt;[a-z]+(?:-\d+)?&gt;")
T = TypeVar("T")
_RUN = ("repro", "check", "source", "values")  # roles of the files that a check of the bundle executes or loads


@dataclass(frozen=True)
class Entry:
    """One file: its bytes as packed, its role, the replaced tokens, and how many bytes were cut out."""

    data: bytes
    role: str
    tokens: Counter[str] = field(default_factory=Counter)  # number of passages by token
    truncated: int = 0  # bytes cut out of the middle

    @property
    def redactions(self) -> int:
        """How many passages were replaced."""
        return self.tokens.total()


@dataclass(frozen=True)
class _Source:
    """How to make an entry; `make` makes it again with what the redactor knows by then."""

    name: str
    role: str
    make: Callable[[], Redacted]
    truncated: int


@dataclass
class Contents:
    """The files of a bundle in the making, by name."""

    redactor: Redactor
    every_word: bool = True  # whether values in the user's command may be shown
    entries: dict[str, Entry] = field(default_factory=dict)
    _sources: dict[str, _Source] = field(default_factory=dict)

    def add_text(self, name: str, text: str, role: str, *, truncated: int = 0) -> None:
        """Add a text, redacted according to its language."""
        text = blank_payload_sums(text) if role == "trace" else text
        learn_file(text, name, role, self.redactor)
        self._add(_Source(name, role, lambda: redact_file(text, name, role, self.redactor), truncated))

    def add_made(self, name: str, role: str, make: Callable[[], str]) -> None:
        """Add a text that `make` makes of redacted values.

        `make` is called again when the redactor has learned more.
        """
        self._add(_Source(name, role, lambda: Redacted(make()), 0))

    def shown_words(self, words: Iterable[str], *, code: bool = True) -> list[str]:
        """The arguments of a command, with tokens for private values; `code` shows programs among them."""
        return [part.shown + self._shown_value(part, code=code) for part in parts_of(words)]

    def _shown_value(self, part: Part, *, code: bool) -> str:
        is_open = (self.every_word and not part.secret) or (part.code and code)
        if not part.value or is_open or is_harmless(part, self.redactor.vocabulary):
            return part.value
        if self._is_in_sources(part.value) and not part.secret:
            return part.value
        return self.redactor.token_of(part.value, "argument")

    def _is_in_sources(self, value: str) -> bool:
        """Whether `value` is not private, and the code in the bundle compares with it."""
        if self.redactor.replaces(value):
            return False
        sources = [entry.data.decode("utf-8", "replace") for entry in self.entries.values() if entry.role == "source"]
        return any(f"'{value}'" in text or f'"{value}"' in text for text in sources)

    def learn(self, value: object) -> None:
        """Let the redactor learn the secrets in `value` (dataclasses, containers, strings)."""
        self.redactor.learn("\n".join(dict.fromkeys(texts_in(to_data(value)))))

    def redact(self, value: T) -> T:
        """`value` with every string redacted, except words of a fixed vocabulary."""
        return redact_typed(value, lambda text: self.redactor.redact(text).text)

    def _add(self, source: _Source) -> None:
        packed_name = self.redactor.file_name(source.name)
        self._sources[packed_name] = source
        self.entries[packed_name] = self._entry(source)

    def _entry(self, source: _Source) -> Entry:
        made = source.make()
        return Entry(made.text.encode("utf-8", "replace"), source.role, made.tokens, source.truncated)

    def add_values(self, name: str, path: Path) -> None:
        """Add a file of tensor values as it is."""
        self.entries[name] = Entry(path.read_bytes(), "values")

    def settle(self) -> bool:
        """Redact all texts again with everything learned so far; True if that changed what a check had run."""
        executed = self._executed()
        for before, source in list(self._sources.items()):
            packed_name = self.redactor.file_name(source.name)
            made = self._entry(source)
            del self.entries[before], self._sources[before]
            self.entries[packed_name], self._sources[packed_name] = made, source
        self.entries = {name: self._counted(entry) for name, entry in self.entries.items()}
        return self._executed() != executed

    def _counted(self, entry: Entry) -> Entry:
        """`entry` with the count of its tokens; some of its text may have been redacted before it was added."""
        if entry.role == "values":
            return entry
        counts = Counter(html.unescape(token) for token in _TOKEN.findall(entry.data.decode("utf-8", "replace")))
        ours = Counter({token: places for token, places in counts.items() if self.redactor.knows(token)})
        others = Counter({token: places for token, places in entry.tokens.items() if not _TOKEN.fullmatch(token)})
        return replace(entry, tokens=ours + others)

    def _executed(self) -> dict[str, bytes]:
        return {name: entry.data for name, entry in self.entries.items() if entry.role in _RUN}

    def seal(self, about: Mapping[str, Any]) -> dict[str, bytes]:
        """All files, with the redaction report, the manifest (including the fields `about`) and the checksums."""
        entries = {
            **self.entries,
            REDACTIONS: Entry(dumps(Redactions(self.replaced(), kept=self.kept())), "redactions"),
        }
        listed = tuple(_listed(name, entry) for name, entry in sorted(entries.items()))
        stated = {**about, "schema": SCHEMA, "tool": to_data(Tool("repro-kit", __version__)), "files": to_data(listed)}
        files = {name: entry.data for name, entry in entries.items()}
        files[MANIFEST] = dumps(from_data(stated, Manifest))
        return {**files, CHECKSUMS: checksums(files)}

    def replaced(self) -> tuple[Replaced, ...]:
        """The redaction report: each token, a description, and where it occurs; never the original."""
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

    def kept(self) -> tuple[Kept, ...]:
        """Counts of private values that stay in the texts. The values are not named: that would reveal them."""
        counts = Counter((value.kind, value.reason) for value in self.kept_values())
        return tuple(Kept(kind, reason, count) for (kind, reason), count in sorted(counts.items()))

    def kept_values(self) -> tuple[KeptValue, ...]:
        """The private values that stay, for the user's own terminal."""
        texts = "\n".join(entry.data.decode("utf-8", "replace") for entry in self.entries.values())
        return tuple(kept for kept in self.redactor.kept if alternatives([kept.value], whole=True).search(texts))

    def write(self, directory: Path) -> None:
        """Write the current files below `directory`."""
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
