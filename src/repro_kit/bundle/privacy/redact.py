"""Take what is private out of texts, always the same way: the same value becomes the same token in every file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import partial

from repro_kit.bundle.privacy.addresses import shares_in
from repro_kit.bundle.privacy.paths import Paths
from repro_kit.bundle.privacy.redact_python import in_python
from repro_kit.bundle.privacy.secret_scan import Secret, secrets_in
from repro_kit.bundle.privacy.spellings import alternatives, places, spellings, with_line_ends, word_around
from repro_kit.bundle.privacy.vocabulary import Vocabulary

_SHORTEST_NAME = 4
_SHORTEST_SECRET = 4
_FEWEST_CHARACTERS = 3  # different ones: rules and blanks of any text are no secrets
_OWN_FILES = "files/"  # the user's own, which use names of packages that are not ours to change
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


@dataclass(frozen=True)
class KeptValue:
    """A private value that stays, where it comes from, and why; for the user's own terminal, since it names both."""

    value: str
    kind: str  # "environment variable"
    origin: str  # "LOSS_NAME"
    reason: str


class Redactor:
    """Replaces paths, names and secrets by tokens.

    `paths` and `names` are (value, token) pairs. `allowed` are values that look like secrets and are not (commits).
    Words of `vocabulary` are never replaced. Call `learn` with every text first: a secret known from one file is then
    replaced in all of them. A secret's token can stand in an identifier and in a file's name; those of paths and names
    cannot, so that in Python files these are replaced in strings and comments only.
    """

    def __init__(
        self,
        paths: Iterable[tuple[str, str]] = (),
        names: Iterable[tuple[str, str]] = (),
        allowed: Collection[str] = (),
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self.paths = Paths(paths)
        self.vocabulary = vocabulary or Vocabulary()
        self.kept: list[KeptValue] = []
        self._names: dict[str, str] = {}
        self.allowed = set(allowed)
        self._secrets: dict[str, Secret] = {}  # by every spelling
        self._values: dict[str, Secret] = {}  # those that are replaced like names
        self._renamed: dict[str, str] = {}  # parts of files' names
        self._given: dict[Secret, str] = {}  # tokens, numbered as they are used
        for name, token in names:
            self._add_name(name, token)
        self._compile()

    def _add_name(self, name: str, token: str) -> None:
        if len(name) < _SHORTEST_NAME:
            return
        word_of = self.vocabulary.what(name)
        if word_of:
            self.keep(name, f"name of a {token.strip('<>')}", "", f"a word of {word_of}")
        else:
            self._names[name] = token

    def keep(self, value: str, kind: str, origin: str, reason: str) -> None:
        """Note that private `value` stays as it is, and why."""
        kept = KeptValue(value, kind, origin, reason)
        if kept not in self.kept:
            self.kept.append(kept)

    def learn(self, text: str, name: str = "text.txt") -> None:
        """Remember the secrets of `text`; file name `name` tells its language."""
        self.add(secrets_in(with_line_ends(text), name))
        self.add(Secret(value, kind) for kind, value in shares_in(text, name))
        self.paths.learn(text)

    def add(self, secrets: Iterable[Secret], *, as_names: bool = False) -> None:
        """Remember `secrets`; `as_names` replaces them as whole words, and not in code."""
        known = self._values if as_names else self._secrets
        before = len(known)
        for secret in secrets:
            value = secret.value
            if value in self.allowed or value in self._secrets or value in known or self._is_anybodys(value):
                continue
            known.update({spelt: secret for spelt in spellings(value) if not self._is_anybodys(spelt)})
        if len(known) > before:
            self._compile()

    def _is_anybodys(self, value: str) -> bool:
        """Whether `value` says nothing about anybody: it is too short, of too few characters, or a known word."""
        few = len(value) < _SHORTEST_SECRET or len(set("".join(value.split()))) < _FEWEST_CHARACTERS
        return few or value in _OUR_WORDS or bool(self.vocabulary.what(value))

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
        return self._replaced(self._pattern, name, Counter()).translate({ord(mark): "_" for mark in '<>:"|?*\\'})

    def redact(self, text: str, name: str = "text.txt") -> Redacted:
        """`text` without what is private. In Python files names are replaced in strings and comments only.

        Values are too in the user's own files; in a graph, whose names are torch's or made up, they are replaced
        everywhere.
        """
        tokens: Counter[str] = Counter()
        if name.endswith(".py"):
            everywhere, in_prose = partial(self._in_code, tokens=tokens), partial(self._in_prose, tokens=tokens)
            if not name.startswith(_OWN_FILES):
                everywhere = partial(self._in_graph, tokens=tokens)
            return Redacted(in_python(text, everywhere, in_prose), tokens)
        return Redacted(self._in_prose(self._in_code(text, tokens), tokens), tokens)

    def _in_code(self, text: str, tokens: Counter[str]) -> str:
        return self.paths.replace(self._replaced(self._pattern, text, tokens), tokens)

    def _in_graph(self, text: str, tokens: Counter[str]) -> str:
        return self._replaced(self._identifiers, self._in_code(text, tokens), tokens)

    def _in_prose(self, text: str, tokens: Counter[str]) -> str:
        return self._replaced(self._words, text, tokens)

    def __call__(self, text: str) -> str:
        """Learn from `text`, and return it without what is private."""
        self.learn(text)
        return self.redact(text).text

    def token_of(self, value: str, kind: str) -> str:
        """The token of `value`, which is replaced where it stands, whether or not it is elsewhere."""
        if self.replaces(value):
            return self._token(value)
        return self._given_to(Secret(value, kind), "VALUE")

    def replaces(self, value: str) -> bool:
        """Whether `value` is replaced wherever it stands."""
        return value in self._secrets or value in self._values or value in self._names

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
        self._pattern = alternatives({**self._secrets, **self._renamed})
        self._identifiers = alternatives(self._values, whole=True)
        self._words = alternatives({**self._names, **self._values}, whole=True)

    def _token(self, value: str) -> str:
        plain = self._renamed.get(value) or self._names.get(value)
        if plain:
            return plain
        secret = self._secrets.get(value) or self._values[value]
        return self._given_to(secret, "SECRET" if value in self._secrets else "VALUE")

    def _given_to(self, secret: Secret, kind: str) -> str:
        number = sum(kind in token for token in self._given.values()) + 1
        return self._given.setdefault(secret, f"REDACTED_{kind}_{number}")

    def _replaced(self, known: re.Pattern[str], text: str, tokens: Counter[str]) -> str:
        parts: list[str] = []
        at = 0
        for start, end, value in places(known, text):
            if self.vocabulary.what(word_around(text, start, end)):
                continue  # a piece of an operator's name
            token = self._token(value)
            tokens[token] += 1
            parts += [text[at:start], token]
            at = end
        return "".join([*parts, text[at:]])
