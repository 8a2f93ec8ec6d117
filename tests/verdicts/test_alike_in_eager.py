"""What eager raises is what compiled code raises, where the words differ only in the place of generated code."""

from __future__ import annotations

import pytest

from repro_kit.case.stage_results import ObservedFailure
from repro_kit.failure.failure import ExceptionLink, Failure, Phase
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.verdicts.alike_in_eager import is_alike

THROWS = "inductor_cpu_throw_if_integer_div_error, /site/torch/include/torch/csrc/inductor/cpp_prefix.h:827, "


def raised(type: str, message: str) -> ObservedFailure:
    failure = Failure(Kind.RUNTIME_ERROR, Phase.RUN, exceptions=(ExceptionLink(type, message),))
    return ObservedFailure(failure, signature_of(failure))


@pytest.mark.parametrize(
    ("in_eager", "compiled", "alike"),
    [
        (("RuntimeError", "ZeroDivisionError"), ("RuntimeError", f"{THROWS}ZeroDivisionError"), True),
        (("RuntimeError", "ZeroDivisionError"), ("ValueError", f"{THROWS}ZeroDivisionError"), False),
        (("RuntimeError", "ZeroDivisionError"), ("RuntimeError", f"{THROWS}index out of bounds"), False),
        (("RuntimeError", "ZeroDivisionError"), ("RuntimeError", "not a ZeroDivisionError"), False),
        (("RuntimeError", ""), ("RuntimeError", THROWS), False),
    ],
)
def test_the_place_of_generated_code_makes_no_other_failure(in_eager, compiled, alike) -> None:
    assert is_alike(raised(*in_eager), raised(*compiled)) is alike
