"""Whole numbers that rise, such as the offsets of a jagged tensor, are recorded as such."""

import pytest

torch = pytest.importorskip("torch")
from repro_probe.query.record_values import ValueRecorder  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("values", "dtype", "rises"),
    [
        ([0, 6, 6, 20], "int64", True),
        ([0, 3, 250], "uint8", True),
        ([0, 6, 5, 20], "int64", False),
        ([250, 3, 251], "uint8", False),
        ([4, 4, 4], "int64", False),
        ([0, 1], "int64", False),
        ([0.0, 1.0, 2.0], "float32", False),
        ([[0, 1, 2]], "int64", False),
    ],
)
def test_what_rises(values: list[float], dtype: str, rises: bool) -> None:
    recorder = ValueRecorder([], None)
    recorder.record("x", torch.tensor(values, dtype=getattr(torch, dtype)))
    assert recorder.values["x"]["rises"] is rises
