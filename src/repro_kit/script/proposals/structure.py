"""Edits of statements: drop them, take one branch, unroll a loop once, take a block out of its context."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from repro_kit.script.scopes import substituted
from repro_kit.script.tree import Edits, NumberedTree, blocks, bound_by

#: The lists of a node from which single entries may go.
_LISTS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Call: ("args", "keywords"),
    ast.ClassDef: ("decorator_list", "bases", "keywords"),
    ast.FunctionDef: ("decorator_list",),
    ast.AsyncFunctionDef: ("decorator_list",),
    ast.List: ("elts",),
    ast.Tuple: ("elts",),
    ast.Set: ("elts",),
    ast.JoinedStr: ("values",),
    ast.BoolOp: ("values",),
    ast.With: ("items",),
    ast.AsyncWith: ("items",),
    ast.Import: ("names",),
    ast.ImportFrom: ("names",),
    ast.Assign: ("targets",),
    ast.comprehension: ("ifs",),
}
_NO_COLLECTIONS = (ast.Constant, ast.Starred, ast.BinOp)
_FEW = 3  # results of a call, and arguments, that are tried in place of each other
_TOLERANCES = ("rtol", "atol", "tol", "eps", "places", "delta")


def levels(numbered: NumberedTree) -> Iterator[list[int]]:
    """The numbers of the statements (and handlers), level by level of nesting; on each level the last one first."""
    level: list[ast.AST] = [numbered.tree]
    while level:
        level = [item for node in level for block in blocks(node) for item in block]
        inner = [item for item in level if not isinstance(item, ast.Pass)]
        if inner:
            yield [numbered.number(item) for item in reversed(inner)]


def unwrapped(numbered: NumberedTree, items: Mapping[str, ast.expr]) -> Iterator[list[Edits]]:
    """For each compound statement: what may take its place, the smallest first. `items`: recorded ones, by text."""
    read_names = {_last_name(node) for node in numbered.nodes if isinstance(getattr(node, "ctx", None), ast.Load)}
    for number, node in enumerate(numbered.nodes):
        match node:
            case ast.If():
                yield [{number: node.orelse}, {number: node.body}]
            case ast.For() | ast.AsyncFor():
                body, item = _once(node.body), items.get(ast.unparse(node.iter))
                known = [] if item is None else [{number: [ast.Assign([node.target], item), *body]}]
                first = ast.Assign([node.target], first_of(node.iter))
                wrapped = [{number: [ast.Assign([node.target], item), *body]} for item in _first_wrapped(node.iter)]
                yield [
                    *known,
                    *({number: plain} for plain in _not_counting(node)),
                    *({number: body} for body in _for_the_first(node)),
                    {number: [first, *body]},
                    *wrapped,
                    {number: body},
                    {number: [ast.Expr(node.iter)]},
                ]
            case ast.While():
                yield [{number: _once(node.body)}]
            case ast.With(items=[ast.withitem(context_expr=value, optional_vars=ast.Name() as target)]):
                yield [{number: node.body}, {number: [ast.Assign([target], value), *node.body]}]
            case ast.With() | ast.AsyncWith():
                yield [{number: node.body}]
            case ast.AnnAssign(value=ast.expr() as value):
                yield [{number: [ast.Assign([node.target], value)]}]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                read = [at for at, name in enumerate(names) if _last_name(name) in read_names]
                pairs = [bound_together(names, values, read)] if 0 < len(read) < len(names) else []
                yield [{number: shorter} for shorter in (*pairs, *_with_fewer_names(names, values))]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(args=[_, *_] as arguments)):
                yield [
                    {number: [ast.Assign([name], argument)]}
                    for argument in arguments[:_FEW]
                    for name in names[:_FEW]
                    if isinstance(name, ast.Name)
                ]
            case ast.Try() | ast.TryStar():
                yield [{number: [*node.body, *node.orelse, *node.finalbody]}]
            case ast.Match():
                yield [{number: case.body} for case in node.cases]


def _once(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The body of a loop without the statements that end a turn or the loop, and without what comes after them."""
    kept: list[ast.stmt] = []
    for statement in body:
        match statement:
            case ast.Break() | ast.Continue():
                break
            case ast.If(body=[*_, ast.Break() | ast.Continue()], orelse=other):
                kept += _once(other)
            case _:
                kept.append(statement)
    return kept


