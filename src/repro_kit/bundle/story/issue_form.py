"""The fields and labels of an issue of PyTorch: those that its form and its list have, and those that fit a story."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

from repro_kit.bundle.story.addressee import Addressee
from repro_kit.bundle.story.story import Story
from repro_kit.bundle.story.title import title_of
from repro_kit.bundle.story.title_facts import facts_of
from repro_kit.failure.failure import Layer
from repro_kit.failure.kinds import Kind

#: Of the labels of pytorch/pytorch (305 on 2026-11-28: `.claude/skills/triaging-issues/labels.json`) those that a
#: report of ours may have. A label that does not exist is lost without a word.
EXISTING = frozenset(
    {
        "dynamo-autograd-function",
        "dynamo-functorch",
        "module: aotdispatch",
        "module: aotinductor",
        "module: compile-time",
        "module: compiled autograd",
        "module: correctness (silent)",
        "module: crash",
        "module: cuda graphs",
        "module: custom-operators",
        "module: deadlock",
        "module: decompositions",
        "module: dynamic shapes",
        "module: dynamo",
        "module: error checking",
        "module: flex attention",
        "module: functorch",
        "module: graph breaks",
        "module: inductor",
        "module: memory usage",
        "module: nestedtensor",
        "module: numerical-stability",
        "module: performance",
        "module: pt2-dispatcher",
        "module: regression",
        "oncall: cpu inductor",
        "oncall: distributed",
        "oncall: export",
        "oncall: pt2",
        "tensor subclass",
    }
)
_OF_LAYER = {
    Layer.DYNAMO: ("module: dynamo",),
    Layer.AOT: ("module: aotdispatch", "module: pt2-dispatcher"),
    Layer.DECOMPOSITION: ("module: decompositions",),
    Layer.INDUCTOR: ("module: inductor",),
    Layer.EXPORT: ("oncall: export",),
    Layer.AOT_INDUCTOR: ("module: aotinductor",),
}
_DYNAMIC = re.compile(r"\bdynamic\s*=\s*True\b|\bmark_(?:dynamic|unbacked)\b")
_FUNCTORCH = ("module: functorch", "dynamo-functorch")  # where the failure is in what traces its transforms
_OF_CODE = (
    (re.compile(r"\bflex_attention\b"), ("module: flex attention",)),
    (re.compile(r"\btorch\.library\b|\bcustom_op\b"), ("module: custom-operators",)),
    (re.compile(r"\bautograd\.Function\b"), ("dynamo-autograd-function",)),
    (re.compile(r"\btorch\.(?:func|vmap)\b|\b_functorch\b|\bjac(?:fwd|rev)\b"), _FUNCTORCH),
    (re.compile(r"\bclass \w+\((?:torch\.)?Tensor\)"), ("tensor subclass",)),
    (re.compile(r"\bnested_tensor\b|\btorch\.nested\b"), ("module: nestedtensor",)),
    (re.compile(r"\btorch\.distributed\b|\bdist\.init_process_group\b"), ("oncall: distributed",)),
)


def labels_of(story: Story) -> tuple[str, ...]:
    """Labels that fit. The first one is the issue form's own."""
    return tuple(dict.fromkeys(label for label in _labels(story) if label in EXISTING))


def _labels(story: Story) -> Iterator[str]:
    kind = story.signature.kind
    layer = None if story.addressee is Addressee.SCRIPT_CODE else story.layer
    yield "oncall: pt2"
    yield from _OF_LAYER.get(layer, ()) if layer else ()
    if story.call.startswith("torch.export"):
        yield "oncall: export"
    if layer is Layer.INDUCTOR and not story.environment.accelerator:
        yield "oncall: cpu inductor"
    if story.signature.rounding:
        kind = Kind.ROUNDING
    if kind.policy.label:
        yield kind.policy.label
    if story.is_regression:
        yield "module: regression"
    needs_dynamic = any(aspect.name == "Dynamic shapes" and aspect.kept for aspect in story.aspects)
    if needs_dynamic or any(_DYNAMIC.search(text) for text in _reduced_code(story) if story.level == "script"):
        yield "module: dynamic shapes"
    if any(aspect.name == "Tensor subclasses" and aspect.kept for aspect in story.aspects):
        yield "tensor subclass"
    if story.recipe.compiled_autograd:
        yield "module: compiled autograd"
    if story.environment.accelerator == "cuda" and (story.recipe.mode or "") == "reduce-overhead":
        yield "module: cuda graphs"
    yield from _of_code(story)


def _of_code(story: Story) -> Iterator[str]:
    """The labels of features that the reduced code uses. What was not reduced uses more than the failure needs."""
    code = "\n".join(_reduced_code(story))
    for pattern, labels in _OF_CODE:
        if pattern.search(code) and (labels is not _FUNCTORCH or story.layer in (None, Layer.DYNAMO, Layer.AOT)):
            yield from labels


def _reduced_code(story: Story) -> list[str]:
    return [] if story.runs_users_files else [story.repro, *(text for _, text in story.sources)]


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
    kind = story.signature.kind
    raised = [] if kind is Kind.ACCURACY else [*story.signature.exceptions[-1:]]  # a wrong result: by a check of values
    telling, wide = _telling(story.signature.message), list(story.ops[:2]) or _names(facts_of(story).construct)
    narrow = [*raised, *telling] if telling else [*raised, *wide, *([] if raised else [kind.policy.search])]
    queries = {" ".join(words): words for words in (narrow, [*raised, *wide]) if words}
    return tuple((words, _search(words)) for words in queries)


def _search(words: str) -> str:
    query = f'is:issue label:"oncall: pt2" {words}'
    return f"{_ISSUES}?{urlencode({'q': query}, quote_via=quote)}"


def _telling(message: str) -> list[str]:
    """The words of a normalised message that few other messages have."""
    words = re.findall(r"(?<![\w<])[A-Za-z_]\w{3,}", message)
    return list(dict.fromkeys(word for word in words if not _TELLS_NOTHING.fullmatch(word)))[:_WORDS]


def _names(construct: str) -> list[str]:
    """``register_hook`` and ``remove`` of ``.register_hook(g).remove()``."""
    called = re.findall(r"([A-Za-z_]\w{2,})(?=\(|$)", construct)
    return list(dict.fromkeys(called))[:2]


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
