"""Which stored values of a program can be replaced by generated ones."""

from repro_kit.graph import parse
from repro_kit.graph.edits import stored_inputs
from repro_kit.graph.values import TensorRecord

PROGRAM = """
def graph(x):
    y = x.sin()
    return (y,)


def calls():
    x_start = load("values_0.pt").requires_grad_()
    x = x_start.clone()
    return [(x,)]
"""


def test_the_values_that_an_argument_is_a_copy_of_are_like_the_argument() -> None:
    record = TensorRecord((2, 3), (3, 1), requires_grad=True)
    ((line, found),) = stored_inputs(parse(PROGRAM), {"x": record})
    assert (line.name, found) == ("x_start", record)
