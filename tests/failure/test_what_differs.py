"""Whether what differs at the end is what differed at first."""

from dataclasses import replace

import pytest

from repro_kit.failure.differences import changed_since
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature


def wrong(difference: str | None, *places: str, message: str = "", kind: Kind = Kind.ACCURACY) -> Signature:
    return Signature(kind, difference=difference, places=places, message=message)


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        (wrong("value", "output"), wrong("alias", "output"), ("the values of an output", "the memory that is shared")),
        (wrong("value", "argument"), wrong("value", "output"), ("values of an argument,", "values of an output.")),
        (
            wrong("value", "gradient"),
            wrong("value", "gradient", "output"),
            ("values of a gradient,", "values of a gradient and an output."),
        ),
        (wrong("value"), wrong("stride", "output"), ("it is the values, in repro.py", "the stride of an output")),
        (
            wrong("alias"),
            replace(wrong("alias"), worse=("shape",)),
            ("memory that is shared, in repro.py it is the shape",),
        ),
        (
            wrong(None, message="Tensor-likes are not close!"),
            wrong("dtype", "output"),
            ("in the script it is the values,", "the dtype of an output."),
        ),
        (
            wrong(None, message="The values for attribute 'requires_grad' do not match"),
            wrong("value", "gradient"),
            ("the requires_grad,", "values of a gradient."),
        ),
    ],
)
def test_a_change_is_told(first: Signature, last: Signature, words: tuple[str, ...]) -> None:
    sentence = changed_since(first, last)
    assert sentence.startswith("What differs from eager has changed: ")
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (wrong("value", "output"), wrong("nan", "output")),
        (wrong("value", "output", "gradient"), wrong("value", "gradient")),
        (wrong(None, message="the model is off"), wrong("alias", "output")),
        (wrong(None, message="Tensor-likes are not close!"), wrong("value", "gradient")),
        (wrong(None, kind=Kind.CRASH), wrong("value", "output")),
    ],
)
def test_nothing_is_told_where_it_is_the_same_or_not_known(first: Signature, last: Signature) -> None:
    assert changed_since(first, last) == ""
