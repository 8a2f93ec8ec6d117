"""A program that gets as far as a native compiler has passed, where the failure comes before."""

import pytest

from repro_kit.failure.failure import Phase, Status
from repro_kit.failure.kinds import Kind
from repro_kit.runner.program_oracle import ProgramOracle
from texts import program

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_until_native_leaves_out_the_native_compiler_and_keeps_what_fails_before_it(oracle: ProgramOracle) -> None:
    broken = {"inductor.cpp.inject_relu_bug_TESTING_ONLY": "compile_error"}
    text = program("y = torch.relu(x)\nreturn (y,)", backend="inductor", config=broken)
    (left_out,) = oracle.check([text], None, until="native")
    assert left_out.status is Status.PASS
    assert "native" in left_out.note
    (whole,) = oracle.check([text], None)
    assert whole.failure is not None and whole.failure.kind is Kind.COMPILE_ERROR
    lowering = (
        "import torch._inductor.lowering as lowering\n"
        "@lowering.register_lowering(torch.ops.aten.relu.default)\n"
        "def relu(x):\n    raise ValueError('no such lowering')\n"
    )
    text = program("y = torch.relu(x)\nreturn (y,)", backend="inductor", preamble=lowering)
    (early,) = oracle.check([text], None, until="native")
    assert early.failure is not None and "no such lowering" in early.failure.exceptions[-1].message


def test_until_native_backward_lets_the_forward_be_compiled(oracle: ProgramOracle) -> None:
    needs_cosh = {"body": "y = torch.sinh(x)\nreturn (y,)", "calls": "return [(torch.randn(3).requires_grad_(),)]"}
    broken = (
        "import torch._inductor.lowering as lowering\n"
        "def no(*arguments):\n    raise ValueError('no such lowering')\n"
        "lowering.lowerings[torch.ops.aten.cosh.default] = no\n"
    )
    texts = [
        program(**needs_cosh, backend="inductor", backward="sum"),
        program(**needs_cosh, backend="inductor", backward="none"),
        program(**needs_cosh, backend="inductor", backward="sum", preamble=broken),
    ]
    whole, forward, fails = oracle.check(texts, None, until="native_backward")
    assert all(it.status is Status.PASS and "before the native compiler" in it.note for it in (whole, forward))
    assert fails.failure is not None and fails.failure.phase is Phase.BACKWARD
    assert "no such lowering" in fails.failure.exceptions[-1].message
