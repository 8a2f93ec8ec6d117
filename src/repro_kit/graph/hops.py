"""Calls of bodies by higher-order operators, and smaller programs without them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from repro_kit.graph.program import Function, Program, Statement, canonical, reached
from repro_kit.graph.python_code import fresh_name


@dataclass(frozen=True)
class BodyKind:
    """How an operator passes operands to its bodies. Positions are those of its arguments.

    `groups`: arguments that are tuples or lists of operands; None: every argument after the `leading` bodies is an
    operand. `carried`: the group whose operands are also the first results, in order. `sliced`: the group of which a
    body gets one slice.
    """

    groups: tuple[int, ...] | None
    carried: int | None = None
    sliced: int | None = None
    body: int | None = None  # index of the body that makes the results, where not every body does
    leading: int = 1
    nested: bool = False  # the body returns (results, values saved for the backward)


#: Kinds by the called name (torch/_higher_order_ops, and the helpers of graph/reading/raw_graph.py).
_KINDS = {
    "torch.ops.higher_order.cond": BodyKind((3,)),
    "torch.cond": BodyKind((3,)),
    "torch.ops.higher_order.while_loop": BodyKind((2, 3), carried=2, body=1),
    "torch.ops.higher_order.map_impl": BodyKind((1, 2), sliced=1),
    "torch.utils.checkpoint.checkpoint": BodyKind(None),
    "AutogradFunction.apply": BodyKind(None, body=0, leading=2, nested=True),
    "flat_scan": BodyKind((1, 2, 3), carried=1, sliced=2),
}


def operand_lists(callee: str) -> tuple[int, ...]:
    """The positions of the arguments that must be lists, or tuples, of operands for bodies."""
    kind = _KINDS.get(callee)
    return (kind.groups or ()) if kind is not None else ()


@dataclass(frozen=True)
class OperatorCall:
    """A statement of the graph that calls bodies."""

    at: int  # index of the statement
    node: ast.Call
    bodies: tuple[str, ...]
    kind: BodyKind

    def operands(self) -> list[ast.expr]:
        """The operands, in the order of the bodies' parameters."""
        return [operand for _, operand in self._placed()]

    def slices(self) -> list[bool]:
        """For each operand: whether the body gets a slice of it."""
        return [group is not None and group == self.kind.sliced for group, _ in self._placed()]

    def _placed(self) -> Iterator[tuple[int | None, ast.expr]]:
        if self.kind.groups is None:
            for operand in self.node.args[self.kind.leading :]:
                yield None, operand
            return
        for group in self.kind.groups:
            holder = self.node.args[group] if group < len(self.node.args) else None
            for operand in holder.elts if isinstance(holder, ast.Tuple | ast.List) else ():
                yield group, operand

    @property
    def makers(self) -> tuple[str, ...]:
        """The bodies that make the results."""
        return self.bodies if self.kind.body is None else self.bodies[self.kind.body : self.kind.body + 1]

    def without_operand(self, position: int) -> ast.Call:
        """The call without one operand."""
        if self.kind.groups is None:
            args = [argument for at, argument in enumerate(self.node.args) if at != self.kind.leading + position]
            return ast.Call(self.node.func, args, self.node.keywords)
        args = list(self.node.args)
        for group in self.kind.groups:
            holder = args[group] if group < len(args) else None
            elements = holder.elts if isinstance(holder, ast.Tuple | ast.List) else []
            if position < len(elements):
                kept = [element for at, element in enumerate(elements) if at != position]
                make = ast.List if isinstance(holder, ast.List) else ast.Tuple
                args[group] = make(elts=kept, ctx=ast.Load())
                break
            position -= len(elements)
        return ast.Call(self.node.func, args, self.node.keywords)

    def carried(self) -> int:
        """The number of first operands that are results too."""
        if self.kind.carried is None or self.kind.carried >= len(self.node.args):
            return 0
        holder = self.node.args[self.kind.carried]
        return len(holder.elts) if isinstance(holder, ast.Tuple | ast.List) else 0


def calls(program: Program) -> list[OperatorCall]:
    """The statements of the graph that call bodies in a known way, in order."""
    names = {body.name for body in program.bodies}
    operator_calls = []
    for at, statement in enumerate(program.graph.statements):
        node = statement.expression
        if not isinstance(node, ast.Call) or names.isdisjoint(statement.reads):
            continue
        callee = ast.unparse(node.func)
        bodies = [argument.id for argument in node.args if isinstance(argument, ast.Name) and argument.id in names]
        kind = BodyKind(None, leading=0) if callee in names else _KINDS.get(callee)
        if kind is not None:
            operator_calls.append(OperatorCall(at, node, tuple(bodies) or (callee,), kind))
    return operator_calls


