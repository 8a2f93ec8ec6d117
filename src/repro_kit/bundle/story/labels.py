"""The labels of an issue of PyTorch: those that exist, and those that fit a story."""

from __future__ import annotations

import re
from collections.abc import Iterator

from repro_kit.bundle.story.addressee import Addressee
from repro_kit.bundle.story.story import Story
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
_OF_CODE = (
    (re.compile(r"\bflex_attention\b"), ("module: flex attention",)),
    (re.compile(r"\btorch\.library\b|\bcustom_op\b"), ("module: custom-operators",)),
    (re.compile(r"\bautograd\.Function\b"), ("dynamo-autograd-function",)),
    (
        re.compile(r"\btorch\.(?:func|vmap)\b|\b_functorch\b|\bjac(?:fwd|rev)\b"),
        ("module: functorch", "dynamo-functorch"),
    ),
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
    if layer is Layer.INDUCTOR and not story.environment.accelerator:
        yield "oncall: cpu inductor"
    if story.signature.rounding:
        kind = Kind.ROUNDING
    if kind.policy.label:
        yield kind.policy.label
    if story.is_regression:
        yield "module: regression"
    if any(aspect.name == "Dynamic shapes" and aspect.kept for aspect in story.aspects):
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
    if story.runs_users_files:
        return
    code = "\n".join([story.repro, *(text for _, text in story.sources)])
    for pattern, labels in _OF_CODE:
        if pattern.search(code):
            yield from labels
