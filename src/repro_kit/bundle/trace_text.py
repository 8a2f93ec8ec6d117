"""Keep a structured trace consistent when its text is changed: payloads carry a checksum."""

from __future__ import annotations

import hashlib
import re

_RECORD = re.compile(r"^[VDIWEC]\d{4} \S+ \d+ \S+\] \{")
_SUM = re.compile(r'("has_payload": ?")[0-9a-f]*(")')


def blank_payload_sums(text: str) -> str:
    """`text` of a TORCH_TRACE file with every ``has_payload`` empty: a checksum looks like a secret."""
    return "\n".join(
        _SUM.sub(r"\g<1>\g<2>", line, count=1) if _RECORD.match(line) else line for line in text.split("\n")
    )


def recompute_payload_sums(text: str) -> str:
    """`text` of a TORCH_TRACE file with every ``has_payload`` set to the md5 of the payload that follows.

    A payload is the lines after its record, each behind one tab (torch/_logging/_internal.py, `trace_structured`).
    """
    lines = text.split("\n")
    head: int | None = None
    payload: list[str] = []
    for at, line in enumerate([*lines, ""]):
        if line.startswith("\t"):
            payload.append(line[1:])
            continue
        if head is not None:
            lines[head] = _with_sum(lines[head], payload)
        head, payload = (at, []) if _RECORD.match(line) else (None, [])
    return "\n".join(lines)


def _with_sum(record: str, payload: list[str]) -> str:
    digest = hashlib.md5("\n".join(payload).encode(), usedforsecurity=False).hexdigest()
    return _SUM.sub(rf"\g<1>{digest}\g<2>", record, count=1)
