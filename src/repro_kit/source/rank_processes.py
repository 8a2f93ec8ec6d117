"""Ranks that a script starts by `multiprocessing.Process`, one in each turn of a loop: the loop takes one turn."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_PROCESS = "Process"
_ENDS = ("join", "terminate", "kill", "close")


def starts_processes(tree: ast.AST) -> bool:
    """Whether a loop starts a process with a function of the script in each of its turns."""
    return any(any(_is_process(inner) for inner in ast.walk(node)) for node in ast.walk(tree) if _is_loop(node))


class OneTurn(ast.NodeTransformer):
    """Leaves one rank's turn to each loop that starts processes, and calls the function in place of its process."""

    def __init__(self, tree: ast.AST, rank: str) -> None:
        """`rank`: the expression of the rank."""
        self._rank = rank
        self._names = _process_names(tree)

    def visit_For(self, node: ast.For) -> ast.AST:
        """A loop, perhaps over the ranks."""
        if _starts(node):
            node.iter = self._turn(node.iter)
        return self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        """A list, perhaps of processes."""
        if _starts(node):
            node.generators[0].iter = self._turn(node.generators[0].iter)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A process becomes a function without arguments; its start becomes the call."""
        self.generic_visit(node)
        if _is_process(node):
            return _called_later(node)
        method = self._method(node.func)
        if method == "start" and isinstance(node.func, ast.Attribute):
            return ast.Call(node.func.value, [], [])
        return ast.Constant(None) if method in _ENDS else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """The exit code of a process, which is 0 once its function has returned."""
        self.generic_visit(node)
        return ast.Constant(0) if self._method(node) == "exitcode" else node

    def _turn(self, iterated: ast.expr) -> ast.expr:
        counted = isinstance(iterated, ast.Call) and ast.unparse(iterated.func) == "range" and len(iterated.args) == 1
        text = f"[{self._rank}]" if counted else f"[list({ast.unparse(iterated)})[{self._rank}]]"
        return ast.parse(text, mode="eval").body

    def _method(self, node: ast.expr) -> str:
        """The attribute of a process that `node` is; "" for any other expression."""
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in self._names:
                return attribute
        return ""


def _is_loop(node: ast.AST) -> bool:
    return isinstance(node, ast.For | ast.ListComp)


def _starts(loop: ast.AST) -> bool:
    return any(_is_process(inner) for inner in ast.walk(loop))


def _is_process(node: ast.AST) -> bool:
    """Whether `node` makes a process that runs a function: ``mp.Process(target=f, args=…)``."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == _PROCESS
        and any(keyword.arg == "target" for keyword in node.keywords)
    )


def _called_later(process: ast.Call) -> ast.Lambda:
    given = {keyword.arg: keyword.value for keyword in process.keywords}
    args, named = given.get("args", ast.Tuple([], ast.Load())), given.get("kwargs")
    passed: list[ast.expr] = [ast.Starred(args, ast.Load())]
    if isinstance(args, ast.Tuple | ast.List):
        passed = args.elts
    call = ast.Call(given["target"], passed, [ast.keyword(None, named)] if named is not None else [])
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.Lambda(nothing, call)


def _process_names(tree: ast.AST) -> frozenset[str]:
    """The names that hold a process somewhere: where it is made, and through lists and loops over them."""
    names: set[str] = set()
    found = True
    while found:
        more = set(_named_next(tree, names)) - names
        names |= more
        found = bool(more)
    return frozenset(names)


def _named_next(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """The names that are bound to a process, or to a collection of processes, with `names` bound so already."""

    def holds(value: ast.AST) -> bool:
        return any(
            _is_process(inner) or (isinstance(inner, ast.Name) and inner.id in names) for inner in ast.walk(value)
        )

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and holds(node.value):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name) and holds(node.iter):
            yield node.target.id
        elif isinstance(node, ast.Call) and any(map(holds, node.args)):
            match node.func:
                case ast.Attribute(value=ast.Name(id=collection), attr="append"):
                    yield collection