def _not_counting(loop: ast.For | ast.AsyncFor) -> Iterator[ast.stmt]:
    """The loop without ``enumerate``."""
    match loop.target, loop.iter:
        case ast.Tuple(elts=[_, target]), ast.Call(func=ast.Name(id="enumerate"), args=[items, *_]):
            yield type(loop)(target, items, loop.body, loop.orelse)


def _for_the_first(loop: ast.For | ast.AsyncFor) -> Iterator[list[ast.stmt]]:
    """The body with the first item in the place of a name that is read once."""
    name, body = loop.target.id if isinstance(loop.target, ast.Name) else "", _once(loop.body)
    uses = [node for part in body for node in ast.walk(part) if isinstance(node, ast.Name) and node.id == name]
    if len(uses) == 1 and isinstance(uses[0].ctx, ast.Load):
        first = first_of(loop.iter)
        by_place = [ast.Subscript(loop.iter, ast.Constant(0), ast.Load())] if isinstance(first, ast.Call) else []
        for item in (first, *by_place):
            yield [substituted(part, {name: item}) for part in body]


def first_of(items: ast.expr) -> ast.expr:
    """The first of the items that a loop goes through."""
    match items:
        case ast.Call(func=ast.Name(id="range"), args=[_]):
            return ast.Constant(0)
        case ast.Call(func=ast.Name(id="range"), args=[start, _, *_]):
            return start
        case ast.List(elts=[item, *_]) | ast.Tuple(elts=[item, *_]):
            return item
        case ast.Call(func=ast.Name(id="zip"), args=[_, _, *_] as each):
            return ast.Tuple([first_of(part) for part in each], ast.Load())
        case ast.Call(func=ast.Name(id="enumerate"), args=[part]):
            return ast.Tuple([ast.Constant(0), first_of(part)], ast.Load())
        case ast.Dict(keys=[ast.expr() as key, *_]):
            return key
        case ast.Call(func=ast.Attribute(ast.Dict([ast.expr() as key, *_], [value, *_]), view), args=[]):
            views = {"keys": key, "values": value, "items": ast.Tuple([key, value], ast.Load())}
            if view in views:
                return views[view]
    return ast.Call(ast.Name("next", ast.Load()), [ast.Call(ast.Name("iter", ast.Load()), [items], [])], [])


def _first_wrapped(collection: ast.expr) -> Iterator[ast.expr]:
    """The first item of what a call makes another collection of, as of the dataset of a data loader."""
    if isinstance(collection, ast.Call) and collection.args and not isinstance(collection.args[0], _NO_COLLECTIONS):
        yield ast.Subscript(collection.args[0], ast.Constant(0), ast.Load())


def _with_fewer_names(names: list[ast.expr], values: list[ast.expr]) -> Iterator[ast.stmt]:
    """The statement that binds all of `names` but one to their values."""
    for left_out in range(len(names)):
        yield bound_together(names, values, [at for at in range(len(names)) if at != left_out])


def names_and_values(statement: ast.AST | None) -> tuple[list[ast.Name], list[ast.expr]]:
    """The names that an assignment binds, each with its value; nothing for any other statement."""
    match statement:
        case ast.Assign(targets=[ast.Name() as name], value=value):
            return [name], [value]
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            names = [target for target in targets if isinstance(target, ast.Name)]
            return (names, values) if len(names) == len(targets) == len(values) else ([], [])
    return [], []


def bound_together(names: Sequence[ast.expr], values: Sequence[ast.expr], places: Sequence[int]) -> ast.stmt:
    """The statement that binds the names at `places` to their values; `places`: at least one."""
    kept, bound = [names[at] for at in places], [values[at] for at in places]
    if len(kept) == 1:
        return ast.Assign(kept, bound[0])
    return ast.Assign([ast.Tuple(kept, ast.Store())], ast.Tuple(bound, ast.Load()))


def _last_name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def in_class(numbered: NumberedTree, number: int) -> bool:
    """Whether the node is part of a class."""
    return any(isinstance(outer, ast.ClassDef) for outer in numbered.above(numbered.nodes[number]))


def is_at(numbered: NumberedTree, number: int, lines: Collection[int], texts: Collection[str]) -> bool:
    """Whether the node is a call on one of `lines`, or part of a statement or a condition that is one of `texts`."""
    node: ast.AST | None = numbered.nodes[number]
    if isinstance(node, ast.Call) and node.lineno in lines:
        return True
    while texts and node is not None:
        if ast.unparse(node) in texts:
            return True
        node = None if isinstance(node, ast.stmt) else numbered.parent(node)
    return False


