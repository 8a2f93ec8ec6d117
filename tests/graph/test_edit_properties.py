"""Whatever edits are put together: what comes out is a program, or nothing does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from repro_kit.graph import Program, TensorInput, parse, render, size
from repro_kit.graph.edits import Edit, rebuild, resize, set_input
from repro_kit.graph.effects import Base
from repro_kit.graph.inputs import names_of
from repro_kit.graph.values import ScalarRecord, TensorRecord
from strategies import data, programs

RECORDS = st.sampled_from(
    [
        TensorRecord((2, 3), (3, 1), storage="0", file="stored.pt"),
        TensorRecord((2, 3), (1, 2), 4, "torch.float16", "cuda", True, "1", 0.0, 1.0),
        TensorRecord((0,), (1,), 0, "torch.int64", "cpu", False, "2", None, None),
        TensorRecord((), (), 0, "torch.bool", "cpu", False, "3", 0, 1),
        ScalarRecord(4),
        None,
    ]
)

GENERATED = data().filter(lambda it: it.kind != "load")


def unbound(program: Program) -> Iterator[str]:
    """Names that functions and lines read before anything of theirs binds them: globals, in a program that is one."""
    for function in program.functions():
        known = set(function.params)
        for statement in function.statements:
            yield from (name for name in statement.reads if name not in known)
            known |= {statement.target} - {None}
        yield from (name for name in function.outputs if name not in known)
    bound: set[str] = set()
    for line in program.inputs:
        yield from (name for name in line.reads if name not in bound)
        bound.update(names_of(line))


def twice(program: Program) -> list[str]:
    """Names that are bound more than once where they may be bound once."""
    groups = [
        [*function.params, *(statement.target for statement in function.statements if statement.target)]
        for function in program.functions()
    ]
    groups.append([name for line in program.inputs for name in names_of(line)])
    return [name for names in groups for name, count in Counter(names).items() if count > 1]


@st.composite
def edits(draw, program: Program):
    """A few edits of every kind, as passes may propose them: in any order, about the same things, about nothing."""
    params, statements = program.graph.params, program.graph.statements
    values = [*params, *(statement.target for statement in statements if statement.target)]
    tensors = [input_.name for input_ in program.inputs if isinstance(input_, TensorInput)]
    value = st.sampled_from(values)
    tensor = st.sampled_from(tensors) if tensors else st.nothing()
    at = st.integers(0, len(values) - 1)
    changes = st.fixed_dictionaries(
        {}, optional={"requires_grad": st.booleans(), "parameter": st.booleans(), "strided": st.none()}
    )
    kinds = [
        st.frozensets(st.integers(0, max(0, len(statements) - 1)) if statements else st.nothing()).map(
            lambda it: Edit(removed=it)
        ),
        st.tuples(at, at)
        .filter(lambda it: it[0] != it[1])
        .map(lambda it: Edit(bypass={values[max(it)]: values[min(it)]}))
        if len(values) > 1
        else st.nothing(),
        st.lists(value, min_size=1, max_size=3).map(lambda it: Edit(outputs=tuple(it))),
        st.tuples(tensor, changes).map(lambda it: set_input(it[0], **it[1])),
        st.tuples(tensor, GENERATED).map(lambda it: set_input(it[0], data=it[1])),
        (st.none() | st.booleans()).map(lambda it: Edit(recipe={"dynamic": it})),
        st.just(Edit(marks=False)),
        st.lists(st.integers(0, len(program.calls) - 1), min_size=1, unique=True).map(lambda it: Edit(calls=tuple(it))),
        st.just(Edit(preamble="B = 2", imports=())),
        st.builds(resize, st.just({3: 2, 2: 1}), code=st.booleans()),
    ]
    return sum(draw(st.lists(st.one_of(kinds), max_size=5)), Edit())


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_an_edited_program_is_one_or_there_is_none(source: st.DataObject) -> None:
    program = source.draw(programs())
    values = [*program.graph.params, *(statement.target for statement in program.graph.statements if statement.target)]
    metadata = source.draw(st.dictionaries(st.sampled_from(values), RECORDS, max_size=len(values)))
    base = Base(program)
    built = rebuild(base, source.draw(edits(program)), metadata)
    if built is None:
        return
    edited = built.program
    assert parse(render(edited)) == edited
    assert twice(edited) == []
    assert set(unbound(edited)) <= set(unbound(program))
    bound = {name for line in edited.inputs for name in names_of(line)}
    assert edited.calls
    for call in edited.calls:
        assert len(call) == len(edited.graph.params)
        assert bound.issuperset(call)
    assert built.live == tuple(sorted(built.live))
    assert len(built.live) == len(edited.graph.statements)
    assert {body.name for body in edited.bodies} <= {body.name for body in program.bodies}
    assert size(edited) <= size(program)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_without_edits_only_what_is_dead_goes(source: st.DataObject) -> None:
    program = source.draw(programs())
    base = Base(program)
    built = rebuild(base, Edit(), {})
    assert built is not None
    assert built.program.graph.returns == program.graph.returns
    gone = [it for at, it in enumerate(program.graph.statements) if at not in built.live]
    left = {name for statement in built.program.graph.statements for name in statement.reads} | set(
        program.graph.outputs
    )
    assert left.isdisjoint(it.target for it in gone if it.target)
    assert {at for group in base.states for at in group} <= set(built.live)
