"""The spellings of a value in different languages, and how to find them in a text."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Iterator
from urllib.parse import quote, quote_plus

ANYWHERE = 8  # shortest value that is also searched for inside words
_AROUND = " \t\r\"'"  # a line, which may be a string of its own
#: A short option that its value is joined to.
_JOINED = r"(?<=[ '\"]-[A-Za-z])|(?<=[ '\"]-hp)"
_LINE_END = re.compile(r"(?<!\\)((?:\\\\)*)\\[nrt]")


def spellings(value: str) -> list[str]:
    """`value` as it is, and as JSON, Python, HTML and URLs spell it; also its long lines."""
    lines = [line.strip(_AROUND) for line in value.splitlines()] if "\n" in value else []
    plain = [value, *(line for line in lines if len(line) >= 2 * ANYWHERE)]
    escaped = [spelt for text in plain for spelt in _escaped(text)]
    nested = [spelt for text in dict.fromkeys(escaped) if text not in plain for spelt in _escaped(text)]
    marked = [spelt for text in plain for spelt in (html.escape(text), html.escape(text, quote=False))]
    urls = [spelt for text in plain for spelt in (quote(text, safe=""), quote(text), quote_plus(text))]
    marked += [text.replace("&#x27;", "&#39;").replace("&quot;", "&#34;") for text in marked]
    return [spelt for spelt in dict.fromkeys([*plain, *escaped, *nested, *marked, *urls]) if spelt]


def _escaped(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    yield ascii(text)[1:-1]
    yield text.replace("\\", "\\\\")
    yield text.replace("'", "'\"'\"'")  # as a shell needs it inside of single quotes
    yield repr(text.encode("utf-8", "surrogatepass"))[2:-1]


def with_line_ends(text: str) -> str:
    r"""`text` with real line ends for ``\n``, ``\r`` and ``\t``, so that the letter does not join a value."""
    return _LINE_END.sub(r"\1\n", text) if "\\" in text else text


def alternatives(values: Collection[str], *, whole: bool = False) -> re.Pattern[str]:
    """A pattern for any of `values`, the longest first; short ones (with `whole`, all) only as whole words."""

    def one(value: str) -> str:
        escaped = re.escape(value)
        if not whole and value.isdigit():
            return rf"(?<!\d)(?<!\d\.){escaped}(?!\.?\d)"  # a number is no part of another one
        if not whole and len(value) >= ANYWHERE:
            return escaped
        before = rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|{_JOINED})" if value[0].isalnum() else ""
        return before + escaped + (r"(?![A-Za-z0-9])" if value[-1].isalnum() else "")

    return re.compile("|".join(map(one, sorted(values, key=len, reverse=True))) or r"(?!)")


def places(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, longest value) of each match of `pattern`; overlapping matches are merged."""
    match = pattern.search(text)
    while match:
        start, end, value = match.start(), match.end(), match[0]
        match = pattern.search(text, start + 1)
        while match and match.start() < end:
            end, value = max(end, match.end()), max(value, match[0], key=len)
            match = pattern.search(text, match.start() + 1)
        yield start, end, value


def word_around(text: str, start: int, end: int) -> str:
    """The whole identifier around `text[start:end]`."""
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return text[start:end]
