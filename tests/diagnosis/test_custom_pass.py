"""A pass of the user's own is at fault only where the chain of evidence leaves no doubt."""

from dataclasses import replace

import pytest

from repro_kit.diagnosis.culprit import CUSTOM_PASS, is_custom_pass, of_users_pass
from repro_kit.diagnosis.evidence import Chain, Link, Side
from repro_kit.failure.failure import Layer

GOOD, BAD = Side("off", "passes"), Side("on", "fails as observed")
SUBSYSTEM = Link("subsystem", "post_grad_passes", "", GOOD, BAD)
BEGINS = Link("op", "#8 post_grad_custom_post_pass", "", GOOD, BAD, finding="users-pass")
ALONE = Link("op", "gone with that one off", "", GOOD, BAD, finding="alone")
LOWERED = Link("op", "not gone without lowerings", "", bad=BAD, beside=True, finding="stays-without-lowerings")


def test_the_pass_without_which_the_failure_is_gone_is_at_fault() -> None:
    found = of_users_pass(Chain("program", (SUBSYSTEM, BEGINS, ALONE, LOWERED)))
    assert found is not None
    assert (found.layer, found.cause) == (Layer.USER, CUSTOM_PASS)
    assert "(post_grad_custom_post_pass)" in found.sentence and "not to blame" in found.sentence


@pytest.mark.parametrize(
    "links",
    [
        (),
        (SUBSYSTEM,),
        (SUBSYSTEM, BEGINS, ALONE),  # eager's kernels were not seen to give the same wrong result
        (SUBSYSTEM, BEGINS, LOWERED),  # the border is not sharp
        (SUBSYSTEM, BEGINS, replace(ALONE, good=None, beside=True), LOWERED),
        (SUBSYSTEM, BEGINS, replace(ALONE, bad=None), LOWERED),  # needs another pass beside it
        (SUBSYSTEM, replace(BEGINS, culprit="#8 stable_topological_sort", finding=""), ALONE, LOWERED),
        (SUBSYSTEM, BEGINS, ALONE, LOWERED, replace(SUBSYSTEM, culprit="joint_graph_passes", beside=True)),
    ],
)
def test_a_doubt_leaves_the_layer_as_it_is(links: tuple[Link, ...]) -> None:
    assert of_users_pass(Chain("program", links)) is None


def test_which_passes_are_the_users() -> None:
    custom = ["post_grad_custom_pre_pass", "joint_custom_post_pass", "pre_grad_custom_pass"]
    assert all(map(is_custom_pass, custom))
    assert not any(map(is_custom_pass, ["remove_noop_ops", "pass_pattern_1", "fuse_ddp_pass"]))
