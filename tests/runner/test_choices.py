"""Indices are judged by the values that they select and by their range; what rounding decides is no failure."""

from typing import Any

import pytest

from repro_kit.failure.failure import Status, Verdict
from repro_kit.runner.program_oracle import ProgramOracle
from texts import program, spoiling

pytestmark = pytest.mark.torch

APART = "x = torch.randn(4, 8)\nreturn [(x,)]"
TIES = "x = torch.randint(0, 3, (4, 8)).float()\nreturn [(x,)]"
ONES = "x = torch.ones(4, 8)\nreturn [(x,)]"
#: The index that a choice from behind gives: another one among equal values.
FROM_BEHIND = "7 - torch.{}(args[0].flip(1), {})[1]"


def judge(oracle: ProgramOracle, text: str) -> Verdict:
    (verdict,) = oracle.check([text], None, timeout=600)
    return verdict


def choosing(expression: str, spoiled: str, calls: str) -> str:
    return spoiling(spoiled, body=f"y = {expression}\nreturn (y,)", calls=calls)


@pytest.mark.parametrize(
    ("expression", "other"),
    [
        ("torch.max(x, 1)[1]", FROM_BEHIND.format("max", 1)),
        ("torch.sort(x, dim=1)[1]", "7 - torch.sort(args[0].flip(1), dim=1, stable=True)[1]"),
        ("torch.topk(x, 3)[1]", FROM_BEHIND.format("topk", 3)),
        ("torch.median(x, 1)[1]", FROM_BEHIND.format("median", 1)),
        ("torch.argmax(x)", "31 - torch.argmax(args[0].flatten().flip(0))"),
        ("torch.mode(x, 1)[1]", "(args[0] == args[0].mode(1)[0][:, None]).int().argmax(1)"),
        ("torch.argmin(x, 1).view(2, 2).t().to(torch.int32)",
         "(7 - torch.argmin(args[0].flip(1), 1)).view(2, 2).t().to(torch.int32)"),
    ],
)  # fmt: skip
def test_another_index_of_the_same_value_is_right(oracle: ProgramOracle, expression: str, other: str) -> None:
    verdict = judge(oracle, choosing(expression, other, TIES))
    assert verdict.status is Status.PASS and "ties" in verdict.note


@pytest.mark.parametrize(
    ("expression", "wrong", "calls", "words"),
    [
        ("torch.argmin(x, 1)", "torch.argmax(args[0], 1)", TIES, "selects"),
        ("torch.argmin(x, 1).view(2, 2).t().to(torch.int32)",
         "torch.argmax(args[0], 1).view(2, 2).t().to(torch.int32)", TIES, "selects"),
        ("torch.argmax(x, 1)", "out + 8", ONES, "outside of 0…7"),
        ("torch.argmax(x, 1)", "out - 1", ONES, "outside of 0…7"),
        ("torch.sort(x, dim=1)[1]", "out.flip(1)", APART, "selects"),
        ("torch.sort(x, dim=1)[1]", "out[:, :1].expand(4, 8).contiguous()", ONES, "more than once"),
        ("torch.topk(x, 3)[1]", "(out + 1) % 8", APART, "selects"),
        ("torch.kthvalue(x, 2)[1]", "(out + 1) % 8", APART, "selects"),
        ("torch.mode(x, 1)[1]", "(args[0] != args[0].mode(1)[0][:, None]).int().argmax(1)", TIES, "selects"),
        ("torch.nn.functional.max_pool2d(x[None], 2, return_indices=True)[1]", "out + 32", ONES, "outside of 0…31"),
    ],
)  # fmt: skip
def test_a_wrong_index_is_found_among_ties_too(
    oracle: ProgramOracle, expression: str, wrong: str, calls: str, words: str
) -> None:
    failure = judge(oracle, choosing(expression, wrong, calls)).failure
    assert failure is not None and failure.difference is not None
    assert failure.difference.exact and words in failure.difference.detail


@pytest.mark.parametrize(
    ("body", "other", "calls"),
    [
        # The last digit decides: a comparison, a conversion, a choice that other values are taken by.
        ("y = x * 0.1 > 0.3", "args[0].double() * 0.1 > 0.3", "x = torch.arange(12.)"),
        ("y = (x * 0.7 + 0.3).floor().int()", "((args[0] * 0.7 + 0.3) * (1 + 2e-7)).floor().int()",
         "x = (torch.arange(12.) - 0.3) / 0.7"),
        ("i = torch.argmax(x, 0, keepdim=True)\ny = torch.arange(12.).sin().gather(0, i)", "torch.sin(torch.ones(1))",
         "x = torch.tensor([0., 1., 0., 0., 0., 0., 0., 1., 0., 0., 0., 0.])"),
    ],
)  # fmt: skip
def test_what_rounding_decides_is_no_failure(oracle: ProgramOracle, body: str, other: str, calls: str) -> None:
    text = spoiling(other, body=f"{body}\nreturn (y,)", calls=f"{calls}\nreturn [(x,)]")
    assert judge(oracle, text).status is Status.PASS


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("y = x > 5", "~out"),
        ("y = (x * 10).int()", "out + 1"),
        ("y = (x > 5).nonzero()", "out.flip(0)"),
        ("y = x.long() + 2 ** 60", "out + 1"),
        ("i = torch.argmax(x, 1)\ny = (x.sin() * 2)[:, 0] + i * 0", "out * 1.1"),
    ],
)
def test_what_rounding_does_not_decide_is_a_failure(oracle: ProgramOracle, body: str, wrong: str) -> None:
    assert judge(oracle, spoiling(wrong, body=f"{body}\nreturn (y,)")).status is Status.FAIL


LOWERED = """
from torch._inductor.lowering import lowerings
aten = torch.ops.aten
argmax = lowerings[aten.argmax.default]
def last(x, dim, keepdim=False):
    at = argmax(lowerings[torch.ops.prims.rev.default](x, [dim]), dim, keepdim)
    return lowerings[aten.sub.Tensor](int(x.get_size()[dim]) - 1, at)
"""


@pytest.mark.slow
def test_a_lowering_that_chooses_wrongly_is_found_in_inductor(oracle: ProgramOracle) -> None:
    def text(body: str, lowering: str, calls: str = TIES, **more: Any) -> str:
        return program(f"{body}\nreturn (y,)", calls, LOWERED + lowering, backend="inductor", **more)

    wrong = "lowerings[aten.argmin.default] = argmax\n"
    other = "lowerings[aten.argmax.default] = last\n"
    wrong_index, another_index, downstream = oracle.check(
        [
            text("y = torch.argmin(x * 2 + 1, 1)", wrong),
            text("y = torch.argmax(x * 2 + 1, 1)", other),
            text("i = torch.argmax(x, 1)\ny = torch.arange(8.).sin()[i]", other),
        ],
        None,
    )
    assert wrong_index.failure is not None and wrong_index.failure.difference is not None
    assert "selects" in wrong_index.failure.difference.detail
    assert another_index.status is Status.PASS and "ties" in another_index.note
    assert downstream.status is Status.PASS
