"""What a statement knows of itself, however it was made."""

import pytest

from repro_kit.graph import Statement
from repro_kit.graph.program import tuple_of


def same_facts(made: Statement) -> None:
    read = Statement(made.target, made.text)
    assert (made.reads, made.constants) == (read.reads, read.constants)


@pytest.mark.parametrize("text", ["torch.add(a, b, alpha=2)", "a + b * a", "b[0:3, a]", "(a, [b, c], 1.5)", "a.sum(1)"])
@pytest.mark.parametrize("names", [{"a": "x"}, {"a": "b"}, {"b": "a"}, {"a": "c", "b": "c"}, {"z": "a"}])
def test_other_names_leave_the_rest_as_it_was(text, names):
    statement = Statement("v", text)
    made = statement.substitute(names)
    same_facts(made)
    assert not set(made.reads) & (set(names) - set(names.values()))
    assert statement.substitute(names) is made or made is statement


@pytest.mark.parametrize("names", [(), ("a",), ("a", "b")])
def test_a_tuple_reads_its_names(names):
    same_facts(tuple_of(names))


def test_the_callee_is_cut_out_of_the_text():
    assert Statement("v", "torch.ops.aten.relu.default(é)").callee == "torch.ops.aten.relu.default"
    assert Statement("v", "x[0](y)").callee == "x[0]"
    assert Statement("v", "é + 1").callee == ""
