"""Take what is private out of texts, always the same way: the same value becomes the same token in every file."""

from __future__ import annotations

import html
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from repro_kit.bundle.paths import Paths
from repro_kit.bundle.secret_scan import Secret, secrets_in

#: Names that many machines share say nothing, and stand in texts with other meanings.
_COMMON = frozenset(
    {"root", "user", "admin", "administrator", "guest", "test", "tester", "ubuntu", "debian", "fedora", "centos"}
    | {"runner", "build", "builder", "docker", "vagrant", "nobody", "home", "work", "main", "python", "torch", "linux"}
    | {"local", "localhost", "host", "server", "developer", "jovyan"}
)
_SHORTEST_NAME = 4
_SHORTEST_SECRET = 4
_ANYWHERE = 8  # characters from which a secret is replaced inside of words too
_OUR_WORDS = "REDACTED_SECRET_VALUE_"


@dataclass(frozen=True)
class Redacted:
    """A text without what is private, and how many places of it were replaced by which token."""

    text: str
    tokens: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """Places replaced."""
        return self.tokens.total()


class Redactor:
    """Replaces paths, names and secrets by tokens.

    `paths` and `names` are (value, token) pairs. `allowed` are values that look like secrets and are not (commits).
    Call `learn` with every text first: a secret known from one file is then replaced in all of them. A secret's token
    can stand in an identifier and in a file's name; those of paths and names cannot, so that in Python files these are
    replaced in strings and comments only.
    """

    def __init__(
        self,
        paths: Iterable[tuple[str, str]] = (),
        names: Iterable[tuple[str, str]] = (),
        allowed: Collection[str] = (),
    ) -> None:
        self.paths = Paths(paths)
        self._names = {
            name: token for name, token in names if len(name) >= _SHORTEST_NAME and name.lower() not in _COMMON
        }
        self._allowed = set(allowed)
        self._secrets: dict[str, Secret] = {}  # by every spelling
        self._values: dict[str, Secret] = {}  # those that are replaced like names
        self._renamed: dict[str, str] = {}  # parts of files' names
        self._given: dict[Secret, str] = {}  # tokens, numbered as they are used
        self._compile()

    def learn(self, text: str, name: str = "text.txt") -> None:
        """Remember the secrets of `text`; file name `name` tells its language."""
        self.add(secrets_in(text, name))
        self.paths.learn(text)

    def add(self, secrets: Iterable[Secret], *, as_names: bool = False) -> None:
        """Remember `secrets`; `as_names` replaces them as whole words, and not in code."""
        known = self._values if as_names else self._secrets
        before = len(known)
        for secret in secrets:
            value = secret.value
            if len(value) < _SHORTEST_SECRET or value in self._allowed or value in self._secrets or value in known:
                continue
            if value in _OUR_WORDS or value.lower() in _COMMON:
                continue
            known.update(dict.fromkeys(_spellings(value), secret))
        if len(known) > before:
            self._compile()

    def learn_file(self, name: str) -> None:
        """Where a file's name holds a secret or a private name, rename it, in what imports it too."""
        self.learn(name)
        for part in re.split(r"[/.]", name):
            renamed = self._words.sub(lambda found: self._token(found[0]).strip("<>"), part)
            if renamed != part and part not in self._renamed:
                self._renamed[part] = renamed
                self._compile()

    def file_name(self, name: str) -> str:
        """The name under which file `name` is packed."""
        return self._replace_secrets(name, Counter()).translate({ord(it): "_" for it in '<>:"|?*\\'})

    def redact(self, text: str, name: str = "text.txt") -> Redacted:
        """`text` without what is private. In Python files names are replaced in strings and comments only."""
        tokens: Counter[str] = Counter()
        text = self._replace_secrets(text, tokens)
        text = self.paths.replace(text, tokens)
        if self._words.search(text):
            text = self._without_names(text, name, tokens)
        if name.endswith((".html", ".svg")):
            for token in tokens:
                text = text.replace(token, html.escape(token))
        return Redacted(text, tokens)

    def __call__(self, text: str) -> str:
        """Learn from `text`, and return it without what is private."""
        self.learn(text)
        return self.redact(text).text

    def knows(self, token: str) -> bool:
        """Whether `token` is one of this redactor's."""
        return token in self._given.values() or token in self._names.values() or bool(self.paths.what(token))

    def what(self, token: str) -> str:
        """What `token` stands for, in words."""
        kinds = {given: secret.kind for secret, given in self._given.items()}
        if token in self._renamed.values():
            return "part of a file's name"
        return kinds.get(token) or self.paths.what(token) or "name of a user or a machine"

    def _compile(self) -> None:
        self._pattern = _alternatives({**self._secrets, **self._renamed})
        self._words = _alternatives({**self._names, **self._values}, whole=True)

    def _token(self, value: str) -> str:
        plain = self._renamed.get(value) or self._names.get(value)
        if plain:
            return plain
        secret = self._secrets.get(value) or self._values[value]
        kind = "SECRET" if value in self._secrets else "VALUE"
        return self._given.setdefault(secret, f"REDACTED_{kind}_{sum(kind in it for it in self._given.values()) + 1}")

    def _replace_secrets(self, text: str, tokens: Counter[str]) -> str:
        return self._replaced(self._pattern, text, tokens)

    def _substitute(self, text: str, tokens: Counter[str]) -> str:
        return self._replaced(self._words, text, tokens)

    def _replaced(self, known: re.Pattern[str], text: str, tokens: Counter[str]) -> str:
        parts: list[str] = []
        at = 0
        for start, end, value in _places(known, text):
            token = self._token(value)
            tokens[token] += 1
            parts += [text[at:start], token]
            at = end
        return "".join([*parts, text[at:]])

    def _without_names(self, text: str, name: str, counts: Counter[str]) -> str:
        if not name.endswith(".py"):
            return self._substitute(text, counts)
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (tokenize.TokenError, SyntaxError):
            return self._substitute(text, counts)
        lines = text.splitlines(keepends=True)
        for token in reversed(tokens):
            if token.type in _PROSE:
                replaced = self._substitute(token.string, counts)
                if replaced != token.string:
                    _splice(lines, token, replaced)
        return "".join(lines)


