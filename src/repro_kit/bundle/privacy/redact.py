"""Replace private values in texts and in Python source. The same value becomes the same token everywhere."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial

from repro_kit.bundle.privacy.encodings_of_value import alternatives, places, spellings, word_around
from repro_kit.bundle.privacy.paths import Paths
from repro_kit.bundle.privacy.python_parts import NUMBER, STRING, literal_spans, parts_of
from repro_kit.bundle.privacy.secret_scan import Secret, secrets_in
from repro_kit.bundle.privacy.vocabulary import Vocabulary

Redact = Callable[[str], str]


def in_python(text: str, in_code: Redact, in_prose: Redact) -> str:
    """`text` with its strings, comments and numbers redacted by `in_prose`, then all of it by `in_code`.

    All of it, because a secret may begin in one string and end in the next.
    """
    parts = parts_of(text)
    if parts is None:
        return in_code(in_prose(text))
    pieces: list[str] = []
    at = 0
    for part in parts:
        redact = _REDACT_BY_KIND.get(part.kind, _plain)
        pieces += [text[at : part.start], redact(text[part.start : part.end], in_prose)]
        at = part.end
    return in_code("".join([*pieces, text[at:]]))


def _plain(comment: str, redact: Redact) -> str:
    return redact(comment)


def _string(literal: str, redact: Redact) -> str:
    """A redacted string; written again if a replaced passage split an escape, or took a quote with it."""
    redacted, at = "", 0
    for start, end in literal_spans(literal):
        redacted += literal[at:start] + redact(literal[start:end])
        at = end
    redacted += literal[at:]
    return redacted if redacted == literal or _compiles(redacted) else _written_again(literal, redacted, redact)


def _written_again(literal: str, redacted: str, redact: Redact) -> str:
    """The literal of the redacted value; of the text `redacted`, if there is no value or nothing is replaced in it."""
    try:
        value = ast.literal_eval(literal)
    except (SyntaxError, ValueError):  # an f-string
        return repr(redacted)
    if isinstance(value, bytes):
        plain = value.decode("latin-1")
        return repr(_replaced(plain, redacted, redact).encode("latin-1", "replace"))
    return repr(_replaced(value, redacted, redact))


def _replaced(value: str, otherwise: str, redact: Redact) -> str:
    replaced = redact(value)
    return otherwise if replaced == value else replaced


def _number(literal: str, redact: Redact) -> str:
    """A number, or another number that shows the token, which alone would be a name."""
    redacted = redact(literal)
    return literal if redacted == literal else f'len("{redacted}")'


def _compiles(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


_REDACT_BY_KIND = {NUMBER: _number, STRING: _string}


_SHORTEST_NAME = 4
_SHORTEST_SECRET = 4
_FEWEST_CHARACTERS = 3  # different characters; a line of dashes or blanks is not a secret
_OWN_FILES = "files/"  # the user's files, whose identifiers must stay
_OUR_WORDS = "REDACTED_SECRET_VALUE_"


@dataclass(frozen=True)
class Redacted:
    """A redacted text, and how many passages were replaced by each token."""

    text: str
    tokens: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """How many passages were replaced."""
        return self.tokens.total()


@dataclass(frozen=True)
class KeptValue:
    """A private value that stays, its origin, and the reason. Only for the user's own terminal."""

    value: str
    kind: str  # "environment variable"
    origin: str  # "LOSS_NAME"
    reason: str


