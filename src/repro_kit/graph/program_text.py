"""The text of a program: parse and render it (docs/explanation/program-format.md)."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from repro_kit.errors import ReproKitError, UsageError
from repro_kit.graph.inputs import Input, names_of, parse_input
from repro_kit.graph.program import REGION, Code, Function, Peer, Program, Statement, canonical
from repro_kit.graph.python_code import joined
from repro_kit.recipe import Recipe
from repro_kit.serialize import from_data, plain

VERSION = "1"
MARK = "# repro-kit program"

STANDARD_IMPORTS = ("import pathlib", "import torch", "from torch import device, inf, nan")
PRIMS = "torch.ops.prims."  # some of these operators are Inductor's own, and exist only after this import
PRIMS_IMPORT = "import torch._inductor.inductor_prims"

HEADER = f"""{MARK} {VERSION}
import pathlib

import torch
from torch import device, inf, nan
"""

LOAD = """def load(name):
    return torch.load(pathlib.Path(__file__).with_name("inputs") / name, weights_only=True)
"""


_NEWLINE = re.compile(r"\r\n?|\n")  # Python's line ends; str.splitlines has more


def parse(text: str) -> Program:
    """The program in `text`. Raises UsageError, with the line, when `text` is not a program."""
    try:
        return _parsed(text)
    except (RecursionError, MemoryError) as error:  # how ast reports code that is nested too deeply
        raise UsageError("The program is nested too deeply to be read.") from error


def _parsed(text: str) -> Program:
    tree = _tree(text)
    top = _content(tree)
    functions = {node.name: node for node in top if isinstance(node, ast.FunctionDef)}
    for name in ("graph", "calls"):
        if name not in functions:
            raise UsageError(f"This is not a program of repro-kit: it defines no function `{name}`.")
    graph = parse_function(functions["graph"])
    peer = _peer(top, functions)
    of_peer = {"peer_calls", *(function.name for function in peer.functions())} if peer is not None else set()
    rest = [node for node in top if node not in (functions["graph"], functions["calls"])]
    rest = [node for node in rest if getattr(node, "name", "") not in of_peer]
    before = [node for node in rest if node.lineno < functions["graph"].lineno]
    after = [node for node in rest if node.lineno > functions["graph"].lineno]
    bodies = _bodies(before, graph)
    recipe_at = next((at for at, node in enumerate(before) if _is_recipe(node)), None)
    imports = [node for node in before[: recipe_at or 0] if isinstance(node, ast.Import | ast.ImportFrom)]
    named = {body.name for body in bodies}
    aside = [*imports, *([before[recipe_at]] if recipe_at is not None else [])]
    preamble = [node for node in [*before, *after] if node not in aside and getattr(node, "name", "") not in named]
    inputs, calls = _calls(functions["calls"], graph.params)
    return Program(
        graph=graph,
        bodies=tuple(bodies),
        inputs=inputs,
        calls=calls,
        recipe=_recipe(before[recipe_at]) if recipe_at is not None else Recipe(),
        imports=tuple(
            dict.fromkeys(statement for statement in map(ast.unparse, imports) if statement not in STANDARD_IMPORTS)
        ),
        preamble=_verbatim(text, preamble),
        doc=ast.get_docstring(tree, clean=False) or "",
        peer=peer,
    )


def _peer(top: Sequence[ast.stmt], functions: Mapping[str, ast.FunctionDef]) -> Peer | None:
    """What other ranks run, from the functions `peer_graph` and `peer_calls`; None if they are not there."""
    if not {"peer_graph", "peer_calls"} <= functions.keys():
        return None
    graph = parse_function(functions["peer_graph"])
    before = [node for node in top if node.lineno < functions["peer_graph"].lineno]
    return Peer(graph, tuple(_bodies(before, graph)), *_calls(functions["peer_calls"], graph.params))


def _tree(text: str) -> ast.Module:
    for line in text.splitlines():
        if line.startswith(MARK) and line.removeprefix(MARK).strip() != VERSION:
            version = line.removeprefix(MARK).strip()
            raise UsageError(f"The program has format {version}; this repro-kit reads {VERSION}. Upgrade repro-kit.")
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise UsageError(f"The program is not valid Python{line}: {getattr(error, 'msg', error)}.") from None


def _content(tree: ast.Module) -> list[ast.stmt]:
    """Top-level statements without docstring, `load` and footer, which belong to the format."""
    nodes = tree.body
    if nodes and isinstance(nodes[0], ast.Expr) and isinstance(nodes[0].value, ast.Constant):
        nodes = nodes[1:]
    return [
        node
        for node in nodes
        if not (isinstance(node, ast.FunctionDef) and node.name == "load")
        and not (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))
    ]


def _is_recipe(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["RECIPE"]


def _recipe(node: ast.stmt) -> Recipe:
    assert isinstance(node, ast.Assign)
    try:
        return from_data(ast.literal_eval(node.value), Recipe)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _error(node, "RECIPE must be a literal dict of a recipe's fields") from None


def _bodies(before: Sequence[ast.stmt], graph: Function) -> list[Function]:
    """The plain functions directly before `graph` that `graph` reaches by name, in the order of the text."""
    result: list[Function] = []
    plain = {}
    for node in reversed(before):
        if not (isinstance(node, ast.FunctionDef) and _is_plain(node)):
            break
        plain[node.name] = parse_function(node)
    reached, queue = set(), [graph]
    while queue:
        function = queue.pop()
        names = {name for statement in (*function.statements, function.returns) for name in statement.reads}
        fresh = [name for name in names if name in plain and name not in reached]
        reached.update(fresh)
        queue += [plain[name] for name in fresh]
    for name, function in plain.items():
        if name not in reached:
            break
        result.insert(0, function)
    return result


def _is_plain(node: ast.FunctionDef) -> bool:
    args = node.args
    marked = any(ast.unparse(decorator) != REGION for decorator in node.decorator_list)
    simple = not (marked or args.posonlyargs or args.vararg or args.kwonlyargs or args.kwarg)
    straight = all(isinstance(statement, _STRAIGHT) for statement in node.body) and isinstance(
        node.body[-1], ast.Return
    )
    return simple and not args.defaults and straight


_STRAIGHT = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Pass)


def parse_function(node: ast.FunctionDef) -> Function:
    """One function of a program. Raises UsageError when it is not straight-line."""
    if not _is_plain(node):
        odd = next((statement for statement in node.body if not isinstance(statement, _STRAIGHT)), node)
        raise _error(
            odd, f"`{node.name}` must be straight-line: plain parameters, assignments, calls and a final return"
        )
    params = tuple(arg.arg for arg in node.args.args)
    last = node.body[-1]
    assert isinstance(last, ast.Return)
    returns = canonical(None, last.value if last.value is not None else ast.Constant(value=None))
    decorators = tuple(ast.unparse(decorator) for decorator in node.decorator_list)
    return Function(node.name, params, tuple(_statements(node.body[:-1], params)), returns, decorators)


def _statements(nodes: Sequence[ast.stmt], params: Sequence[str]) -> Iterator[Statement]:
    bound = set(params)
    for node in nodes:
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                continue
            case ast.Assign(targets=[ast.Name(), ast.Name(), *_], value=ast.Constant(value=None)):
                continue  # `a = b = None`, clean-up
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                target: str | None = name
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                if value is None:
                    continue
                target = name
            case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]) | ast.AugAssign() | ast.Expr():
                yield canonical(None, node.value if isinstance(node, ast.Expr) else node)
                continue
            case _:
                raise _error(node, "a statement must assign one name, an element (`x[0] = y`), or be a call")
        assert value is not None and target is not None
        if target in bound:
            if isinstance(value, ast.Constant) and value.value is None:
                continue  # clean-up
            raise _error(node, f"`{target}` is assigned twice; every name of a program is assigned once")
        bound.add(target)
        yield canonical(target, value)


def _calls(node: ast.FunctionDef, params: Sequence[str]) -> tuple[tuple[Input, ...], tuple[tuple[str, ...], ...]]:
    last = node.body[-1]
    if node.args.args or not (isinstance(last, ast.Return) and isinstance(last.value, ast.List)):
        raise _error(last, "`calls()` must take nothing and end in `return [(…), …]`")
    inputs = [parse_input(statement) for statement in node.body[:-1] if not isinstance(statement, ast.Pass)]
    calls = []
    for call in last.value.elts:
        if not isinstance(call, ast.Tuple) or len(call.elts) != len(params):
            raise _error(call, f"every call must be a tuple of {len(params)} arguments, as many as `graph` takes")
        calls.append(
            tuple(_argument(argument, param, inputs) for argument, param in zip(call.elts, params, strict=True))
        )
    bound = {name for input_ in inputs for name in names_of(input_)}
    for name in (name for call in calls for name in call):
        if name not in bound:
            raise _error(last, f"`calls()` passes `{name}`, which it does not define")
    return tuple(inputs), tuple(calls)


def _argument(node: ast.expr, param: str, inputs: list[Input]) -> str:
    """The name of an argument. An argument that is written in place becomes a separate input."""
    if isinstance(node, ast.Name):
        return node.id
    bound = {name for input_ in inputs for name in names_of(input_)}
    name = param
    while name in bound:
        name += "_"
    assign = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=node)
    parsed = parse_input(ast.fix_missing_locations(assign))
    inputs.append(parsed)
    return name


def _verbatim(text: str, nodes: Sequence[ast.stmt]) -> str:
    """The source of `nodes`, each with the comments above it. Every program imports torch before them."""
    lines = _NEWLINE.split(text)
    pieces = []
    for node in nodes:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))]) - 1
        while first > 0 and lines[first - 1].startswith("#") and not lines[first - 1].startswith(MARK):
            first -= 1
        pieces.append("\n".join(lines[first : node.end_lineno]))
    return joined(piece for piece in pieces if piece != "import torch")


def _error(node: ast.AST, message: str) -> ReproKitError:
    line = getattr(node, "lineno", None)
    return UsageError(f"Line {line} of the program: {message}." if line else f"The program: {message}.")


_LOADS = re.compile(r"(?<![\w.])load\(")


def render(program: Program) -> str:
    """The text of `program`, which defines functions; `plain.runnable` adds what runs them."""
    body = [
        _head(program),
        *([LOAD] if _loads(program) else []),
        *([program.preamble.strip("\n") + "\n"] if program.preamble.strip() else []),
        *(render_peer(program.peer) if program.peer is not None else []),
        *(render_function(function) for function in program.functions()),
        render_calls(program),
    ]
    return "\n\n".join(body)


def _head(program: Program) -> str:
    doc = f"{docstring(program.doc)}\n" if program.doc else ""
    imports = "".join(f"{line}\n" for line in program.imports)
    return f"{doc}{HEADER}{imports}\nRECIPE = {render_recipe(program.recipe)}\n"


def render_recipe(recipe: Recipe) -> str:
    """The recipe as a literal dict, without the fields at their default."""
    return _literal(plain(recipe))


def _literal(value: Any) -> str:
    """Python text that ``ast.literal_eval`` reads: `repr`, except for infinities, which have no literal."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def render_function(function: Function) -> str:
    """One function, as straight-line Python."""
    lines = [statement.line for statement in function.statements]
    head = f"def {function.name}({', '.join(function.params)}):"
    block = _block(head, [*lines, f"return {function.returns.text}"])
    return "".join(f"@{decorator}\n" for decorator in function.decorators) + block


def render_peer(peer: Peer) -> list[str]:
    """The functions of `peer`, and `peer_calls`."""
    return [*map(render_function, peer.functions()), render_calls(peer, "peer_calls")]


def render_calls(program: Code, name: str = "calls") -> str:
    """The function `name`, which builds the arguments of every call."""
    calls = [f"({', '.join(call)}{',' if len(call) == 1 else ''})" for call in program.calls]
    return _block(f"def {name}():", [*(input_.line for input_ in program.inputs), f"return [{', '.join(calls)}]"])


def _block(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, *lines]).replace("\n", "\n    ") + "\n"


def _loads(program: Program) -> bool:
    return any("load(" in input_.line and _LOADS.search(input_.line) for input_ in program.all_inputs()) or bool(
        _LOADS.search(program.preamble)
    )


def docstring(text: str) -> str:
    """`text` as a docstring, or another literal where quotes do not allow it."""
    plain = f'"""{text}"""'
    try:
        same = ast.literal_eval(plain) == text
    except (SyntaxError, ValueError):
        same = False
    return plain if same else repr(text)