_PROSE = {tokenize.STRING, tokenize.COMMENT} | (
    {tokenize.FSTRING_MIDDLE} if hasattr(tokenize, "FSTRING_MIDDLE") else set()
)


def _splice(lines: list[str], token: tokenize.TokenInfo, replaced: str) -> None:
    """Put `replaced` where `token` stands in `lines`."""
    (first, start), (last, end) = token.start, token.end
    head, tail = lines[first - 1][:start], lines[last - 1][end:]
    lines[first - 1 : last] = [head + replaced + tail, *[""] * (last - first)]


def _places(known: re.Pattern[str], text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, longest value) of what `known` finds; values that overlap are one place, so that no end is left."""
    found = known.search(text)
    while found:
        start, end, value = found.start(), found.end(), found[0]
        found = known.search(text, start + 1)
        while found and found.start() < end:
            end, value = max(end, found.end()), max(value, found[0], key=len)
            found = known.search(text, found.start() + 1)
        yield start, end, value


def _spellings(value: str) -> list[str]:
    """`value` as it is, and as JSON, Python, HTML and URLs spell it; its lines, where it has several."""
    lines = [line.strip() for line in value.splitlines() if len(line.strip()) >= 2 * _ANYWHERE] if "\n" in value else []
    plain = [value, *lines]
    spelt = [*plain, *(json.dumps(it)[1:-1] for it in plain), *(repr(it)[1:-1] for it in plain)]
    return list(dict.fromkeys([*spelt, *(html.escape(it) for it in plain), quote(value, safe=""), quote(value)]))


def _alternatives(known: Collection[str], whole: bool = False) -> re.Pattern[str]:
    """What finds any of `known`, the longest first; short ones, or with `whole` all, as whole words."""

    def one(value: str) -> str:
        escaped = re.escape(value)
        return (
            rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])){escaped}(?![A-Za-z0-9])"
            if whole or len(value) < _ANYWHERE
            else escaped
        )

    return re.compile("|".join(map(one, sorted(known, key=len, reverse=True))) or r"(?!)")
