"""Turn a bundle into an issue of PyTorch: its form, its links, what its body is."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, urlencode

from repro_kit.bundle.story.addressee import Addressee
from repro_kit.bundle.story.labels import labels_of
from repro_kit.bundle.story.story import Story
from repro_kit.bundle.story.title import title_of

REPOSITORY = "pytorch/pytorch"
FORM = f"https://github.com/{REPOSITORY}/issues/new?template=pt2-bug-report.yml"
#: Why `--yes` files nothing where somebody else is asked before PyTorch.
UNANSWERED = "--yes does not answer this question, as PyTorch is not to be asked first"
LOGS, VERSIONS = "### Error logs\n", "### Versions\n"  # boxes of the form, as headings of the text
LONGEST_BODY = 65_536  # characters that GitHub takes for an issue

_NEW = f"https://github.com/{REPOSITORY}/issues/new"
_ISSUES = f"https://github.com/{REPOSITORY}/issues"
_LONGEST_LINK = 8_000  # characters; GitHub refuses links of about 8,190
_WORDS = 4  # words of the message; GitHub searches for all of them
_TELLS_NOTHING = re.compile(
    r"(?i)that|this|with|from|have|been|will|which|when|were|does|into|than|then|your|there|expected|given|called|after|"
    r"torch|error|values?|types?|functions?|objects?|arguments?|instance"
)
_CUT = "\n\n[… the rest is in issue.md: paste it over this …]\n"


def refusal(evidence: str, issue: Path) -> str:
    """Why a failure that is not PyTorch's is not filed there, and what to do instead."""
    why = f": {evidence}" if evidence else "."
    return f"The failure is not PyTorch's{why} Send {issue} to {Addressee.USER.maintainer}."


def searches(story: Story) -> tuple[tuple[str, str], ...]:
    """(search words, link): searches for issues about the same bug, the closest first."""
    narrow = [*story.signature.exceptions[-1:], *_telling(story.signature.message)]
    wide = list(story.ops[:2])
    if not narrow:
        narrow = [*wide, story.signature.kind.policy.search]
    queries = {" ".join(words): words for words in (narrow, [*story.signature.exceptions[-1:], *wide]) if words}
    return tuple((words, _search(words)) for words in queries)


def _search(words: str) -> str:
    query = f'is:issue label:"oncall: pt2" {words}'
    return f"{_ISSUES}?{urlencode({'q': query}, quote_via=quote)}"


def _telling(message: str) -> list[str]:
    """The words of a normalised message that few other messages have."""
    words = re.findall(r"(?<![\w<])[A-Za-z_]\w{3,}", message)
    return list(dict.fromkeys(word for word in words if not _TELLS_NOTHING.fullmatch(word)))[:_WORDS]


def body_of(issue: str) -> str:
    """The text of `issue.md` without the comment at its head."""
    head, _, rest = issue.partition("-->\n")
    return rest if head.startswith("<!--") else issue


def new_issue_link(story: Story, body: str) -> str:
    """A link that opens GitHub's form with title, labels and as much of `body` as a link can hold.

    A link cannot fill in the boxes of PyTorch's own form, so `body` has their headings.
    """
    head = {"title": title_of(story), "labels": ",".join(labels_of(story))}

    def link(text: str) -> str:
        return f"{_NEW}?{urlencode({**head, 'body': text}, quote_via=quote)}"

    if len(link(body)) <= _LONGEST_LINK:
        return link(body)
    body = body.partition("\n<details>")[0]  # what is folded up goes first
    if len(link(body + _CUT)) <= _LONGEST_LINK:
        return link(body + _CUT)
    low, high = 0, len(body)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(link(_cut(body, middle))) <= _LONGEST_LINK else (low, middle - 1)
    return link(_cut(body, low))


def _cut(body: str, at: int) -> str:
    """`body` up to the last line end before `at`, with its code block closed."""
    kept = body[:at].rpartition("\n")[0]
    fences = re.findall(r"^(`{3,})", kept, re.MULTILINE)
    return kept + (f"\n{fences[-1]}" if len(fences) % 2 else "") + _CUT
