"""Text that a terminal obeys, or that hides what it says; for the tests and for the trust bench."""

from __future__ import annotations

import re

#: Every control character of C0 and C1 but tab and line feed, direction marks, and zero-width characters.
CHARACTERS = tuple(
    chr(code)
    for code in (
        *(code for code in range(0x20) if code not in (0x09, 0x0A)),
        *range(0x7F, 0xA0),
        0xAD, 0x34F, 0x61C, 0x115F, 0x180E,
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0x3164, 0xFEFF, 0xFFA0,
        *range(0xFFF9, 0xFFFC),
        0xE0001, 0xE0020, 0xE0041, 0xE007F, 0xE0100,
    )
)  # fmt: skip

#: Terminal sequences with an effect: titles, the clipboard, links, colours, the cursor, screens, typed answers.
SEQUENCES = (
    "\x1b]0;owned\x07", "\x1b]2;owned\x1b\\", "\x9d0;owned\x9c",
    "\x1b]52;c;cm0gLXJm\x07", "\x9d52;c;cm0gLXJm\x9c",
    "\x1b]8;;http://evil.example\x1b\\text\x1b]8;;\x1b\\", "\x9d8;;http://evil.example\x9ctext",
    "\x1b]9;note\x07", "\x1b]1337;File=inline=1:AAAA\x07", "\x1b]7;file://evil/\x07", "\x1b]4;1;?\x07",
    "\x1b[2J", "\x1b[1A\x1b[2K", "\x9b2J", "\x9b1A", "\x1b[31;1mred", "\x1b[8mhidden", "\x1b[?1049h", "\x1b[?25l",
    "\x1b[6n", "\x1b[c", "\x1b[21t", "\x1b[?1003h", "\x1bc", "\x1b(0", "\x1b#8", "\x1bP$q\"p\x1b\\", "\x90q\x9c",
    "\x1b_G\x1b\\", "\x9fG\x9c", "\x1b^pm\x1b\\", "\x1bX\x1b\\", "\x8d", "\x84",
    "safe\rforged", "ab\b\bcd", "\x07", "\x0b", "\x0c", "\x0e\x0f", "\x00", "\x7f",
    "\u202egpj.exe\u202c", "\u2066a\u2069", "\u2067b\u2069", "pay\u200bpal", "a\u200d\u200cb", "\ufeffx",
    "[link=http://evil.example]text[/link]", "[red]markup[/red]", "[/]", ":bomb:",
)  # fmt: skip

_STYLE = re.compile(r"\x1b\[[\d;]*m")
_CURSOR = re.compile(r"\r?\x1b\[(?:2K|1A|\?25[lh])")  # rich's, of the live line


def raw_in(printed: str) -> set[str]:
    """The characters of `CHARACTERS` in the output, besides the colours of repro-kit itself."""
    return set(_CURSOR.sub("", _STYLE.sub("", printed.replace("\r\n", "\n")))) & set(CHARACTERS)
