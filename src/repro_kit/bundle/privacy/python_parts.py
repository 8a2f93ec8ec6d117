"""Find the strings, comments and numbers of Python source. What lies between is code, which must keep its names."""

from __future__ import annotations

import io
import itertools
import re
import tokenize
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]  # start and end in the text

NUMBER, STRING, TEXT = "number", "string", "text"  # a text is a comment
_KINDS = {
    tokenize.COMMENT: TEXT,
    tokenize.NUMBER: NUMBER,
    tokenize.STRING: STRING,
}
#: An f-string is many tokens since Python 3.12, a t-string (3.14) always is.
_BEGIN = {getattr(tokenize, name, -1) for name in ("FSTRING_START", "TSTRING_START")}
_END = {getattr(tokenize, name, -1) for name in ("FSTRING_END", "TSTRING_END")}
_WITH_FIELDS = re.compile(r"(?i)(?:[ft]|r[ft]|[ft]r)['\"]")
_FIELD = re.compile(r"\{\{|\{")
_QUOTED = re.compile(r"(?is)[a-z]{0,3}(?P<quote>\"{3}|'{3}|[\"'])(?P<text>.*)(?P=quote)")
#: What counts inside a field: braces, and strings, in which braces do not count.
_IN_FIELD = re.compile(r"[{}]|'[^'\n]*'|\"[^\"\n]*\"")


@dataclass(frozen=True)
class Part:
    """A string, comment or number of Python source, and its place."""

    kind: str
    start: int
    end: int


def parts_of(source: str) -> list[Part] | None:
    """The strings, comments and numbers of `source` in order; None if it is not valid Python.

    An error counts wherever it is, because after it the tokenizer may take a string for code.
    """
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    if any(token.type == tokenize.ERRORTOKEN or token.exact_type == tokenize.OP for token in tokens):
        return None  # an operator that Python does not know is of the type OP since 3.12
    lines = (len(line) + 1 for line in source.split("\n"))  # as the tokenizer splits it, unlike `splitlines`
    starts = list(itertools.accumulate(lines, initial=0))
    return [
        Part(kind, *(starts[line - 1] + column for line, column in (first.start, last.end)))
        for kind, first, last in _literals(tokens)
    ]


def _literals(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tuple[str, tokenize.TokenInfo, tokenize.TokenInfo]]:
    """(kind, first token, last token) of each part. An f-string is one part, with what its fields hold."""
    open_strings: list[tokenize.TokenInfo] = []
    for token in tokens:
        if token.type in _BEGIN:
            open_strings.append(token)
        elif token.type in _END:
            first = open_strings.pop()
            if not open_strings:
                yield STRING, first, token
        elif token.type in _KINDS and not open_strings:
            yield _KINDS[token.type], token, token


def prose_of(source: str) -> str:
    """The strings and comments of `source`, each on a line of its own; the whole text if it is not valid Python."""
    parts = parts_of(source)
    if parts is None:
        return source
    return "\n".join(source[part.start : part.end] for part in parts if part.kind != NUMBER)


def data_of(source: str) -> str:
    """All of `source` that is no code, in lines: strings, comments and numbers; the whole text if it is not valid."""
    parts = parts_of(source)
    if parts is None:
        return source
    texts = (source[part.start : part.end] for part in parts)
    return "\n".join(text[start:end] for text in texts for start, end in literal_spans(text))


def joined_strings(source: str) -> Iterator[list[str]]:
    """What the quotes of adjacent strings enclose, as written: Python makes one string of them.

    Comments may stand between. Nothing where `source` is not valid Python.
    """
    together: list[str] = []
    end = 0
    for part in parts_of(source) or ():
        if source[end : part.start].replace("\\\n", "").strip() and together:
            yield together
            together = []
        end = part.end
        quoted = _QUOTED.fullmatch(source, part.start, part.end) if part.kind == STRING else None
        if quoted:
            together.append(quoted["text"])
    if together:
        yield together


def literal_spans(literal: str) -> Iterator[Span]:
    """Where `literal`, a string or comment, is no code: all of it, but for the fields of an f-string.

    A string within a field is no code either.
    """
    at = 0
    match = _FIELD.search(literal) if _WITH_FIELDS.match(literal) else None
    while match:
        if match[0] == "{":
            yield at, match.start()
            at = yield from _strings_in_field(literal, match.end())
        match = _FIELD.search(literal, max(at, match.end()))
    yield at, len(literal)


def _strings_in_field(literal: str, start: int) -> Generator[Span, None, int]:
    """The strings in the field of an f-string that begins at `start`; returns where the field ends."""
    depth = 1
    for match in _IN_FIELD.finditer(literal, start):
        if match[0] not in ("{", "}"):
            yield match.span()
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if not depth:
            return match.start()
    return len(literal)
