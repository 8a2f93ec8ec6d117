"""Find secrets in text: detect-secrets' detectors, and what they do not look for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.filters.heuristic import is_potential_uuid, is_sequential_string

#: Version numbers of four parts look like public addresses; credentials in URLs are looked for below.
_LEFT_OUT = {"IPPublicDetector", "BasicAuthDetector"}
#: Shorter strings of hex digits are colours, sizes and hashes of kernels.
_SHORTEST_ENTROPIC = 16

#: What a detector gives back below this length is the prefix that it looks for.
_SHORTEST_PLAIN = 8

_FURTHER = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']*:(?P<secret>[^\s/@\"']+)@"),
    re.compile(r"\b[a-z][a-z0-9+.-]*://(?P<secret>[^\s/:@\"']{16,})@"),
    re.compile(r"\b(?:Bearer|Basic)\s+(?P<secret>[A-Za-z0-9._~+/-]{12,}=*)"),
    re.compile(r"\b(?P<secret>hf_[A-Za-z0-9]{20,})\b"),
    re.compile(
        r"\b[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|CREDENTIALS)(?:_[A-Z0-9_]+)?['\"]?\s*[=:]\s*['\"]?"
        r"(?P<secret>[^\s'\",;]{6,})"
    ),
    re.compile(
        r"\b\w*(?:token|secret|passwd|password|api_?key|credential)\w*['\"]?\s*[=:]\s*"
        r"['\"](?P<secret>(?=[^'\"]*\d)[^'\"\s]{16,})['\"]",
        re.IGNORECASE,
    ),
    re.compile(r"--(?:[\w-]+-)?(?:token|secret|password|passwd|api-key)[= ](?P<secret>[^\s'\"]{6,})", re.IGNORECASE),
    re.compile(r"[?&](?:access_token|token|key|api_key|sig|signature)=(?P<secret>[^\s&'\"]{8,})", re.IGNORECASE),
)
_TOKEN = re.compile(r"redacted-secret-\d|^<[\w-]+>$")


def secrets_in(text: str, name: str = "text.txt") -> Iterator[str]:
    """Every secret of `text`; `name` tells the detectors what language it is in."""
    for pattern in _FURTHER:
        for found in pattern.finditer(text):
            secret = found["secret"] if "secret" in pattern.groupindex else found[0]
            if not _TOKEN.search(secret):
                yield secret
    for line in text.splitlines():
        if len(line) >= 8:
            yield from _in_line(line, name)


def _in_line(line: str, name: str) -> Iterator[str]:
    for detector in _detectors():
        for hit in detector.analyze_line(filename=name, line=line):
            value = _whole(detector, hit.secret_value or "", line)
            if value and not _TOKEN.search(value) and not _is_harmless(hit.type, value):
                yield value


def _whole(detector: Any, value: str, line: str) -> str:
    """The whole secret where a detector's first group is only its prefix (``ghp``)."""
    if len(value) >= _SHORTEST_PLAIN:
        return value
    matches = (found for pattern in getattr(detector, "denylist", ()) for found in pattern.finditer(line))
    return max((found[0] for found in matches if value in found[0]), key=len, default=value)


def _is_harmless(kind: str, value: str) -> bool:
    """Whether a hit of the detectors that only measure randomness is no secret."""
    if "Entropy" not in kind:
        return False
    return len(value) < _SHORTEST_ENTROPIC or is_sequential_string(value) or is_potential_uuid(value)


@cache
def _detectors() -> tuple[Any, ...]:
    classes: Iterable[Any] = get_mapping_from_secret_type_to_class().values()
    return tuple(it() for it in sorted(classes, key=lambda it: it.__name__) if it.__name__ not in _LEFT_OUT)
