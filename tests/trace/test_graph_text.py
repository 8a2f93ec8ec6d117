"""Which graphs count as the same graph for other sizes."""

import pytest

from repro_kit.trace.graph_text import shape_of


def graph(*expressions: str) -> str:
    lines = [f"        v{at} = {expression}" for at, expression in enumerate(expressions)]
    return "\n".join(['    def forward(self, x: "f32[4, 8]cpu"):', *lines, "        return (v0,)"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x.view(4, 8)", "x.view(2, 16)"),
        ("torch.ops.aten.expand.default(x, [4, 8])", "torch.ops.aten.expand.default(x, [s0, 8])"),
        ("x[(slice(None, 3, None), 1)]", "x[(slice(None, 4, None), 1)]"),
        ("torch.zeros(4, 8)", "torch.zeros(5, 8)"),
    ],
)
def test_graphs_that_differ_in_sizes_are_the_same(one: str, other: str) -> None:
    assert shape_of(graph(one)) == shape_of(graph(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [("x.sum(dim = 0)", "x.sum(dim = 1)"), ("x * 2", "x * 3"), ("x.sin()", "x.cos()"), ("x ** 2", "x ** 3")],
)
def test_graphs_that_compute_other_things_are_not(one: str, other: str) -> None:
    assert shape_of(graph(one)) != shape_of(graph(other))
