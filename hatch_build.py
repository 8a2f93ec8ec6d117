"""The metadata that depend on where the project is published: its links, and README.md as an index page shows it.

`REPRO_KIT_REPOSITORY` names the repository (https://github.com/OWNER/repro-kit), as the release workflow does; else the
remote `origin` of the clone does. A source distribution has them in its PKG-INFO. Without any of these nothing is
claimed: there are no links, and the words of README.md that were links stay.
"""

from __future__ import annotations

import os
import re
import subprocess
from email.parser import Parser
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_REMOTE = re.compile(
    r"(?:git@|ssh://git@|https://(?:[^@/]+@)?)(?P<host>[^/:]+)[:/](?P<path>[\w.-]+/[\w.-]+?)(?:\.git)?/?"
)
_INLINE = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!\w+:)(?P<link>[^)\s]+)\)")
_REFERENCE = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\[(?P<name>[^\]]+)\]")
_DEFINITION = re.compile(r"^\[(?P<name>[^\]]+)\]: (?P<link>\S+)\n?", re.MULTILINE)
_PICTURES = (".svg", ".png")


class CustomMetadataHook(MetadataHookInterface):
    """Fills in `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add them to the metadata of the project."""
        root = Path(self.root)
        repository = repository_of(root)
        text = (root / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, repository)}
        metadata["urls"] = links(repository)


def repository_of(root: Path) -> str:
    """The web address of the repository; empty if nothing says it."""
    given = os.environ.get("REPRO_KIT_REPOSITORY", "")
    if given:
        return given.rstrip("/")
    if (root / "PKG-INFO").is_file():
        told = Parser().parsestr((root / "PKG-INFO").read_text(encoding="utf-8")).get_all("Project-URL", [])
        return next((line.partition(", ")[2] for line in told if line.startswith("Source, ")), "")
    if not (root / ".git").exists():  # a directory of the user's own may lie in another clone
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "remote", "get-url", "origin"], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    remote = _REMOTE.fullmatch(done.stdout.strip())
    return f"https://{remote['host']}/{remote['path']}" if remote else ""


def links(repository: str) -> dict[str, str]:
    """`[project.urls]`."""
    if not repository:
        return {}
    page = f"{repository}/blob/HEAD"
    return {
        "Source": repository,
        "Documentation": f"{page}/docs/index.md",
        "Changelog": f"{page}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def absolute(text: str, repository: str) -> str:
    """Markdown whose relative links lead into the repository; without one, the words that they stand on."""
    defined = {found["name"]: found["link"] for found in _DEFINITION.finditer(text)}

    def of_reference(found: re.Match[str]) -> str:
        link = defined.get(found["name"])
        return found[0] if link is None else _linked(found["image"], found["text"], link, repository)

    text = _REFERENCE.sub(of_reference, _DEFINITION.sub("", text))
    text = _INLINE.sub(lambda found: _linked(found["image"], found["text"], found["link"], repository), text)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _linked(image: str, words: str, link: str, repository: str) -> str:
    if re.match(r"\w+:", link):
        return f"{image}[{words}]({link})"
    if not repository:
        return "" if image else words
    kind = "raw" if link.endswith(_PICTURES) else "blob"
    return f"{image}[{words}]({repository}/{kind}/HEAD/{link})"
