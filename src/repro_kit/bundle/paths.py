"""Directories of this machine as tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

#: Directories that every machine has.
_SHARED = ("/", "/usr", "/usr/local", "/opt", "/tmp", "/var", "/home", "/Users", "/root/.", "C:\\")
_SYSTEMS = re.compile(
    r"/(?!run/media/|var/home/)(usr|lib|lib32|lib64|bin|sbin|etc|proc|sys|dev|tmp|var|run|nix|opt/(conda|venv|python)|torch|Library|System)/"
)
#: What may stand right before a path though it is a letter: an escaped line end, a compiler's flag.
_GLUED = r"(?<=\\[nrt])|(?<=[\s'\"]-[A-Za-z])|(?<=-isystem)"
#: The directory of an absolute path; no URL's, and none that a token stands before.
_DIRECTORY = re.compile(
    rf"(?:(?<![\w.<>/:\\~*)\]-])|{_GLUED})(?<!&gt;)(?:/[\w.+@%=~-]+)+/(?=[\w.+@%=~-])"
    r"|(?<!\w)[A-Z]:\\{1,2}(?:[A-Za-z][\w.+@%~ -]+\\{1,2})+(?=\w)"
)
_INSTALLED = re.compile(r"/(?=(?:lib/python\d|site-packages/|dist-packages/))")


class Paths:
    """Replaces `known` directories, (path, token) pairs, by their tokens, and others by ``<dir-N>``."""

    def __init__(self, known: Iterable[tuple[str, str]]) -> None:
        found: dict[str, str] = {}
        for path, token in known:
            plain = path.rstrip("/\\")
            if plain and plain not in _SHARED:
                found.setdefault(plain, token)
                found.setdefault(plain.replace("\\", "\\\\"), token)
        ordered = sorted(found, key=len, reverse=True)  # the deepest first
        self._known = [
            (re.compile(rf"(?:(?<![\w.-])|{_GLUED}){re.escape(path)}(?![\w-]|\.\w)"), found[path]) for path in ordered
        ]
        self._tokens = set(found.values())
        self._others: dict[str, str] = {}

    def what(self, token: str) -> str:
        """What `token` stands for, in words; empty for no token of ours."""
        return "directory" if token in self._tokens or token.startswith("<dir-") else ""

    def replace(self, text: str, tokens: Counter[str]) -> str:
        """`text` with tokens for directories, counted in `tokens`."""
        for pattern, token in self._known:
            text, done = pattern.subn(token, text)
            tokens[token] += done
        text = _DIRECTORY.sub(lambda found: self._other(found[0], tokens), text)
        for token in [it for it in tokens if not tokens[it]]:
            del tokens[token]
        return text

    def _other(self, directory: str, tokens: Counter[str]) -> str:
        if _SYSTEMS.match(directory):
            return directory
        installed = _INSTALLED.search(directory)
        place = directory[: installed.start()] if installed else directory.rstrip("/\\")
        if not place:
            return directory
        token = self._others.setdefault(place.replace("\\\\", "\\"), f"<dir-{len(self._others) + 1}>")
        tokens[token] += 1
        return token + directory[len(place) :]
