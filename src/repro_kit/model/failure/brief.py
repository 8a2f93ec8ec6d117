"""Shorten failures for people to read: the output of a C++ compiler can be longer than the rest of a case."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.model.failure.failure import ExceptionLink, Failure, Verdict
from repro_kit.model.failure.frames import torch_path

_HEAD, _TAIL = 4000, 1000  # characters
_FRAMES = 30


def brief(verdict: Verdict) -> Verdict:
    """`verdict` with a shortened failure: the middle of long texts and torch's outer frames of long stacks go."""
    return replace(verdict, failure=brief_failure(verdict.failure)) if verdict.failure else verdict


def brief_failure(failure: Failure) -> Failure:
    """`failure`, shortened in the same way. Compute the signature first: it needs the whole texts."""
    return replace(
        failure,
        exceptions=tuple(map(_brief_link, failure.exceptions)),
        text=shortened(failure.text),
        stack=failure.stack[-_FRAMES:],
    )


def _brief_link(link: ExceptionLink) -> ExceptionLink:
    outer, inner = link.frames[:-_FRAMES], link.frames[-_FRAMES:]
    users = [frame for frame in outer if torch_path(frame.file) is None]
    return replace(link, message=shortened(link.message), frames=(*users[-_FRAMES:], *inner))


def shortened(text: str, head: int = _HEAD, tail: int = _TAIL) -> str:
    """`text` without its middle. A note in its place gives the number of characters left out."""
    if len(text) <= head + tail:
        return text
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:]}"
