"""How a value is spelt in texts of different languages, and how any of its spellings is found there."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Iterator
from urllib.parse import quote, quote_plus

ANYWHERE = 8  # characters from which a value is looked for inside of words too
_LINE_END = re.compile(r"(?<!\\)((?:\\\\)*)\\[nrt]")


def spellings(value: str) -> list[str]:
    """`value` as it is, and as JSON, Python, HTML and URLs spell it; its lines, where it has several."""
    lines = [line.strip() for line in value.splitlines() if len(line.strip()) >= 2 * ANYWHERE] if "\n" in value else []
    plain = [value, *lines]
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
    yield repr(text.encode("utf-8", "surrogatepass"))[2:-1]


def with_line_ends(text: str) -> str:
    r"""`text` with line ends and tabs in the place of ``\n``, ``\r`` and ``\t``: the letter belongs to no value."""
    return _LINE_END.sub(r"\1\n", text) if "\\" in text else text


def alternatives(known: Collection[str], *, whole: bool = False) -> re.Pattern[str]:
    """What finds any of `known`, the longest first; short ones, or with `whole` all, as whole words."""

    def one(value: str) -> str:
        escaped = re.escape(value)
        if not whole and len(value) >= ANYWHERE:
            return escaped
        before = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))" if value[0].isalnum() else ""
        return before + escaped + (r"(?![A-Za-z0-9])" if value[-1].isalnum() else "")

    return re.compile("|".join(map(one, sorted(known, key=len, reverse=True))) or r"(?!)")


def places(known: re.Pattern[str], text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, longest value) of what `known` finds; values that overlap are one place, so that no end is left."""
    match = known.search(text)
    while match:
        start, end, value = match.start(), match.end(), match[0]
        match = known.search(text, start + 1)
        while match and match.start() < end:
            end, value = max(end, match.end()), max(value, match[0], key=len)
            match = known.search(text, match.start() + 1)
        yield start, end, value


def word_around(text: str, start: int, end: int) -> str:
    """The whole identifier in which the piece of `text` from `start` to `end` stands."""
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return text[start:end]
