"""What of an environment and a command line is private by where it stands, whatever it looks like."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from repro_kit.bundle.randomness import is_random, random_segments
from repro_kit.bundle.secret_scan import Secret
from repro_kit.model.variables import is_allowed, is_secret, is_systems

_SHORTEST_VALUE = 6
_SHORTEST_ARGUMENT = 16
_TRIVIAL = {"true", "false", "none", "null", "yes", "enabled", "disabled", "auto", "default"}
_PATHS = re.compile(r"~?/[^:]*(:~?/[^:]*)*:?|[A-Za-z]:\\.*")
#: A word that may stand in any text, a number, a version, an architecture.
_PLAIN = re.compile(
    r"[a-z]{1,11}|[A-Za-z]{1,7}|v?\d+([.:,+-]\w*)*|(x86_64|aarch64|arm64|linux|darwin)[\w.-]*", re.IGNORECASE
)


def secret_variables(env: Mapping[str, str]) -> Iterator[Secret]:
    """Values of variables that are secret by their names, or random."""
    for name, value in sorted(env.items()):
        if (
            is_allowed(name)
            or value.lower() in _TRIVIAL
            or _PATHS.fullmatch(value)
            or (value.isdigit() and len(value) < 6)
        ):
            continue
        if is_secret(name) or (is_random(value) and not is_systems(name) and not _PLAIN.fullmatch(value)):
            yield Secret(value, "environment variable")


def other_variables(env: Mapping[str, str], harmless: Collection[str]) -> Iterator[Secret]:
    """Values of the variables that a report does not show; not those that any text may hold, or that are `harmless`."""
    for name, value in sorted(env.items()):
        if is_allowed(name) or is_systems(name) or len(value) < _SHORTEST_VALUE or value in harmless:
            continue
        if not (value.lower() in _TRIVIAL or _PLAIN.fullmatch(value) or _PATHS.fullmatch(value)):
            yield Secret(value, "environment variable")


def secret_arguments(words: Sequence[str]) -> Iterator[Secret]:
    """Values of options that are secret by their names, and random words."""
    before = ""
    for word in words:
        option, mark, joined = word.partition("=")
        name, value = (option, joined) if mark else (before, word)
        told = name.startswith("-") and is_secret(name.lstrip("-").replace("-", "_"))
        if not value.startswith("-") and (told or _is_random_argument(value)):
            yield Secret(value, "argument")
        before = word if word.startswith("-") else ""


def _is_random_argument(value: str) -> bool:
    return bool(random_segments(value)) or (len(value) >= _SHORTEST_ARGUMENT and is_random(value) and "/" not in value)
