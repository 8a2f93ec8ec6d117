"""The tolerance that a user's check states, as far as text tells."""

import pytest

from repro_kit.failure.failure import ExceptionLink, Frame
from repro_kit.failure.messages import is_loose, stated_tolerance

CLOSE = (
    "Tensor-likes are not close!\n\nMismatched elements: 3 / 3 (100.0%)\n"
    "Greatest absolute difference: 1.0 at index (0,) (up to {} allowed)\n"
    "Greatest relative difference: 0.5 at index (0,) (up to {} allowed)"
)


@pytest.mark.parametrize(
    ("message", "code", "tolerance"),
    [
        (CLOSE.format("0.001", "0.0"), "raise error", (0.0, 0.001)),
        (CLOSE.format("1e-05", "1.3e-06"), "raise error", None),
        ("Not equal to tolerance rtol=0.01, atol=0", "raise AssertionError(msg)", (0.01, 0.0)),
        ("Not equal to tolerance rtol=1e-07, atol=0", "raise AssertionError(msg)", None),
        ("assert False\n +  where False = <built-in method allclose of type>(a, b, atol=0.001)", "", (1e-5, 0.001)),
        ("", "assert torch.allclose(a, b, rtol=1e-2, atol = 2e-3)", (0.01, 0.002)),
        ("", "assert torch.allclose(a, b)", None),
        ("", "assert torch.equal(a, b)", (0.0, 0.0)),
        ("outputs differ", "raise RuntimeError('outputs differ')", None),
    ],
)
def test_stated_tolerance(message: str, code: str, tolerance: tuple[float, float] | None) -> None:
    assert stated_tolerance(ExceptionLink("AssertionError", message, (Frame("t.py", 1, "main", code),))) == tolerance


def test_what_is_loose() -> None:
    assert is_loose((0.0, 1e-3)) and is_loose((1e-2, 0.0))
    assert not is_loose((0.0, 0.0)) and not is_loose((1e-7, 1e-8))
