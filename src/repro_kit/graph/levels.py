"""Levels of torch.func: Dynamo writes them as private calls; here they become calls of torch.func."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from repro_kit.graph.effects import is_transform, op_name
from repro_kit.graph.names import with_short_parameters
from repro_kit.graph.program import Function, Program, Statement, reached, tuple_of
from repro_kit.graph.program_text import render
from repro_kit.graph.python_code import fresh_name

_SAME_VALUE = ("_wrap_for_grad", "_unwrap_for_grad", "_remove_batch_dim")
#: Calls that prepare or end a level, and that torch.func makes by itself.
_SILENT = {
    *("lazy_load_decompositions", "_maybe_load_decompositions", "_set_fwd_grad_enabled", "_enter_dual_level"),
    *("_exit_dual_level", "_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable"),
    *("set_inplace_requires_grad_allowed", "_set_tensor_requires_grad"),
}
_OPENS = {"_vmap_increment_nesting": "vmap", "_jvp_increment_nesting": "jvp", "_grad_increment_nesting": "grad"}
_CLOSES = {"_vmap_decrement_nesting": "vmap", "_jvp_decrement_nesting": "jvp", "_grad_decrement_nesting": "grad"}


_WORD = re.compile(r"[^\W\d]\w*")


class _NotLifted(Exception):
    """The levels are not written as torch.func writes them."""


def lifted(program: Program) -> Program | None:
    """`program` with calls of `torch.vmap`, `torch.func.jvp`, `torch.func.grad` and `torch.func.vjp` for its levels.

    What is computed within a level becomes a function. None if the graph has no level, or is not written as Dynamo
    writes it: a reduced graph may lack the end of a level.
    """
    graph = program.graph
    if not any(map(is_transform, graph.statements)):
        return None
    try:
        lifter = _Lifter(program)
        statements = lifter.lifted(iter(graph.statements), graph.outputs)
    except _NotLifted:
        return None
    changed = graph.with_(statements=tuple(_without_idle(statements, graph.outputs)))
    made = _with_jacobians(program.with_(graph=changed, bodies=(*program.bodies, *lifter.bodies)))
    return with_short_parameters(made, {body.name for body in lifter.bodies})


#: A function, as a call of torch.func has it: its name, or a lambda that passes outer values on.
_FUNCTION = r"(?P<function>(?:lambda [\w, ]+: )?(?P<body>\w+)(?:\([\w, ]+\))?)"
_MAPPED = re.compile(rf"torch\.vmap\({_FUNCTION}\)\((?P<basis>\w+)\)")
_JVP = re.compile(rf"torch\.func\.jvp\({_FUNCTION}, \((?P<value>\w+),\), \((?P<tangent>\w+),\)\)")
_VJP = re.compile(rf"torch\.func\.vjp\({_FUNCTION}, (?P<value>\w+)\)")
#: What is made of the rows of a Jacobian: `torch.func.jacfwd` moves them to the end, `jacrev` does not.
_ROWS = ("movedim", "split", "getitem", "unflatten", "view")


def _with_jacobians(program: Program) -> Program:
    """`program` with `torch.func.jacfwd` and `jacrev`, where a function is mapped over the rows of a unit matrix."""
    changed = program
    while True:
        functions = {each.name: each for each in changed.functions()}
        found = next(filter(None, (_with_jacobian(each, functions) for each in changed.functions())), None)
        if found is None:
            return changed.with_(bodies=reached(changed.bodies, changed.graph))
        changed = _with_function(changed, found)


def _with_function(program: Program, function: Function) -> Program:
    return program.mapped(lambda each: function if each.name == function.name else each)


def _with_jacobian(function: Function, functions: Mapping[str, Function]) -> Function | None:
    for at, statement in enumerate(function.statements):
        mapped = _MAPPED.fullmatch(statement.text)
        body = functions.get(mapped["body"]) if mapped else None
        if mapped is None or body is None:
            continue
        made = {each.target: each for each in function.statements}
        jacobian = _forward(body)
        if not jacobian and (pull := _pulled_by(body)) in made:
            part = made[pull].getitem
            taken = _VJP.fullmatch(made[part[0]].text) if part and part[0] in made else None
            jacobian = f"torch.func.jacrev({taken['function']})({taken['value']})" if taken else ""
        end = _last_row(function, at)
        if jacobian and end is not None and _is_unit(function, mapped["basis"]):
            last = function.statements[end].target
            kept = (*function.statements[:at], Statement(last, jacobian), *function.statements[end + 1 :])
            return function.with_(statements=tuple(_without_basis(kept, mapped["basis"], function.outputs)))
    return None


def _forward(body: Function) -> str:
    """``torch.func.jacfwd(f)(x)`` where `body` returns the tangent of ``f`` at ``x`` for the tangent that it gets."""
    if len(body.statements) != 2 or body.returns.text != body.statements[1].target:
        return ""
    dual, part = _JVP.fullmatch(body.statements[0].text), body.statements[1].getitem
    if dual is None or part != (body.statements[0].target, 1) or dual["tangent"] != body.params[0]:
        return ""
    return f"torch.func.jacfwd({dual['function']})({dual['value']})"


def _pulled_by(body: Function) -> str:
    """The pull back that `body` applies to the row that it gets; "" if it does something else."""
    if len(body.statements) != 2 or body.returns.text != body.statements[1].target:
        return ""
    first, part = body.statements[0], body.statements[1].getitem
    pull = first.callee
    return pull if first.text == f"{pull}({body.params[0]})" and part == (first.target, 0) else ""


def _last_row(function: Function, at: int) -> int | None:
    """The last of the statements after number `at` that only put the rows of a Jacobian into its shape."""
    name, last = function.statements[at].target, at
    for number, statement in enumerate(function.statements[at + 1 :], at + 1):
        if op_name(statement) not in _ROWS or statement.reads[-1:] != (name,):
            return last if op_name(function.statements[last]) in ("unflatten", "view") else None
        name, last = statement.target, number
    return last if op_name(function.statements[last]) in ("unflatten", "view") else None


def _is_unit(function: Function, basis: str) -> bool:
    """Whether `basis` is a view of zeros whose diagonal is filled with ones."""
    made = {each.target: each for each in function.statements}
    zeros = made[basis].callee.partition(".")[0] if basis in made and op_name(made[basis]) == "view" else ""
    return zeros in made and op_name(made[zeros]) == "new_zeros" and bool(_fills(function.statements, zeros))


def _fills(statements: Sequence[Statement], zeros: str) -> list[Statement]:
    diagonals = {each.target for each in statements if each.text == f"{zeros}.diagonal(0)"}
    ones = [each for each in statements if each.text in {f"{diagonal}.fill_(1)" for diagonal in diagonals}]
    return [each for each in statements if each.target in diagonals] + ones if ones else []


def _without_basis(statements: Sequence[Statement], basis: str, outputs: Iterable[str]) -> list[Statement]:
    """`statements` without those that make a unit matrix, and what only they read."""
    made = {each.target: each for each in statements}
    zeros = made[basis].callee.partition(".")[0]
    gone = {id(each) for each in (made[basis], made[zeros], *_fills(statements, zeros))}
    kept = [each for each in statements if id(each) not in gone]
    while True:
        needed = {*outputs, *(read for each in kept for read in each.reads)}
        idle = [each for each in kept if each.target not in needed and (each.getitem or _VJP.fullmatch(each.text))]
        if not idle:
            return kept
        kept = [each for each in kept if each not in idle]


#: A call of torch.func that gives values of its function, or derivatives in another shape.
_NESTED = re.compile(
    rf"torch\.(?:func\.)?(?:vmap|jacfwd|jacrev|grad)\({_FUNCTION}(?:, [\w=(), ]+)?\)\((?P<values>[\w, ]+)\)"
)


def unnested(program: Program) -> Iterator[Program]:
    """`program` with the plain call of a function in place of a call of torch.func: one nesting less."""
    for function in (program.graph, *program.bodies[::-1]):
        for at, statement in enumerate(function.statements):
            found = _NESTED.fullmatch(statement.text)
            if found is None:
                continue
            passed = found["values"]
            if found["function"] != found["body"]:
                params, _, inner = found["function"].removeprefix("lambda ").partition(": ")
                own, given = params.split(", "), inner[len(found["body"]) + 1 : -1].split(", ")
                passed = ", ".join([passed, *(name for name in given if name not in own)])
            plain = Statement(statement.target, f"{found['body']}({passed})")
            changed = function.with_(statements=(*function.statements[:at], plain, *function.statements[at + 1 :]))
            yield _with_function(program, changed)


@dataclass
class _Level:
    """What is written within one level."""

    kind: str
    opened: Statement | None  # None: the graph itself
    statements: list[Statement] = field(default_factory=list)


class _Lifter:
    def __init__(self, program: Program) -> None:
        self.bodies: list[Function] = []
        self._taken = set(_WORD.findall(render(program)))
        self._pulls: dict[str, str] = {}  # the result of a function that is differentiated, and the pull back from it
        graph = program.graph
        self._values = {*graph.params, *(each.target or "" for each in graph.statements)}

    def lifted(self, statements: Iterator[Statement], outputs: Iterable[str]) -> list[Statement]:
        """`statements` with one statement for each level; `outputs` are read after them."""
        rest = list(statements)
        levels = [_Level("", None)]
        for at, statement in enumerate(rest):
            name = op_name(statement)
            if name in _OPENS:
                levels.append(_Level(_OPENS[name], statement))
            elif name in _CLOSES:
                level = levels.pop()
                if level.kind != _CLOSES[name] or not levels:
                    raise _NotLifted
                after = {read for later in rest[at + 1 :] for read in later.reads} | set(outputs)
                levels[-1].statements += self._of_level(level, after)
            else:
                levels[-1].statements.append(statement)
        if len(levels) > 1:
            raise _NotLifted
        return [self._pulled(statement) for statement in levels[0].statements]

    def _pulled(self, statement: Statement) -> Statement:
        """A gradient of a function that is differentiated already: its pull back, applied."""
        if op_name(statement) != "_autograd_grad":
            return statement
        arguments = _arguments(statement)
        results, cotangents = _names(arguments[0]), arguments[2:3]
        pull = self._pulls.get(results[0]) if len(results) == 1 else None
        if pull is None or not cotangents or len(_names(cotangents[0])) != 1:
            raise _NotLifted
        return Statement(statement.target, f"{pull}({_names(cotangents[0])[0]})")

    def _of_level(self, level: _Level, after: set[str]) -> list[Statement]:
        statements = [self._pulled(each) if level.kind != "grad" else each for each in level.statements]
        make = {"vmap": self._vmap, "jvp": self._jvp, "grad": self._grad}[level.kind]
        return make(level, statements, after)

    def _vmap(self, level: _Level, statements: list[Statement], after: set[str]) -> list[Statement]:
        given = [each for each in statements if op_name(each) == "_add_batch_dim"]
        results = [each for each in statements if op_name(each) == "_remove_batch_dim"]
        body = _body(statements, [*given, *results])
        params = [each.target or "" for each in given]
        sources = [_names(_arguments(each)[0])[0] for each in results]
        if not given or not results:
            raise _NotLifted
        named = self._function(body, params, sources, after - {each.target or "" for each in results})
        in_dims = [ast.unparse(_arguments(each)[1]) for each in given]
        out_dims = [ast.unparse(_arguments(each)[3]) for each in results]
        options = [
            f"{name}={_one_or_tuple(dims)}"
            for name, dims in (("in_dims", in_dims), ("out_dims", out_dims))
            if set(dims) != {"0"}
        ]
        randomness = ast.unparse(_arguments(level.opened)[1]) if level.opened is not None else "'error'"
        options += [f"randomness={randomness}"] if randomness != "'error'" else []
        passed = ", ".join(_names(_arguments(each)[0])[0] for each in given)
        call = f"torch.vmap({', '.join([named, *options])})({passed})"
        if len(results) == 1:
            return [Statement(results[0].target, call)]
        whole = self._value("mapped")
        return [Statement(whole, call), *(Statement(each.target, f"{whole}[{at}]") for at, each in enumerate(results))]

    def _jvp(self, level: _Level, statements: list[Statement], after: set[str]) -> list[Statement]:
        duals = [each for each in statements if op_name(each) == "_make_dual"]
        unpacked = [each for each in statements if op_name(each) == "_unpack_dual"]
        parts = {each.target: each.getitem for each in statements if each.getitem}
        tuples = {each.target for each in unpacked}
        taken = [each for each in statements if each.getitem and each.getitem[0] in tuples]
        unwrapped = [each for each in statements if op_name(each) == "_unwrap_for_grad"]
        wrapped = [each for each in statements if op_name(each) == "_wrap_for_grad"]
        body = _body(statements, [*duals, *unpacked, *taken, *unwrapped, *wrapped])
        if not duals or len(unpacked) != 1:
            raise _NotLifted
        result = _names(_arguments(unpacked[0])[0])[0]
        named = self._function(body, [each.target or "" for each in duals], [result], after - _targets(unwrapped))
        firsts, seconds = ([_names(_arguments(each)[at])[0] for each in duals] for at in (0, 1))
        whole = self._value("pair")
        made = [Statement(whole, f"torch.func.jvp({named}, {_tuple(firsts)}, {_tuple(seconds)})")]
        for each in unwrapped:
            part = parts.get(_names(_arguments(each)[0])[0])
            if part is None or part[0] not in tuples:
                raise _NotLifted
            made.append(Statement(each.target, f"{whole}[{part[1]}]"))
        return made

    def _grad(self, level: _Level, statements: list[Statement], after: set[str]) -> list[Statement]:
        wrapped = [each for each in statements if op_name(each) == "_wrap_for_grad"]
        unwrapped = [each for each in statements if op_name(each) == "_unwrap_for_grad"]
        grads = [each for each in statements if op_name(each) == "_autograd_grad"]
        made = {each.target for each in grads}
        taken = {each.target: each.getitem for each in statements if each.getitem and each.getitem[0] in made}
        parts = [each for each in statements if each.target in taken]
        body = _body(statements, [*wrapped, *unwrapped, *grads, *parts])
        if not wrapped or len(grads) > 1:
            raise _NotLifted
        names = [each.target or "" for each in wrapped]
        given = [_names(_arguments(each)[0])[0] for each in wrapped]
        if not grads:
            return self._pull_back(body, names, given, unwrapped, after)
        (result,) = _names(_arguments(grads[0])[0])[:1] or [""]
        if len(_arguments(grads[0])) > 2 or not result:
            raise _NotLifted
        named = self._function(body, names, [result], after - _targets(unwrapped))
        numbers = "" if len(names) == 1 else f", argnums={tuple(range(len(names)))}"
        whole, gradient = self._value("pair"), self._value("gradient")
        lines = [
            Statement(whole, f"torch.func.grad_and_value({named}{numbers})({', '.join(given)})"),
            Statement(gradient, f"{whole}[0]"),
        ]
        for each in unwrapped:
            source = _names(_arguments(each)[0])[0]
            part = taken.get(source)
            if part is None and source != result:
                raise _NotLifted
            of_one = gradient if len(names) == 1 else f"{gradient}[{part[1] if part else 0}]"
            lines.append(Statement(each.target, f"{whole}[1]" if part is None else of_one))
        return lines

    def _pull_back(
        self, body: list[Statement], names: list[str], given: list[str], unwrapped: list[Statement], after: set[str]
    ) -> list[Statement]:
        """A level that ends before gradients are asked for: `torch.func.vjp`."""
        results = list(dict.fromkeys(_names(_arguments(each)[0])[0] for each in unwrapped))
        if len(results) != 1:
            raise _NotLifted
        inside = {*names, *results, *self._wrappers(body)}
        named = self._function(body, names, results, after - _targets(unwrapped) - inside)
        whole, pull = self._value("pair"), self._value("pull")
        self._pulls[results[0]] = pull
        made = [Statement(whole, f"torch.func.vjp({named}, {', '.join(given)})"), Statement(pull, f"{whole}[1]")]
        return [*made, *(Statement(each.target, f"{whole}[0]") for each in unwrapped)]

    def _wrappers(self, body: list[Statement]) -> set[str]:
        return {each.target or "" for each in body if op_name(each) in _SILENT}

    def _function(self, body: list[Statement], params: list[str], results: list[str], after: set[str]) -> str:
        """Add a function for `body`. Returns it, or a lambda with the outer values that it reads."""
        own = {each.target for each in body} | set(params)
        if (own & after) or any(op_name(each) in (*_SAME_VALUE, "_make_dual", "_add_batch_dim") for each in body):
            raise _NotLifted
        kept = _without_idle(body, results)
        reads = [read for each in kept for read in each.reads] + results
        outer = [name for name in dict.fromkeys(reads) if name not in own and name in self._values]
        name = fresh_name("body", self._taken)
        returns = Statement(None, results[0]) if len(results) == 1 else tuple_of(results)
        self.bodies.append(Function(name, (*params, *outer), tuple(kept), returns))
        if not outer:
            return name
        return f"lambda {', '.join(params)}: {name}({', '.join([*params, *outer])})"

    def _value(self, wanted: str) -> str:
        name = fresh_name(wanted, self._taken)
        self._values.add(name)
        return name


def _body(statements: Sequence[Statement], special: Sequence[Statement]) -> list[Statement]:
    apart = {id(each) for each in special}
    return [each for each in statements if id(each) not in apart and op_name(each) not in _SILENT]


def _targets(statements: Sequence[Statement]) -> set[str]:
    return {each.target or "" for each in statements}


def _without_idle(statements: Sequence[Statement], outputs: Iterable[str]) -> list[Statement]:
    """`statements` without selected items that nobody reads, and without what torch.func does by itself."""
    needed, kept = set(outputs), []
    for statement in reversed(statements):
        if statement.target in needed or not (statement.getitem or op_name(statement) in _SILENT):
            kept.append(statement)
            needed |= set(statement.reads)
    return kept[::-1]


def _arguments(statement: Statement | None) -> list[ast.expr]:
    call = statement.expression if statement is not None else None
    if not isinstance(call, ast.Call):
        raise _NotLifted
    return call.args


def _names(node: ast.expr) -> list[str]:
    """The names of a value, or of a tuple or list of values."""
    elements = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    names = [each.id for each in elements if isinstance(each, ast.Name)]
    if not names or len(names) != len(elements):
        raise _NotLifted
    return names


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _one_or_tuple(dims: Sequence[str]) -> str:
    return dims[0] if len(set(dims)) == 1 else _tuple(dims)
