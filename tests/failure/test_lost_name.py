"""A name that a program lost is told from an error of the code that it was made from."""

import pytest

from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind
from repro_kit.failure.missing import lost_name

PROGRAM = Frame("/tmp/x/program.py", 8, "graph", "")
OPS = Frame("/venv/lib/python3.11/site-packages/torch/_ops.py", 8, "__getattr__", "")
INDUCTOR = Frame("/venv/lib/python3.11/site-packages/torch/_tensor.py", 10, "run", "")


def failure(kind: str, message: str, frame: Frame) -> Failure:
    return Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink(kind, message, (frame,)),))


@pytest.mark.parametrize(
    ("kind", "message", "frame"),
    [
        ("NameError", "name 'tensor' is not defined", PROGRAM),
        ("ImportError", "cannot import name 'sym_x' from 'torch'", PROGRAM),
        ("ModuleNotFoundError", "No module named 'somewhere'", PROGRAM),
        ("AttributeError", "module 'torch' has no attribute 'renamed'", PROGRAM),
        ("AttributeError", "'_OpNamespace' 'aten' object has no attribute 'renamed'", OPS),
        ("AttributeError", "The underlying op of 'aten.add' has no overload name 'Other'", OPS),
        ("RuntimeError", "operator torchvision::nms does not exist", OPS),
        ("RuntimeError", "aten::relu() expected at most 1 argument(s) but received 2 argument(s).", OPS),
        ("RuntimeError", "aten::add() is missing value for argument 'other'.", OPS),
        ("RuntimeError", "Overloaded torch operator invoked from Python failed to match any schema:", OPS),
        ("AttributeError", "'_HigherOrderNamespace' 'torch.ops.higher_order' object has no attribute 'old'", OPS),
    ],
)
def test_a_lost_name(kind: str, message: str, frame: Frame) -> None:
    assert lost_name(failure(kind, message, frame)) == f"{kind}: {message}"


@pytest.mark.parametrize(
    ("kind", "message", "frame"),
    [
        ("RuntimeError", "The size of tensor a (2) must match the size of tensor b (3)", PROGRAM),
        ("AttributeError", "'Tensor' object has no attribute 'foo'", INDUCTOR),
        ("TypeError", "add() got an unexpected keyword argument", PROGRAM),
    ],
)
def test_another_error(kind: str, message: str, frame: Frame) -> None:
    assert lost_name(failure(kind, message, frame)) == ""
    assert lost_name(None) == ""
