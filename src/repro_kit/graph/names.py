"""Short names for the inputs of a finished program, for values with long names, and for parameters of functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count

from repro_kit.graph.inputs import DynamicMark, Input, OpaqueInput, ScalarInput, TensorInput, names_of
from repro_kit.graph.program import Function, Program, Statement
from repro_kit.graph.program_text import render
from repro_kit.graph.reading.raw_graph import Rename
from repro_kit.reduce.reduction import Result

_TENSORS, _PARAMETERS, _NUMBERS, _VALUES = "xyzabcdefgh", "wbuvpqr", "nmkst", "v"
_LONGEST = 10  # characters of a user's name that stays
_LONGEST_VALUE = 16
_WORDS = re.compile(r"[A-Za-z]+\d?(_[A-Za-z]+\d?)*")  # not `arg0_1`, `primals_2` or `__params___9`
_NAME = re.compile(r"[^\W\d]\w*")
#: The function of a call of torch.func, with outer values that it reads.
_LAMBDA = re.compile(r"lambda [\w, ]+: (?P<body>\w+)\((?P<passed>[\w, ]+)\)")


def plain_names(program: Program, known: Collection[str]) -> dict[str, str]:
    """Old name -> short name, for what has no good name in the graph. `known`: names that the user may have given."""
    taken = set(_NAME.findall(render(program)))
    lines = {line.name: line for line in program.inputs if isinstance(line, TensorInput | ScalarInput)}
    params = program.graph.params
    first = dict(zip(params, program.calls[0], strict=True))
    names: dict[str, str] = {}
    for param in params:
        if param not in known or not _is_good(param):
            names[param] = _fresh(_letters(lines.get(first[param])), taken)
    for param, argument in (pair for call in program.calls for pair in zip(params, call, strict=True)):
        if param in names and argument not in (*names, *params):
            names[argument] = _fresh(names[param], taken)
    for name in (name for line in program.inputs for name in names_of(line)):
        if name not in names and name not in known and not _is_good(name):
            names[name] = _fresh(_TENSORS, taken)
    for statement in program.graph.statements:
        if statement.target is not None and len(statement.target) > _LONGEST_VALUE:
            names[statement.target] = _fresh(_VALUES, taken)
    own = () if "lambda" in taken else program.bodies  # a lambda has parameters too: see `with_short_parameters`
    for param in (param for body in own for param in body.params):
        if param not in names and not _is_good(param):
            names[param] = _fresh(_TENSORS, taken)
    return names


def with_short_parameters(program: Program, new: Collection[str]) -> Program:
    """`program` with short names for the parameters of the functions in `new`, and of the lambdas that call them."""
    taken = set(_NAME.findall(render(program)))
    names = {
        body.name: {param: _fresh(_TENSORS, taken) for param in body.params if not _is_good(param)}
        for body in program.bodies
        if body.name in new
    }
    params = {
        body.name: [names[body.name].get(param, param) for param in body.params]
        for body in program.bodies
        if body.name in new
    }

    def called(match: re.Match[str]) -> str:
        count = match[0].partition(":")[0].count(",") + 1
        passed = match["passed"].split(", ")
        own = params[match["body"]][:count]
        return f"lambda {', '.join(own)}: {match['body']}({', '.join([*own, *passed[count:]])})"

    def change(function: Function) -> Function:
        mine = names.get(function.name, {})
        changed = function.substituted(mine).with_(params=tuple(mine.get(param, param) for param in function.params))
        return changed.mapped(lambda each: Statement(each.target, _LAMBDA.sub(called, each.text)))

    return program.mapped(change)


def renamed(program: Program, names: Mapping[str, str]) -> Program:
    """`program` with other names of inputs and values of its graph."""
    graph = program.graph
    return program.with_inputs(lambda line: _line(line, names)).with_(
        graph=graph.mapped(lambda statement: _statement(statement, names)).with_(
            params=tuple(names.get(param, param) for param in graph.params), returns=graph.returns.substitute(names)
        ),
        calls=tuple(tuple(names.get(name, name) for name in call) for call in program.calls),
    )


def renamed_in_words(text: str, names: Mapping[str, str]) -> str:
    """`text` with other names in its code, which stands in backticks."""
    parts = text.split("`")
    parts[1::2] = [_NAME.sub(lambda match: names.get(match[0], match[0]), code) for code in parts[1::2]]
    return "`".join(parts)


def _is_good(name: str) -> bool:
    return len(name) <= _LONGEST and _WORDS.fullmatch(name) is not None


def _letters(line: Input | None) -> str:
    if isinstance(line, ScalarInput):
        return _NUMBERS
    return _PARAMETERS if isinstance(line, TensorInput) and line.parameter else _TENSORS


def _fresh(letters: str, taken: set[str]) -> str:
    """The first of the letters that is free, else the first of them with a number; it is taken then."""
    name = next(name for name in _proposals(letters) if name not in taken)
    taken.add(name)
    return name


def _proposals(letters: str) -> Iterator[str]:
    yield from letters
    yield from (f"{letters[0]}{number}" for number in count(1))


def _statement(statement: Statement, names: Mapping[str, str]) -> Statement:
    target = statement.target
    changed = statement.substitute(names)
    return Statement(names[target], changed.text) if target is not None and target in names else changed


def _line(line: Input, names: Mapping[str, str]) -> Input:
    match line:
        case TensorInput():
            base = line.base
            data = replace(line.data, args=(names.get(base, base),)) if base else line.data
            return replace(line, name=names.get(line.name, line.name), data=data)
        case ScalarInput():
            return replace(line, name=names.get(line.name, line.name))
    text = ast.unparse(Rename(names, set()).visit(ast.parse(line.text)))
    reads = tuple(names.get(name, name) for name in line.reads)
    if isinstance(line, DynamicMark):
        return DynamicMark(text, reads)
    return OpaqueInput(tuple(names.get(name, name) for name in line.names), text, reads)


def plainly_named(program: Program, known: Collection[str]) -> Program:
    """`program` with short names for inputs and values, as `with_plain_names` gives it."""
    return _renamed_throughout(program, plain_names(program, known))


def _renamed_throughout(program: Program, names: Mapping[str, str]) -> Program:
    """`program` with other names in its bodies, too. `names`: to names that stand nowhere in it."""

    def change(body: Function) -> Function:
        own = body.mapped(lambda statement: _statement(statement, names))
        return own.with_(
            params=tuple(names.get(param, param) for param in body.params), returns=body.returns.substitute(names)
        )

    return renamed(program, names).with_(bodies=tuple(map(change, program.bodies)))


def with_plain_names(result: Result[Program], known: Collection[str]) -> Result[Program]:
    """`result` with short names for inputs and values. `known`: names that the user may have given, which may stay."""
    names = plain_names(result.program, known)
    if not names:
        return result
    around = result.neighbours
    twin, number = around.twin, around.number
    return replace(
        result,
        program=_renamed_throughout(result.program, names),
        neighbours=replace(
            around,
            removals=tuple(replace(each, what=renamed_in_words(each.what, names)) for each in around.removals),
            variants=tuple(replace(each, what=renamed_in_words(each.what, names)) for each in around.variants),
            twin=twin
            and replace(
                twin, what=renamed_in_words(twin.what, names), program=_renamed_throughout(twin.program, names)
            ),
            number=number and replace(number, what=renamed_in_words(number.what, names)),
        ),
    )