def inlined(program: Program, call: OperatorCall, body: str) -> Program | None:
    """`program` with the statements of `body` in place of `call`; None when they do not fit.

    Of a sliced operand, the first slice is used, so results may have another shape than before.
    """
    function = _body(program, body)
    operands = call.operands()
    results = _results(function, nested=call.kind.nested)
    if function is None or results is None or len(operands) != len(function.params):
        return None
    fresh = partial(fresh_name, taken=_names_of(program.graph))
    names: dict[str, str] = {}
    statements: list[Statement] = []
    for param, operand, sliced in zip(function.params, operands, call.slices(), strict=True):
        text = ast.unparse(operand) + ("[0]" if sliced else "")
        names[param] = text if text.isidentifier() else fresh(param)
        if not text.isidentifier():
            statements.append(Statement(names[param], text))
    for statement in function.statements:
        moved = statement.substitute(names)
        if statement.target is not None:
            names[statement.target] = fresh(statement.target)
            moved = Statement(names[statement.target], moved.text)
        statements.append(moved)
    made = [canonical(None, result).substitute(names).text for result in results]
    whole = _whole(function, made, nested=call.kind.nested)
    return _spliced(program, call.at, statements, made, whole)


def _results(function: Function | None, *, nested: bool = False) -> list[ast.expr] | None:
    """The results that a body returns, as separate expressions."""
    expression = function.returns.expression if function is not None else None
    if nested:
        expression = expression.elts[0] if isinstance(expression, ast.Tuple | ast.List) else None
    if isinstance(expression, ast.Tuple | ast.List):
        return list(expression.elts)
    return [expression] if expression is not None else None


def _whole(function: Function, made: Sequence[str], *, nested: bool) -> str:
    """An expression for the value of the whole call: its results in the form that the body returns."""
    several = nested or isinstance(function.returns.expression, ast.Tuple | ast.List)
    return f"({', '.join(made)}{',' if len(made) == 1 else ''})" if several else made[0]


def _spliced(program: Program, at: int, new: Sequence[Statement], made: Sequence[str], whole: str) -> Program:
    graph = program.graph
    target = graph.statements[at].target or ""
    names: dict[str, str] = {}
    before, after = list(graph.statements[:at]), []
    for statement in graph.statements[at + 1 :]:
        part = statement.getitem
        if part is not None and part[0] == target and part[1] < len(made) and made[part[1]].isidentifier():
            names[statement.target or ""] = made[part[1]]
        else:
            after.append(statement.substitute(names))
    returns = graph.returns.substitute(names)
    if any(target in statement.reads for statement in (*after, returns)):
        if whole.isidentifier():
            after = [statement.substitute({target: whole}) for statement in after]
            returns = returns.substitute({target: whole})
        else:
            after.insert(0, canonical(target, ast.parse(whole, mode="eval").body))
    main = graph.with_(statements=(*before, *new, *after), returns=returns)
    return program.with_(graph=main, bodies=reached(program.bodies, main))


def inlinings(program: Program, call: OperatorCall) -> Iterator[Program | None]:
    """`program` with one body in place of `call`, for each body that makes the call's results."""
    for body in dict.fromkeys(call.makers):
        yield inlined(program, call, body)


def all_inlined(program: Program, *, last: bool = False) -> Program | None:
    """`program` without the calls of bodies that can be inlined; of several bodies the first, or the `last`."""
    changed: Program | None = None
    done = 0
    while True:
        current = changed or program
        left = [call for call in calls(current) if call.at >= done]
        if not left:
            return changed
        candidates = [inlining for inlining in inlinings(current, left[0]) if inlining is not None]
        done = left[0].at + (not candidates)
        if candidates:
            changed = candidates[-1 if last else 0]


def alike(program: Program, call: OperatorCall) -> Iterator[Program | None]:
    """`program` with one body of `call` in place of all its bodies (the branches of a `cond`)."""
    if call.kind.body is not None or call.kind.carried is not None or len(set(call.bodies)) < 2:
        return
    for body in call.bodies:
        names = dict.fromkeys(call.bodies, body)
        yield _with_statement(program, call.at, program.graph.statements[call.at].substitute(names))


def _with_statement(program: Program, at: int, statement: Statement) -> Program:
    statements = list(program.graph.statements)
    statements[at] = statement
    graph = program.graph.with_(statements=tuple(statements))
    return program.with_(graph=graph, bodies=reached(program.bodies, graph))


