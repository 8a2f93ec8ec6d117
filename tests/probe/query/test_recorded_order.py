"""What holds of all elements together is recorded: offsets rise, a permutation has each number, a mask is a corner."""

import pytest

torch = pytest.importorskip("torch")
from repro_probe.query.record_values import ValueRecorder  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("values", "dtype", "form"),
    [
        ([0, 6, 6, 20], "int64", "rises"),
        ([0, 3, 250], "uint8", "rises"),
        ([0, 6, 5, 20], "int64", ""),
        ([250, 3, 251], "uint8", ""),
        ([4, 4, 4], "int64", ""),
        ([0, 1], "int64", ""),
        ([0.0, 1.0, 2.0], "float32", ""),
        ([0.0, 0.1, 0.1, 0.5, 2.0, 3.0, 4.0, 9.5], "float32", "rises"),
        ([0.0, 0.1, 0.1, 0.5, 2.0, 3.0, 4.0, float("inf")], "float32", ""),
        ([[0, 1, 2]], "int64", ""),
        ([2, 0, 1], "int64", "permutation"),
        ([3, 0, 1], "int64", ""),
        ([[0.25, 0.75], [1.0, 0.0]], "float16", "probabilities"),
        ([[0.25, 0.75], [1.0, 1.0]], "float32", ""),
        ([[1, 0], [1, 1]], "bool", "lower"),
        ([[0, 1, 1], [0, 0, 1]], "bool", "upper"),
        ([[1, 1], [1, 1]], "bool", ""),
    ],
)
def test_what_holds_of_all_elements(values: list[float], dtype: str, form: str) -> None:
    recorder = ValueRecorder([], None)
    recorder.record("x", torch.tensor(values, dtype=getattr(torch, dtype)))
    assert recorder.values["x"]["form"] == form
