"""Take what is private out of texts, always the same way: the same value becomes the same token in every file."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from repro_kit.bundle.secret_scan import secrets_in

#: Names that many machines share say nothing, and stand in texts with other meanings.
_COMMON = frozenset(
    {"root", "user", "admin", "administrator", "guest", "test", "tester", "ubuntu", "debian", "fedora", "centos"}
    | {"runner", "build", "builder", "docker", "vagrant", "nobody", "home", "work", "main", "python", "torch", "linux"}
    | {"local", "localhost", "host", "server", "developer", "jovyan"}
)
_SHORTEST_NAME = 4
_SHARED_PREFIXES = ("/", "/usr", "/usr/local", "/opt", "/tmp", "/var", "/home", "/Users", "/root/.", "C:\\")


@dataclass(frozen=True)
class Redacted:
    """A text without what is private, and how many places of it were replaced."""

    text: str
    count: int = 0


class Redactor:
    """Replaces paths, names and secrets by tokens.

    `paths` and `names` are (value, token) pairs. `allowed` are values that look like secrets and are not (commits).
    Call `learn` with every text first: a secret known from one file is then replaced in all of them.
    """

    def __init__(
        self,
        paths: Iterable[tuple[str, str]] = (),
        names: Iterable[tuple[str, str]] = (),
        allowed: Collection[str] = (),
    ) -> None:
        self._paths = _path_patterns(paths)
        self._names = [
            (re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"), token)
            for name, token in names
            if len(name) >= _SHORTEST_NAME and name.lower() not in _COMMON
        ]
        self._allowed = set(allowed)
        self._secrets: dict[str, str] = {}

    def learn(self, text: str, name: str = "text.txt") -> None:
        """Remember the secrets of `text`; file name `name` tells its language."""
        for secret in secrets_in(text, name):
            if secret not in self._allowed and secret not in self._secrets:
                self._secrets[secret] = f"<redacted-secret-{len(self._secrets) + 1}>"

    def redact(self, text: str, name: str = "text.txt") -> Redacted:
        """`text` without what is private. In Python files names are replaced in strings and comments only."""
        count = 0
        for secret in sorted(self._secrets, key=len, reverse=True):
            if secret in text:
                count += text.count(secret)
                text = text.replace(secret, self._secrets[secret])
        for pattern, token in self._paths:
            text, done = pattern.subn(token, text)
            count += done
        if self._names and any(pattern.search(text) for pattern, _ in self._names):
            text, done = self._without_names(text, name)
            count += done
        return Redacted(text, count)

    def __call__(self, text: str) -> str:
        """Learn from `text`, and return it without what is private."""
        self.learn(text)
        return self.redact(text).text

    def _without_names(self, text: str, name: str) -> tuple[str, int]:
        if not name.endswith(".py"):
            return self._substitute(text)
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (tokenize.TokenError, SyntaxError):
            return self._substitute(text)
        count = 0
        lines = text.splitlines(keepends=True)
        for token in reversed(tokens):
            if token.type in _PROSE:
                replaced, done = self._substitute(token.string)
                count += done
                if done:
                    _splice(lines, token, replaced)
        return "".join(lines), count

    def _substitute(self, text: str) -> tuple[str, int]:
        count = 0
        for pattern, token in self._names:
            text, done = pattern.subn(token, text)
            count += done
        return text, count


_PROSE = {tokenize.STRING, tokenize.COMMENT} | (
    {tokenize.FSTRING_MIDDLE} if hasattr(tokenize, "FSTRING_MIDDLE") else set()
)


def _splice(lines: list[str], token: tokenize.TokenInfo, replaced: str) -> None:
    """Put `replaced` where `token` stands in `lines`."""
    (first, start), (last, end) = token.start, token.end
    head, tail = lines[first - 1][:start], lines[last - 1][end:]
    lines[first - 1 : last] = [head + replaced + tail, *[""] * (last - first)]


def _path_patterns(paths: Iterable[tuple[str, str]]) -> Sequence[tuple[re.Pattern[str], str]]:
    """Patterns for directories, the deepest first; each also in the spelling of JSON and of Python's repr."""
    known: dict[str, str] = {}
    for path, token in paths:
        plain = path.rstrip("/\\")
        if plain and plain not in _SHARED_PREFIXES:
            known.setdefault(plain, token)
            known.setdefault(plain.replace("\\", "\\\\"), token)
    ordered = sorted(known, key=len, reverse=True)
    return [(re.compile(rf"(?<![\w.-]){re.escape(path)}(?![\w-]|\.\w)"), known[path]) for path in ordered]