class Redactor:
    """Replaces paths, names and secrets by tokens.

    `paths` and `names` are (value, token) pairs. `allowed` values look like secrets but are not (commits). Words of
    `vocabulary` are never replaced. Call `learn` with every text first, so that a secret known from one file is
    replaced in all of them. The token of a secret is a valid identifier and file name, so that a secret can be replaced
    in code, too, if its own look says what it is. In Python files all others, paths and names are replaced only in what
    is no code.
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
        self._values: dict[str, Secret] = {}  # secrets that are replaced like names
        self._renamed: dict[str, str] = {}  # parts of file names
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
        """Record that the private `value` stays, and why."""
        kept = KeptValue(value, kind, origin, reason)
        if kept not in self.kept:
            self.kept.append(kept)

    def learn(self, text: str, name: str = "text.txt") -> None:
        """Remember the secrets in `text`, whose language follows from file `name`."""
        self.add(secrets_in(text, name))
        self.paths.learn(text)

    def add(self, secrets: Iterable[Secret], *, as_names: bool = False) -> None:
        """Remember `secrets`. With `as_names` they are replaced as whole words only, and not in code."""
        secret_of = self._values if as_names else self._secrets
        before = len(secret_of)
        for secret in secrets:
            value = secret.value
            if value in self.allowed or value in self._secrets or value in secret_of or self._is_anybodys(value):
                continue
            secret_of.update({spelt: secret for spelt in spellings(value) if not self._is_anybodys(spelt)})
        if len(secret_of) > before:
            self._compile()

    def _is_anybodys(self, value: str) -> bool:
        """Whether `value` is not private: too short, too uniform, or a common word."""
        few = len(value) < _SHORTEST_SECRET or len(set("".join(value.split()))) < _FEWEST_CHARACTERS
        return few or value in _OUR_WORDS or bool(self.vocabulary.what(value))

    def learn_file(self, name: str) -> None:
        """Rename a file whose name holds a secret or a private name, also where it is imported."""
        self.learn(name)
        for part in re.split(r"[/.]", name):
            plain = self._replaced(self._pattern, part, Counter())
            renamed = self._words.sub(lambda match: self._token(match[0]).strip("<>"), plain)
            if renamed != part and part not in self._renamed:
                self._renamed[part] = renamed
                self._compile()

    def file_name(self, name: str) -> str:
        """The packed name of file `name`."""
        return self._replaced(self._pattern, name, Counter()).translate({ord(mark): "_" for mark in '<>:"|?*\\'})

    def redact(self, text: str, name: str = "text.txt") -> Redacted:
        """`text` without private values. Of Python code, only secrets by their look are replaced.

        In a graph, whose names come from torch, so are values.
        """
        tokens: Counter[str] = Counter()
        in_prose = partial(self._in_prose, tokens=tokens)
        if name.endswith(".py"):
            in_code = self._in_code if name.startswith(_OWN_FILES) else self._in_graph
            return Redacted(in_python(text, partial(in_code, tokens=tokens), in_prose), tokens)
        return Redacted(in_prose(text), tokens)

    def _in_code(self, text: str, tokens: Counter[str]) -> str:
        return self._replaced(self._code, text, tokens)

    def _in_graph(self, text: str, tokens: Counter[str]) -> str:
        return self._replaced(self._identifiers, self._in_code(text, tokens), tokens)

    def _in_prose(self, text: str, tokens: Counter[str]) -> str:
        without_paths = self.paths.replace(self._replaced(self._pattern, text, tokens), tokens)
        return self._replaced(self._words, without_paths, tokens)

    def __call__(self, text: str) -> str:
        """Learn from `text`, and return it redacted."""
        self.learn(text)
        return self.redact(text).text

    def token_of(self, value: str, kind: str) -> str:
        """The token for `value`, which the caller replaces, whether or not `value` occurs elsewhere."""
        if self.replaces(value):
            return self._token(value)
        return self._given_to(Secret(value, kind), "VALUE")

    def replaces(self, value: str) -> bool:
        """Whether `value` is replaced everywhere."""
        return value in self._secrets or value in self._values or value in self._names

    def knows(self, token: str) -> bool:
        """Whether `token` belongs to this redactor."""
        return token in self._given.values() or token in self._names.values() or bool(self.paths.what(token))

    def what(self, token: str) -> str:
        """What `token` stands for, in words."""
        kinds = {given: secret.kind for secret, given in self._given.items()}
        if token in self._renamed.values():
            return "part of a file's name"
        return kinds.get(token) or self.paths.what(token) or "name of a user or a machine"

    def _compile(self) -> None:
        self._pattern = alternatives({**self._secrets, **self._renamed})
        in_code = (spelt for spelt, secret in self._secrets.items() if secret.in_code)
        self._code = alternatives({*in_code, *self._renamed})
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

    def _replaced(self, pattern: re.Pattern[str], text: str, tokens: Counter[str]) -> str:
        parts: list[str] = []
        at = 0
        for start, end, value in places(pattern, text):
            if self.vocabulary.what(word_around(text, start, end)):
                continue  # part of an operator's name
            token = self._token(value)
            tokens[token] += 1
            parts += [text[at:start], token]
            at = end
        return "".join([*parts, text[at:]])
