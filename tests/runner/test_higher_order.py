"""Graphs with higher-order operators, as Dynamo writes them, are programs that compile again and agree with eager."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro_kit.failure.failure import Status
from repro_kit.graph import parse
from repro_kit.graph.hops import all_inlined
from repro_kit.graph.program_text import render
from repro_kit.graph.reading.from_graph import Variant, build_program
from repro_kit.graph.reading.graph_record import GraphRecord, InputRecord
from repro_kit.recipe import Recipe
from repro_kit.runner.program_oracle import ProgramOracle

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCAN = (
    "    y = l_y_ + 1\n    body = self.body\n    scan = torch.ops.higher_order.scan(body, [y], [l_x_], [])\n"
    "    a = scan[0]\n    b = scan[1]\n    return (a, b)\n",
    "def forward(self, c, x):\n    d = c.sin() + x\n    e = d * 2\n    return [e, d]\n",
)
REGION = (
    "    body = self.body\n    one = torch.ops.higher_order.invoke_subgraph(body, 'body', l_x_, l_y_)\n    a = one[0]\n"
    "    body_again = self.body\n    two = torch.ops.higher_order.invoke_subgraph(body_again, 'body', a, l_y_)\n"
    "    b = two[0]\n    return (b,)\n",
    "def forward(self, x, y):\n    a = x.sin() * y\n    b = a.cos()\n    return (b,)\n",
)
FLEX = (
    "    q = l_x_ * 2\n    body = self.body\n    mask = self.mask\n"
    "    n = torch.ones([1, 1, 1], dtype = torch.int32)\n    i = torch.zeros([1, 1, 1, 1], dtype = torch.int32)\n"
    "    flex = torch.ops.higher_order.flex_attention(q, l_x_, l_x_, body, (1, 1, n, i, None, None, n, i, None, None,"
    " None, None, None, None, 1073741824, 1073741824, mask), 0.25, {'BACKEND': 'AUTO', 'PRESCALE_QK': False,"
    " 'OUTPUT_LOGSUMEXP': False, 'OUTPUT_MAX': False}, (l_y_,), ())\n    a = flex[0]\n    return (a,)\n",
    "def forward(self, s, b, h, q, k, bias):\n    a = s + bias[0]\n    c = a + (q - k)\n    return c\n",
)
MASK = "def forward(self, b, h, q, k):\n    t = b.new_ones(size = (), dtype = torch.bool)\n    return t\n"


def text(code: tuple[str, str], shape: tuple[int, ...], more: dict[str, str]) -> str:
    def tensor(name: str, sizes: tuple[int, ...]) -> InputRecord:
        stride = tuple(1 if at == len(sizes) - 1 else sizes[-1] for at in range(len(sizes)))
        return InputRecord("tensor", f"L_{name}_", f"L['{name}']", shape=sizes, stride=stride, storage=name)

    main = f"def forward(self, L_x_, L_y_):\n    l_x_ = L_x_\n    l_y_ = L_y_\n{code[0]}"
    inputs = (tensor("x", shape), tensor("y", shape[-1:]))
    graph = GraphRecord(0, 1, "0/0", code=main, inputs=inputs, modules={"body": code[1], **more})
    return render(parse(build_program(graph, Recipe(fullgraph=True), Variant())))


@pytest.mark.parametrize(
    ("code", "shape", "more"),
    [(SCAN, (3, 4), {}), (REGION, (3, 4), {}), (FLEX, (1, 1, 16, 16), {"mask": MASK})],
    ids=["scan", "invoke_subgraph", "flex_attention"],
)
def test_the_public_form_compiles_and_agrees_with_eager(
    oracle: ProgramOracle, tmp_path: Path, code: tuple[str, str], shape: tuple[int, ...], more: dict[str, str]
) -> None:
    (verdict,) = oracle.check([text(code, shape, more)], tmp_path, timeout=120)
    assert verdict.status is Status.PASS, verdict


def test_an_inlined_region_compiles_too(oracle: ProgramOracle, tmp_path: Path) -> None:
    whole = all_inlined(parse(text(REGION, (3, 4), {})))
    assert whole is not None
    assert not whole.bodies
    (verdict,) = oracle.check([render(whole)], tmp_path, timeout=120)
    assert verdict.status is Status.PASS, verdict
