"""Make text of strangers safe for a terminal: control and invisible characters are spelt out."""

from __future__ import annotations

import re
import unicodedata

#: Printable according to Unicode, but invisible: fillers, joiners, variation selectors (but those of emoji).
_UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef"
#: Characters that may have to be spelt out. Nearly every text has none of them.
_SUSPECT = re.compile(rf"[^\t\n\x20-\x7e]|[{_UNSEEN}]")
_HIDDEN = re.compile(f"[{_UNSEEN}]")


def visible(text: str) -> str:
    """`text` with control characters, direction marks and invisible characters spelt out; tabs and newlines stay."""
    return _SUSPECT.sub(lambda match: _spelt(match[0]), text)


def visible_json(text: str) -> str:
    r"""JSON `text` that means the same and has none of them: each is written as ``\uXXXX``."""
    return _SUSPECT.sub(lambda match: _escaped(match[0]), text)


def one_line(text: str) -> str:
    """`text` on one line, safe for a terminal."""
    return visible(" ".join(text.split()))


def _is_seen(letter: str) -> bool:
    if _HIDDEN.match(letter):
        return False
    return letter.isprintable() or unicodedata.category(letter) == "Zs"  # a wide space is visible enough


def _spelt(letter: str) -> str:
    return letter if _is_seen(letter) else letter.encode("unicode_escape").decode()


def _escaped(letter: str) -> str:
    if _is_seen(letter):
        return letter
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(rf"\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
