"""Failures at a length that people read: a C++ compiler can say more than the rest of a case together."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.model.failure.failure import ExceptionLink, Failure, Verdict

_HEAD, _TAIL = 4000, 1000  # characters
_FRAMES = 30


def brief(verdict: Verdict) -> Verdict:
    """`verdict` with the middle of long texts left out, and of long stacks the outer frames."""
    return replace(verdict, failure=brief_failure(verdict.failure)) if verdict.failure else verdict


def brief_failure(failure: Failure) -> Failure:
    """`failure` likewise; compute its signature first."""
    return replace(
        failure,
        exceptions=tuple(map(_brief_link, failure.exceptions)),
        text=shortened(failure.text),
        stack=failure.stack[-_FRAMES:],
    )


def _brief_link(link: ExceptionLink) -> ExceptionLink:
    return replace(link, message=shortened(link.message), frames=link.frames[-_FRAMES:])


def shortened(text: str, head: int = _HEAD, tail: int = _TAIL) -> str:
    """`text` with its middle left out, which is said in its place."""
    if len(text) <= head + tail:
        return text
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:]}"
