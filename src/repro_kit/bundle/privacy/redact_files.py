"""Redact a file by its format: JSON by value, a trace by record, Python by token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from repro_kit.bundle.privacy.redact import Redacted, Redactor
from repro_kit.bundle.privacy.redact_data import json_redacted, parsed, texts_in
from repro_kit.bundle.privacy.trace_text import recompute_payload_sums, records_of

_JSON = {".json", ".ipynb"}
_JSON_LINES = {".jsonl", ".ndjson"}


def learn_file(text: str, name: str, role: str, redactor: Redactor) -> None:
    """Let `redactor` learn the secrets in a file."""
    if role == "trace":
        redactor.learn("\n".join(dict.fromkeys(_texts_of_trace(text))))
        return
    data = [parsed(piece) for piece in _pieces(text, name)]
    if data and None not in data:
        redactor.learn("\n".join(dict.fromkeys(texts_in(data))))
    else:
        redactor.learn(text, name)


def redact_file(text: str, name: str, role: str, redactor: Redactor) -> Redacted:
    """The redacted text of a file."""
    if role == "trace":
        return _trace(text, redactor)
    pieces = [json_redacted(piece, redactor) for piece in _pieces(text, name)]
    whole = [piece for piece in pieces if piece is not None]
    if not whole or len(whole) < len(pieces):
        return redactor.redact(text, name)
    return _joined(whole)


def _pieces(text: str, name: str) -> list[str]:
    """The JSON documents in a file, by its name."""
    suffix = PurePath(name).suffix
    if suffix in _JSON_LINES:
        return [line for line in text.splitlines(keepends=True) if line.strip()]
    return [text] if suffix in _JSON else []


def _joined(pieces: list[Redacted]) -> Redacted:
    tokens: Counter[str] = Counter()
    for piece in pieces:
        tokens.update(piece.tokens)
    return Redacted("".join(piece.text for piece in pieces), tokens)


def _texts_of_trace(text: str) -> Iterator[str]:
    for record in records_of(text):
        for piece in (record.data, record.payload_text):
            data = parsed(piece)
            yield from [piece] if data is None else texts_in(data)
        yield record.head


def _trace(text: str, redactor: Redactor) -> Redacted:
    """A TORCH_TRACE file, redacted record by record; the checksums of payloads are recomputed."""
    tokens: Counter[str] = Counter()
    lines: list[str] = []
    for record in records_of(text):
        head = redactor.redact(record.head)
        data = json_redacted(record.data, redactor) or redactor.redact(record.data)
        payload = json_redacted(record.payload_text, redactor) or redactor.redact(record.payload_text)
        for piece in (head, data, payload):
            tokens.update(piece.tokens)
        lines.append(head.text + data.text)
        if record.payload:
            lines += ["\t" + line for line in payload.text.split("\n")]
    return Redacted(recompute_payload_sums("\n".join(lines)), tokens)
