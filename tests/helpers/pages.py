"""The Markdown files of the repository: their links, headings, and the commands that they show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("*.md", "docs/**/*.md", "examples/*.md", "skills/**/*.md")
PAGES = sorted(page for pattern in FOLDERS for page in ROOT.glob(pattern))

_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\]\((?P<inline>[^)\s]+)\)|^\[[^\]]+\]: (?P<reference>\S+)$", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_MODULE = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|j2))`")


def prose(text: str) -> str:
    """`text` without blocks of code."""
    return _FENCE.sub("", text)


def relative_links(text: str) -> list[str]:
    """Targets that are no URL, in prose."""
    bare = _INLINE.sub("", prose(text))
    targets = [match["inline"] or match["reference"] for match in _LINK.finditer(bare)]
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """Anchors of the headings that GitHub and mkdocs agree on."""
    found = set()
    for heading in _HEADING.findall(prose(text)):
        words = re.sub(r"[^\w\s-]", "", heading.strip()).strip().lower()
        on_github, on_site = re.sub(r"\s", "-", words), re.sub(r"[-\s]+", "-", words)
        if on_github == on_site:
            found.add(on_site)
    return found


def module_paths(text: str) -> list[str]:
    """Names of Python files and templates in prose."""
    return _MODULE.findall(prose(text))


def commands(text: str) -> Iterator[list[str]]:
    """The words of every `repro-kit …` that `text` shows, in a block of code or within a sentence."""
    for block in _FENCE.findall(text):
        for line in block.splitlines():
            shown = re.match(r"\s*(?:- run: |\$ )?(repro-kit .*)", line)
            if shown:
                yield _words(shown[1])
    for inline in _INLINE.findall(prose(text)):
        if inline.startswith("`repro-kit "):
            yield _words(inline.strip("`").replace("\\|", "|"))


def _words(command: str) -> list[str]:
    """Up to a pipe or a redirection; one that opens a quotation and does not close it is split at spaces."""
    command = re.split(r"\s[|>]\s", command)[0]
    try:
        return shlex.split(command, comments=True)[1:]
    except ValueError:
        return command.split()[1:]