def without_operand(program: Program, call: OperatorCall, position: int) -> Program | None:
    """`program` without one operand and its parameter; None while a body needs it.

    An operand that is carried from step to step goes with its result, which nobody may read.
    """
    if call.kind.nested:  # the backward has a result for every operand
        return None
    bodies = [_body(program, name) for name in dict.fromkeys(call.bodies)]
    if position < call.carried():
        lesser = _without_result(program, call, position)
        if lesser is None:
            return None
        program, bodies = lesser, [_body(lesser, name) for name in dict.fromkeys(call.bodies)]
    changed: dict[str, Function] = {}
    for body in bodies:
        if body is None or position >= len(body.params):
            return None
        param = body.params[position]
        kept = _without_dead(body)
        if any(param in statement.reads for statement in (*kept.statements, kept.returns)):
            return None
        changed[body.name] = kept.with_(params=(*body.params[:position], *body.params[position + 1 :]))
    return _edited(program, call.bodies, lambda operator_call: operator_call.without_operand(position), changed)


def without_result(program: Program, call: OperatorCall, position: int, instead: int = -1) -> Program | None:
    """`program` without the result at `position`; its readers read the result at `instead`.

    None if there is no such result, if a reader would be left without one, or while the result is carried.
    """
    return None if position < call.carried() else _without_result(program, call, position, instead)


def _without_result(program: Program, call: OperatorCall, position: int, instead: int = -1) -> Program | None:
    makers = call.makers
    changed: dict[str, Function] = {}
    for name in makers if not call.kind.nested else ():
        body = _body(program, name)
        results = _results(body)
        if body is None or results is None or len(results) < 2 or position >= len(results):
            return None
        kept = [ast.unparse(result) for at, result in enumerate(results) if at != position]
        changed[name] = _without_dead(body.with_(returns=_returning(body, kept)))
    if not changed:
        return None
    graph = program.graph
    targets = {graph.statements[other.at].target for other in calls(program) if set(other.bodies) & set(makers)}
    statements = []
    for statement in graph.statements:
        part = statement.getitem
        if part is None or part[0] not in targets:
            statements.append(statement)
        else:
            index = instead if part[1] == position else part[1]
            statements.append(Statement(statement.target, f"{part[0]}[{index - (index > position)}]"))
            if index < 0:
                return None
    bodies = tuple(changed.get(body.name, body) for body in program.bodies)
    return program.with_(graph=graph.with_(statements=tuple(statements)), bodies=bodies)


def _returning(body: Function, results: Sequence[str]) -> Statement:
    listed = isinstance(body.returns.expression, ast.List)
    inside = ", ".join(results)
    return Statement(None, f"[{inside}]" if listed else f"({inside}{',' if len(results) == 1 else ''})")


def _edited(
    program: Program, bodies: Sequence[str], change: Callable[[OperatorCall], ast.Call], changed: dict[str, Function]
) -> Program | None:
    """`program` with every call of `bodies` changed; None if a body is called in another way too."""
    touched = [call for call in calls(program) if set(call.bodies) & set(bodies)]
    if any(not set(operator_call.bodies) <= set(bodies) for operator_call in touched):
        return None
    statements = list(program.graph.statements)
    for operator_call in touched:
        statements[operator_call.at] = canonical(
            statements[operator_call.at].target, ast.fix_missing_locations(change(operator_call))
        )
    changed_at = {operator_call.at for operator_call in touched}
    others = [statement for at, statement in enumerate(statements) if at not in changed_at]
    if any(not set(bodies).isdisjoint(other.reads) for other in others):
        return None
    graph = program.graph.with_(statements=tuple(statements))
    return program.with_(graph=graph, bodies=tuple(changed.get(body.name, body) for body in program.bodies))


def bypassed(program: Program, body: str, names: dict[str, str]) -> Program | None:
    """`program` where within `body` whoever reads a value (a key) reads an earlier one instead."""
    function = _body(program, body)
    if function is None:
        return None
    local = {*function.params, *(statement.target for statement in function.statements)}
    current = {old: new for old, new in names.items() if old in local and new in local}
    if not current:
        return None
    followed = {old: _end(current, old) for old in current}
    lesser = _without_dead(function.substituted(followed))
    bodies = tuple(lesser if other.name == body else other for other in program.bodies)
    return program.with_(bodies=reached(bodies, program.graph))


def _end(names: dict[str, str], name: str) -> str:
    while name in names:
        name = names[name]
    return name


def _without_dead(function: Function) -> Function:
    """`function` less the statements whose value nobody reads; those for their effect stay."""
    needed = set(function.returns.reads)
    kept = []
    for statement in reversed(function.statements):
        if statement.target is None or statement.target in needed:
            kept.append(statement)
            needed.update(statement.reads)
    return replace(function, statements=tuple(reversed(kept)))


def _body(program: Program, name: str) -> Function | None:
    return next((body for body in program.bodies if body.name == name), None)


def _names_of(graph: Function) -> set[str]:
    """The names that the graph binds or reads."""
    names = {*graph.params, *(statement.target or "" for statement in graph.statements)}
    return names.union(*(statement.reads for statement in (*graph.statements, graph.returns)))
