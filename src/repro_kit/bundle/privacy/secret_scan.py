"""Find secrets in text: by the detectors of detect-secrets, and by patterns of our own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.filters.heuristic import is_potential_uuid, is_sequential_string

from repro_kit.bundle.privacy.addresses import addresses_in
from repro_kit.bundle.privacy.entropy import hex_keys, is_cache_key, is_compilers, is_random, random_segments
from repro_kit.bundle.privacy.token_forms import tokens_in
from repro_kit.model.variables import is_allowed


@dataclass(frozen=True)
class Secret:
    """A value that must not be shown, and its kind."""

    value: str
    kind: str


#: Version numbers of four parts look like public addresses; credentials in URLs have their own patterns below.
#: For hex strings, only the text before them says whether they are checksums: `hex_keys` decides.
_LEFT_OUT = {"IPPublicDetector", "BasicAuthDetector", "HexHighEntropyString"}
#: Shorter strings of hex digits are colours, sizes and hashes of kernels.
_SHORTEST_ENTROPIC = 16
#: A shorter result of a detector is only the prefix that it searches for.
_SHORTEST_PLAIN = 8
#: An identifier of several words, a dotted name, a version.
_WORDY = re.compile(r"[A-Za-z]+(?:[_.-]+[A-Za-z]+)+[\\]*|[A-Z_]+|v?\d+(?:\.\d+)+[\w.+]*|[A-Za-z]+\\+")

_STRONG = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|credentials?|otp|pin[_ -]?code|(?:api|access|auth|private|secret|"
    r"account|license|encryption|signing|session|master|ssh)[_ -]?(?:key|token|secret|id)|"
    r"(?:bearer|refresh|id)[_ -]token|cookie)"
)
#: (kind, pattern); the secret is the group of that name, else the whole match.
_FURTHER = (
    ("password in a URL", r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"'<]*:(?P<secret>[^\s/@\"'<]+)@"),
    ("login in a URL", r"\b[a-z][a-z0-9+.-]*://(?P<secret>[^\s/:@\"'<]{4,})(?=(?::[^\s/@\"']*)?@)(?<!//git)(?<!//ssh)"),
    ("authorization header", r"\b(?:Bearer|Basic|Token)\s+(?P<secret>(?=\S*\d)[A-Za-z0-9._~+/-]{12,}=*)"),
    (
        "environment variable",
        r"\b[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?|COOKIE|_DSN|_AUTH)"
        r"(?:_[A-Z0-9_]+)?['\"]?\]?\s*[=:]\s*['\"]?(?P<secret>[^\s'\",;]{6,})",
    ),
    (
        "keyword",
        r"(?i)\b\w*(?:token|secret|passwd|password|api_?key|credential)\w*['\"]?\s*[=:]\s*"
        r"['\"](?P<secret>(?=[^'\"]*\d)[^'\"\s]{16,})['\"]",
    ),
    (
        "keyword",
        rf"(?i)(?<![a-z]){_STRONG}['\"]?\s*(?:==?(?!=)>?|:|\bis\b)\s*(?P<quote>['\"])(?P<secret>[^'\"\n]{{6,120}})(?P=quote)",
    ),
    (
        "keyword",
        rf"(?i)(?<![a-z]){_STRONG}['\"]?\s*(?:==?(?!=)>?|:|\bis\b)\s*['\"]?"
        r"(?P<secret>(?=[^\s'\",;()\[\]{}]*\d)(?![\d.]+\b)[^\s'\",;()\[\]{}<>]{6,})",
    ),
    (
        "argument",
        rf"(?i)--?(?:[\w-]+-)?(?:{_STRONG}|token|key|login|user)(?:==?(?!=)| )(?P<secret>(?=\S*\d)[^\s'\"]{{6,}})",
    ),
    ("argument", r"(?i)--(?:[\w-]+-)?(?:token|secret|password|passwd|api-key)(?:==?(?!=)| )(?P<secret>[^\s'\"]{6,})"),
    (
        "parameter of a URL",
        r"(?i)[?&][\w-]*(?:token|key|sig|signature|credential|auth|pass|secret|code|sas)[\w-]*=(?P<secret>[^\s&'\"]{8,})",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _FURTHER)
_PUBLIC = re.compile(r"https://docs\.google\.com/\S+")  # torch's messages point there
_ASSIGNED = re.compile(r"os\.environ\[['\"](?P<name>\w+)['\"]\]\s*=\s*(?P<quote>['\"])(?P<secret>.+?)(?P=quote)")
_NEAR = re.compile(
    rf"(?i)(?<![a-z])(?:{_STRONG}|token|key|auth\w*|login|licen[cs]e|salt|webhook|nonce)\b\W{{0,3}}(?:\w+\W{{1,3}}){{0,2}}?"
    r"(?P<secret>[A-Za-z0-9][A-Za-z0-9_+/=.-]{7,}[A-Za-z0-9=])"
)
_TOKEN = re.compile(r"REDACTED_[A-Z]+_\d|^<[\w-]+>$")
_CODE = re.compile(r"[\w.]*[(\[].*|(?:self|torch|os|args|cfg|config)\..*|None|True|False|\$\{?\w+\}?|%\(?\w+.*")


def secrets_in(text: str, name: str = "text.txt") -> Iterator[Secret]:
    """Every secret in `text`; `name` tells the detectors its language."""
    for kind, value in (*tokens_in(text), *hex_keys(text), *addresses_in(text, name)):
        if not _TOKEN.search(value):
            yield Secret(value, kind)
    for hit in _found_in(text, name):
        value = hit.value
        if value and not _TOKEN.search(value) and not (_CODE.fullmatch(value) or _is_harmless(hit)):
            yield hit


def _found_in(text: str, name: str) -> Iterator[Secret]:
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            yield Secret(match["secret"] if "secret" in pattern.groupindex else match[0], kind)
    for match in _ASSIGNED.finditer(text):
        if not is_allowed(match["name"]) and len(match["secret"]) >= 6:
            yield Secret(match["secret"], "environment variable")
    for match in _NEAR.finditer(text):
        if is_random(match["secret"]) and not is_cache_key(match["secret"]):
            yield Secret(match["secret"], "random, next to a word for secrets")
    for value in random_segments(_PUBLIC.sub("", text)):
        yield Secret(value, "random")
    for line in text.splitlines():
        if len(line) >= 8:
            yield from _in_line(line, name)


def _in_line(line: str, name: str) -> Iterator[Secret]:
    for detector in _detectors():
        for hit in detector.analyze_line(filename=name, line=line):
            yield Secret(_whole(detector, hit.secret_value or "", line), hit.type)


def _whole(detector: Any, value: str, line: str) -> str:
    """The whole secret, if a detector returned only its prefix (``ghp``)."""
    if len(value) >= _SHORTEST_PLAIN:
        return value
    matches = (match for pattern in getattr(detector, "denylist", ()) for match in pattern.finditer(line))
    return max((match_[0] for match_ in matches if value in match_[0]), key=len, default=value)


def _is_harmless(hit: Secret) -> bool:
    """Whether a hit that rests only on randomness, or only on the word before it, is not a secret."""
    value, kind = hit.value, hit.kind
    measured = "Entropy" in kind
    if (measured or kind == "environment variable" or kind.lower().endswith("keyword")) and _WORDY.fullmatch(value):
        return True
    if value.isdigit() or value.lower().startswith("0x"):
        return True
    if measured and is_compilers(value):
        return True
    return measured and (len(value) < _SHORTEST_ENTROPIC or is_sequential_string(value) or is_potential_uuid(value))


@cache
def _detectors() -> tuple[Any, ...]:
    classes: Iterable[Any] = get_mapping_from_secret_type_to_class().values()
    return tuple(
        detector() for detector in sorted(classes, key=lambda cls: cls.__name__) if detector.__name__ not in _LEFT_OUT
    )
