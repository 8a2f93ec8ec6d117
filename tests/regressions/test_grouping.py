"""Which cases are one bug, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.regressions.build import Mark
from repro_kit.regressions.groups import SIMILAR, CaseFacts, behave_alike, culprit_of, duplicate_of, likeness, parted

LOWERING = Signature(
    Kind.COMPILE_ERROR,
    ("InductorError", "TypeError"),
    "cannot determine truth value of Relational: … > …",
    ("lowering.py:_adaptive_avg_pool2d", "lowering.py:wrapped", "graph.py:call_function"),
    op="aten._adaptive_avg_pool2d.default",
)
FACTS = CaseFacts(LOWERING, "inductor", "lowering")
WRONG = CaseFacts(Signature(Kind.ACCURACY, difference="value", magnitude=0.4), "inductor")


def with_signature(**changes: object) -> CaseFacts:
    return replace(FACTS, signature=replace(LOWERING, **changes))


def test_equal_signatures_are_one_bug() -> None:
    alike = likeness(with_signature(magnitude=0.1), FACTS)
    assert alike.same and alike.why.startswith("equal signatures: InductorError")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (replace(FACTS, layer="aot"), "different layers: inductor and aot"),
        (replace(FACTS, cause="scheduler"), "different causes"),
        (with_signature(op="aten.index_put.default"), "different operators"),
        (with_signature(kind=Kind.RUNTIME_ERROR), "different kinds"),
        (CaseFacts(), "different kinds"),
    ],
)
def test_a_contradiction_is_no_duplicate(other: CaseFacts, why: str) -> None:
    alike = likeness(FACTS, other)
    assert (alike.same, alike.score, why in alike.why) == (False, 0.0, True)


def test_a_wrong_result_needs_more_than_its_signature() -> None:
    assert not likeness(WRONG, WRONG).same
    named = replace(WRONG, culprit="#3 aten.amax.default")
    assert likeness(named, named).same
    assert not likeness(named, replace(WRONG, culprit="#1 aten.mean.dim")).same
    assert likeness(replace(WRONG, operators=("a.b", "c.d")), replace(WRONG, operators=("c.d", "a.b"))).same


def test_a_bare_exception_is_not_recognised_by_its_type() -> None:
    bare = CaseFacts(Signature(Kind.RUNTIME_ERROR, ("AssertionError",)))
    assert not likeness(bare, bare).same


def test_similar_cases_are_one_bug_only_when_they_behave_alike() -> None:
    moved = with_signature(frames=("lowering.py:_adaptive_avg_pool2d", "lowering.py:inner", "graph.py:run_node"))
    alike = likeness(moved, FACTS)
    assert SIMILAR <= alike.score < 1 and not alike.same and "frames" in alike.why
    marks = {"releases 2.12": Mark.BAD, "releases 2.13": Mark.BAD, "releases 2.14": Mark.GOOD}
    assert behave_alike(marks, marks) == "both fail and pass on the same 3 builds"
    assert behave_alike(marks, {**marks, "releases 2.13": Mark.GOOD}) == ""
    assert behave_alike({"releases 2.12": Mark.BAD}, marks) == "", "one build is no behaviour"
    assert behave_alike(dict.fromkeys(marks, Mark.BAD), dict.fromkeys(marks, Mark.BAD)) == "", "no flip in common"
    assert parted(marks, {**marks, "releases 2.14": Mark.BAD}).startswith("it passes on releases 2.14")
    assert parted(marks, {**marks, "releases 2.14": Mark.SKIP}) == ""


def test_the_oldest_of_the_most_alike_is_the_original() -> None:
    similar = with_signature(frames=("lowering.py:_adaptive_avg_pool2d", "lowering.py:inner"))
    earlier = {"similar": similar, "first": FACTS, "second": FACTS, "other": WRONG}
    best = duplicate_of(FACTS, earlier)
    assert best is not None and best[0] == "first"
    assert duplicate_of(WRONG, {"first": FACTS}) is None


def test_the_culprit_is_read_from_a_stranger_s_chain() -> None:
    links = [{"culprit": "inductor"}, {"culprit": "#0 aten.relu.default"}, {"culprit": "gone with eager's kernel"}]
    flips = [{"name": "inductor.pattern_matcher"}, "nonsense"]
    assert culprit_of({"chain": {"links": [*links, 7], "flips": flips}}) == (
        "#0 aten.relu.default",
        ("inductor.pattern_matcher",),
    )
    assert culprit_of({"chain": "text"}) == ("", ())
