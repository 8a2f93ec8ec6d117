"""Calls of several graphs of one frame, as arguments of one of the graphs."""

from dataclasses import replace

from repro_kit.graph.reading.graph_record import InputRecord
from repro_kit.stages.capture.recording import arguments_for

X = InputRecord("tensor", "L_x_", "L['x']", shape=(4,), symbols=("s0",))
SIZE = InputRecord("int", "s0", "L['x'].size()[0]", value=4, symbol="s0", symbolic=True)
COUNT = InputRecord("int", "L_n_", "L['n']", value=7, symbol="s1", symbolic=True)
RATE = InputRecord("tensor", "L_rate_", "L['rate']", value=0.25, as_tensor=True)


def test_a_number_that_was_a_constant_in_the_earlier_graph_has_another_value() -> None:
    first = arguments_for((RATE, COUNT, X), (X,), (X,))
    assert first is not None
    assert [first[0].value, first[1].value] == [1.25, 8]


def test_a_later_call_has_its_own_numbers_and_sizes() -> None:
    own = (RATE, SIZE, COUNT, X)
    call = (
        InputRecord("tensor", scalar=0.5),
        InputRecord("int", value=99),
        InputRecord("int", value=9),
        replace(X, shape=(6,)),
    )
    later = arguments_for(own, own, call)
    assert later is not None
    assert [record.value for record in later[:3]] == [0.5, 6, 9]


def test_tensors_are_known_by_their_source() -> None:
    y = replace(X, name="L_y_", source="L['y']")
    values = (replace(y, file="y.pt"), replace(X, file="x.pt"))
    arguments = arguments_for((X, y), (y, X), values)
    assert arguments is not None
    assert [record.file for record in arguments] == ["x.pt", "y.pt"]


def test_a_call_with_other_tensors_does_not_fit() -> None:
    assert arguments_for((X,), (X,), (replace(X, shape=(2, 2)),)) is None
    assert arguments_for((X,), (X, replace(X, source="L['y']")), (X, X)) is None
