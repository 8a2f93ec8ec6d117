"""The chain of evidence as text."""

from repro_kit.diagnosis.evidence import Chain, Link, Side, Untried, chain_markdown, in_one_line
from repro_kit.serialize import from_data, to_data

CHAIN = Chain(
    "program",
    (
        Link("backend", "inductor", "Backend 'inductor' fails, backend 'eager' passes."),
        Link(
            "subsystem",
            "lowerings",
            "The failure is gone with lowerings off.",
            good=Side("all 3 off", "passes", "A=1 python x"),
        ),
        Link("subsystem", "post_grad_passes", "The failure is gone with post_grad_passes off.", beside=True),
        Link(
            "op",
            "#2 aten.relu.default",
            "The failure begins with #2.",
            bad=Side("up to #2", "fails as observed"),
            where="x.py:3: relu(x)",
        ),
    ),
    (Untried("flips", "it would take an hour"),),
    runs=12,
)


def test_one_line_leaves_out_what_is_beside_the_way() -> None:
    assert in_one_line(CHAIN) == "inductor → lowerings → #2 aten.relu.default"


def test_markdown_has_both_sides_and_what_was_not_tried() -> None:
    assert chain_markdown(CHAIN).splitlines() == [
        "**inductor → lowerings → #2 aten.relu.default**",
        "",
        "- Backend 'inductor' fails, backend 'eager' passes.",
        "- The failure is gone with lowerings off.",
        "  - good: all 3 off: passes (`A=1 python x`)",
        "- also: The failure is gone with post_grad_passes off.",
        "- The failure begins with #2 (x.py:3: relu(x)).",
        "  - bad: up to #2: fails as observed",
        "- no flips named: it would take an hour",
    ]
    assert chain_markdown(Chain("script", CHAIN.links[:1])) == ""


def test_it_survives_the_disk() -> None:
    assert from_data(to_data(CHAIN), Chain) == CHAIN
