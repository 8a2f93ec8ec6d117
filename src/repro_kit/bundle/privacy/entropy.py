"""Tell random strings from text that a person wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator

from repro_kit.bundle.privacy.token_forms import START

#: Written by people: words, with a capital or not, and the rest of a number.
_WORD = re.compile(r"ReLU6?|Bn(?=[A-Z])|[1-3]d(?![a-z])|[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{4,}(?![a-z])")
#: Text that a person wrote can be spoken: it has vowels, and no long run of consonants.
_UNSPEAKABLE = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{5}|^[bcdfghjklmnpqrstvwxz]*$")
#: Where the kind of character changes, except after the capital of a word.
_TURN = re.compile(r"(?<=[a-z])(?=[A-Z\d])|(?<=[A-Z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_SEGMENT = re.compile(rf"{START}[A-Za-z0-9]+")
_MANGLED = re.compile(r"(?<![A-Za-z0-9])_Z[A-Z0-9]\w+")
_CACHE_KEY = re.compile(r"[a-z]?[a-z2-7]{50,52}|[A-Z2-7]{52}")
_KERNEL = re.compile(r"[a-z0-9]{1,20}(?:_+[a-z0-9]{1,20}){3,}")
#: Keys of the compiler's caches (base 32), mangled C++ names, checksums and addresses stand in every log.
_COMPILERS = re.compile(
    r"[a-z]?[a-z2-7]{50,52}|[A-Z2-7]{52}|_?Z[A-Z]+\d.*|[0-9a-f]+|[0-9A-F]+|0[xX][0-9A-Fa-f]+[uUlL]*|\d+"
)
_CHANGE = re.compile(r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?=\d)")  # between letters and digits

_RANDOM = 0.5  # share of characters that belong to no word
_TURNS_OF_WORDS = 0.2  # written text changes its kind of character less often
_LONG, _RANDOM_LONG = 32, 0.3  # from this length on, this share is enough
_RANDOM_IN_TURNS, _TURNS = 0.2, 0.32  # this share is enough if the kind changes this often per character
_IN_TURNS = 20  # shortest string for the rule above
_CHANGES_ALONE = 6  # changes between letters and digits in a long lower-case string
_CHANGES = 4  # changes between letters and digits; hardly any word has so many
_LOWER = re.compile(rf"{START}[a-z0-9]{{24,}}(?![A-Za-z0-9])")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=])(?=[A-Za-z0-9]*[+/])[A-Za-z0-9+/]{30,}={0,2}(?![A-Za-z0-9+/=])")
_HEX = re.compile(rf"{START}(?:[0-9a-f]{{16,128}}|[0-9A-F]{{16,128}})(?![A-Za-z0-9])")
#: The extension of a file that is named by its hash.
_HASHED_FILE = re.compile(
    r"\.(?:py|pyc|cpp|cu|h|o|so|json|cubin|ptx|pt|lock|html|txt|main|kernel|llir|ttir|ttgir|log)\b"
)
#: Text before hex digits that a report needs: checksums, commits, cache keys.
_PUBLIC_HEX = re.compile(
    r"(?i)(?:hash\w*|commit\w*|sha-?\d*|md5|digest|checksum\w*|revision|payload|fingerprint|etag|cache[_ -]?key|"
    r"git[ _](?:version|sha|rev\w*)|torch_git|head is(?: now)? at|"
    r"/(?:commits?|tree|blob|raw|snapshots|objects)/|git\+\S{1,120}@|(?:cache|inductor|triton)\w*/\S{0,80})"
    r"[\s\"'=:\\(<`\[]{0,8}$"
)
_SECRET_HEX = re.compile(r"(?i)(?:password|passwd|secret|token|credential|api[_-]?key)\w*[\s\"'=:]{0,6}$")
_LOOK_BACK = 140  # characters before a hex string that may say what it is

_ANYWHERE = 16  # shortest random string that counts in any context
_HEX_UNQUOTED, _HEX_QUOTED = 24, 16  # digits of a key
_HEX_VARIETY = 7  # different ones among them
_IN_CONTEXT = 8  # shortest random string next to a word for secrets


def random_segments(text: str) -> list[str]:
    """The parts of `text` that look random: upper and lower case and digits, and hardly a word."""
    text = _MANGLED.sub(" ", text)
    mixed = [part for part in _SEGMENT.findall(text) if len(part) >= _ANYWHERE and _has_all(part)]
    base64 = [part for part in _BASE64.findall(text) if _has_all(part) and not _is_path(part)]
    lower = [part for part in _LOWER.findall(text) if len(_CHANGE.findall(part)) >= _CHANGES_ALONE]
    return [part for part in (*mixed, *base64, *lower) if _is_wordless(part)]


def hex_keys(text: str) -> Iterator[tuple[str, str]]:
    """(kind, value) of the hex strings in `text` that are not known to be checksums or commits."""
    for match in _HEX.finditer(text):
        value = match[0]
        before = text[max(0, match.start() - _LOOK_BACK) : match.start()]
        quoted = before.endswith(("'", '"')) and text[match.end() : match.end() + 1] in ("'", '"', "\\")
        shortest = _HEX_QUOTED if quoted else _HEX_UNQUOTED
        if len(value) < shortest or value.isdigit() or value.isalpha() or len(set(value)) < _HEX_VARIETY:
            continue
        if _SECRET_HEX.search(before) or not (_PUBLIC_HEX.search(before) or _HASHED_FILE.match(text, match.end())):
            yield "string of hex digits", value


def is_compilers(text: str) -> bool:
    """Whether `text` has a form that compilers write: a cache key, mangled name, checksum or address."""
    return bool(_COMPILERS.fullmatch(text) or _KERNEL.fullmatch(text))


def is_cache_key(text: str) -> bool:
    """Whether `text` has the form of a compiler's cache key."""
    return _CACHE_KEY.fullmatch(text) is not None


def is_random(value: str) -> bool:
    """Whether `value` counts as random where a secret is likely: letters and digits, and hardly a word."""
    plain = "".join(_SEGMENT.findall(value))
    mixed = any(map(str.isalpha, plain)) and sum(map(str.isdigit, plain)) >= 2
    return len(plain) >= _IN_CONTEXT and mixed and (_share(plain) >= _RANDOM or len(_CHANGE.findall(plain)) >= _CHANGES)


def _is_path(text: str) -> bool:
    """Whether possible base64 is a path, perhaps with a commit in it."""
    parts = text.split("/")
    return len(parts) - 1 > len(text) / 8 or any(len(part) >= _ANYWHERE and is_compilers(part) for part in parts)


def _has_all(text: str) -> bool:
    return any(map(str.isdigit, text)) and any(map(str.isupper, text)) and any(map(str.islower, text))


def _is_wordless(text: str) -> bool:
    if is_compilers(text):
        return False
    share, turns = _share(text), len(_TURN.findall(text)) / len(text)
    if share >= (_RANDOM_LONG if len(text) >= _LONG else _RANDOM):
        return True
    return len(text) >= _IN_TURNS and share >= _RANDOM_IN_TURNS and turns >= _TURNS


def _share(text: str) -> float:
    """The share of characters that belong to no word."""
    turning = len(_TURN.findall(text)) >= _TURNS_OF_WORDS * len(text)  # otherwise abbreviations count as words, too
    words = (
        len(match[0])
        for match in _WORD.finditer(text)
        if not turning or match[0].isupper() or not _UNSPEAKABLE.search(match[0])
    )
    return 1 - sum(words) / len(text)