def type_hints(numbered: NumberedTree) -> list[int]:
    """The numbers of the annotations of parameters and results."""
    owners = [node for node in numbered.nodes if isinstance(node, ast.arg | ast.FunctionDef | ast.AsyncFunctionDef)]
    every = [node.annotation if isinstance(node, ast.arg) else node.returns for node in owners]
    return [numbered.number(annotation) for annotation in every if annotation is not None]


def unreachable(numbered: NumberedTree) -> list[int]:
    """The functions and classes of the module that no statement which runs mentions, even indirectly."""
    definitions = {
        node.name: node
        for node in numbered.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    waiting: list[ast.AST] = [node for node in numbered.tree.body if node not in definitions.values()]
    reached: set[str] = set()
    while waiting:
        for name in mentioned(waiting.pop()) & definitions.keys() - reached:
            reached.add(name)
            waiting.append(definitions[name])
    return [numbered.number(node) for name, node in definitions.items() if name not in reached]


def unused(numbered: NumberedTree) -> list[int]:
    """The imports of names that nothing reads, and the statements that are only a constant or a name."""
    names = mentioned(numbered.tree)
    found: list[ast.AST] = []
    for node in numbered.nodes:
        match node:
            case ast.ImportFrom(module="__future__"):
                pass
            case ast.Import() | ast.ImportFrom():
                idle = [alias for alias in node.names if bound_by(alias) not in {*names, "*"}]
                found += [node] if len(idle) == len(node.names) else idle
            case ast.Expr(value=ast.Constant() | ast.Name()):
                found.append(node)
    return [numbered.number(node) for node in found]


def never_read(tree: ast.Module) -> list[ast.stmt]:
    """The assignments to names that nothing reads but other such assignments."""
    assigned = {node: names for node in ast.walk(tree) if isinstance(node, ast.stmt) and (names := _names_of(node))}
    reads = {node: _read(node) for node in assigned}
    every = _read(tree)
    dead: list[ast.stmt] = []
    while True:
        counted = every - sum((reads[node] for node in dead), Counter[str]())
        more = [node for node, names in assigned.items() if node not in dead and not names & counted.keys()]
        if not more:
            return dead
        dead += more


def _names_of(statement: ast.stmt) -> set[str]:
    """The names that an assignment to nothing but names assigns; none for other statements."""
    match statement:
        case ast.Assign(targets=targets):
            pass
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            targets = [target]
        case _:
            return set()
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names if all(isinstance(part, ast.Name) for part in parts) else set()


def _read(tree: ast.AST) -> Counter[str]:
    """How often each name is read below `tree`, also as an attribute or in a text."""
    names: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                names.append(name)
    return Counter(names)


def mentioned(tree: ast.AST) -> set[str]:
    """Every name that is read below `tree`, also as an attribute or in a text."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                names.add(name)
            case ast.Constant(value=str(text)):
                names.add(text)
    return names


def items(numbered: NumberedTree) -> list[int]:
    """The numbers of everything that may go from a list: arguments, bases, decorators, elements, imported names."""
    parts = [part for node in numbered.nodes for part in _parts(node)]
    return [numbered.number(part) for part in reversed(parts) if not is_kept(part)]


def _parts(node: ast.AST) -> list[ast.AST]:
    parts = [part for name in _LISTS.get(type(node), ()) for part in getattr(node, name)]
    if isinstance(node, ast.Import | ast.ImportFrom) and len(parts) == 1:
        return []  # the whole statement goes in another pass
    if isinstance(node, ast.FunctionDef) and node.name.startswith("__"):  # torch takes another method, and warns
        parts = [part for part in parts if ast.unparse(part) not in ("classmethod", "staticmethod")]
    alone = [getattr(node, name, None) for name in ("returns", "annotation", "optional_vars")]
    alone += [node.value] if isinstance(node, ast.Return) else []
    is_field = isinstance(node, ast.AnnAssign)
    return [*parts, *(part for part in alone if part is not None and not is_field)]


def is_kept(node: ast.AST) -> bool:
    """Whether the node is an argument that is never changed.

    It says how much two results may differ, or how much of the compiler takes part: another backend is another failure.
    """
    return isinstance(node, ast.keyword) and (node.arg or "") in (*_TOLERANCES, "backend")
