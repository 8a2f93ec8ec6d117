"""Extract from a user's file the definitions that a captured graph cannot hold.

A graph holds operators. Other code in the user's file can change the compiler: it registers a backend, a custom
operator, a lowering or a decomposition, patches a pass, or sets a config. A program takes such top-level statements
along verbatim, as its preamble. The extraction is a static slice (Weiser, "Program slicing", 1981) over top-level
statements, with names as the only dependence.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence

from repro_kit.graph.python_code import bound_names, joined, reads_of, text_of

#: Packages of torch that a statement must mention to be able to change the compiler, or to load operators in C++.
COMPILER_NAMESPACES = (
    "torch._inductor",
    "torch._dynamo",
    "torch._decomp",
    "torch._functorch",
    "torch._higher_order_ops",
    "torch._prims",
    "torch._refs",
    "torch._meta_registrations",
    "torch._subclasses",
    "torch.compiler",
    "torch.fx",
    "torch.library",
    "torch._library",
    "torch.backends",
    "torch.utils._pytree",
    "torch.utils.cpp_extension",
    "torch.ops.load_library",
)

#: Those of them that define operators, and change nothing of the compiler.
_OF_OPERATORS = ("torch.library", "torch._library", "torch.utils.cpp_extension", "torch.ops.load_library")
WITH_OPERATORS, WITH_DEFINITIONS = "with the script's custom operators", "with the script's definitions"

#: A statement that mentions one of these is the user's main work, not a customisation.
_MAIN_WORK = ("torch.compile", "torch._dynamo.optimize", "torch.export")

#: Functions that reset, query or annotate only; they do not change what the compiler does elsewhere.
_IGNORED_CALLS = (
    "torch._dynamo.reset",
    "torch.compiler.reset",
    "torch._dynamo.explain",
    "torch._dynamo.graph_break",
    "torch._dynamo.is_compiling",
    "torch.compiler.is_compiling",
    "torch.compiler.is_dynamo_compiling",
    "torch._dynamo.mark_dynamic",
    "torch._dynamo.mark_static",
    "torch._dynamo.mark_unbacked",
    "torch._dynamo.maybe_mark_dynamic",
    "torch._dynamo.utils",
    "torch._dynamo.testing",
    "torch.compiler.cudagraph_mark_step_begin",
)


def customisations(source: str, names: Collection[str] = ()) -> str:
    """The statements of `source` that change the compiler or define `names`, with all that they need; "" for none.

    Raises SyntaxError when `source` is not Python.
    """
    statements = _statements(source)
    roots = [
        at
        for at, statement in enumerate(statements)
        if statement.binds & set(names) or _customises(statement, statements)
    ]
    return _sliced(source, statements, roots)


def definitions(source: str, names: Iterable[str]) -> str:
    """The statements of `source` that define `names`, with all they need; "" when a name is not at the top level."""
    statements = _statements(source)
    wanted = set(names)
    chosen = [at for at, statement in enumerate(statements) if wanted & statement.binds]
    if wanted - set().union(*(statements[at].binds for at in chosen), set()):
        return ""
    return _sliced(source, statements, chosen)


def preamble_words(preamble: str) -> str:
    """What `preamble` has, to follow "fails alone"; "" for nothing. Operators are named if there is nothing else."""
    mentions: set[str] = set().union(*(statement.mentions for statement in _statements(preamble)), set())
    of_compiler = {name for name in mentions if _below(name, COMPILER_NAMESPACES) and not _below(name, _IGNORED_CALLS)}
    of_operators = {name for name in of_compiler if _below(name, _OF_OPERATORS)}
    if of_operators and of_operators == of_compiler:
        return WITH_OPERATORS
    return WITH_DEFINITIONS if preamble else ""


class _Statement:
    """A top-level statement with the names it binds and uses, and the dotted names it mentions."""

    def __init__(self, node: ast.stmt, aliases: dict[str, str]) -> None:
        self.node = node
        self.binds = bound_names(node)
        self.uses = reads_of(ast.unparse(node))
        self.mentions = set(_mentions(node, aliases))
        self.is_import = isinstance(node, ast.Import | ast.ImportFrom)
        self.is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _statements(source: str) -> list[_Statement]:
    tree = ast.parse(source)
    flat: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            flat += node.body
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            flat.append(node)
    aliases: dict[str, str] = {}
    for part in ast.walk(tree):
        aliases.update(_import_aliases(part))
    return _entered([_Statement(node, aliases) for node in flat], aliases)


def _entered(flat: Sequence[_Statement], aliases: dict[str, str]) -> list[_Statement]:
    """`flat`, and the bodies of functions that reach the main work, and are called or handed on (``spawn(main)``).

    So are the methods of a class (``Trainer().fit()``). A local name that hides a global one stays where it is. Any
    other function is kept as a whole with its call, which runs its body.
    """
    of_module = set().union(*(statement.binds for statement in flat), set())
    entries = {
        statement.node.name: _functions(statement.node)
        for statement in flat
        if isinstance(statement.node, ast.FunctionDef | ast.ClassDef) and _reaches_main_work(statement, flat)
    }
    entered = list(flat)
    for statement in entered:  # the bodies too, as these grow the list
        if statement.is_definition:
            continue
        for part in ast.walk(statement.node):
            if isinstance(part, ast.Name):
                inner = [found for function in entries.pop(part.id, ()) for found in _body(function, aliases)]
                entered += [found for found in inner if found.is_import or not found.binds & of_module]
    return entered


def _functions(node: ast.FunctionDef | ast.ClassDef) -> list[ast.FunctionDef]:
    """The function itself, or the methods of the class."""
    return [
        part for part in (node.body if isinstance(node, ast.ClassDef) else [node]) if isinstance(part, ast.FunctionDef)
    ]


def _body(function: ast.FunctionDef, aliases: dict[str, str]) -> list[_Statement]:
    """The statements of a function that run without its arguments."""
    unknown = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    return _without_arguments(function.body, unknown, aliases)


def _without_arguments(body: Sequence[ast.stmt], unknown: set[str], aliases: dict[str, str]) -> list[_Statement]:
    """The statements that read no `unknown` name, which grows. Of a condition that does, its branch is taken."""
    known: list[_Statement] = []
    for node in body:
        statement = _Statement(_outside(node), aliases)
        if not statement.uses & unknown:
            known.append(statement)
            unknown -= statement.binds
        elif isinstance(node, ast.If | ast.With | ast.Try):
            known += _without_arguments(node.body, unknown, aliases)
        else:
            unknown |= statement.binds
    return known


def _outside(node: ast.stmt) -> ast.stmt:
    """`node` as it may stand outside of a function."""
    if isinstance(node, ast.Return):
        return ast.copy_location(ast.Expr(node.value), node.value) if isinstance(node.value, ast.Call) else ast.Pass()
    return node


def _reaches_main_work(statement: _Statement, statements: Sequence[_Statement]) -> bool:
    return any(_below(name, _MAIN_WORK) for name in _reach(statement, statements))


def _import_aliases(node: ast.AST) -> dict[str, str]:
    if isinstance(node, ast.Import):
        return {alias.asname: alias.name for alias in node.names if alias.asname}
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return {}


def _mentions(node: ast.AST, aliases: dict[str, str]) -> Iterable[str]:
    """Dotted names, each in full: ``torch._dynamo.reset`` does not mention ``torch._dynamo``."""
    dotted = _dotted(node) if isinstance(node, ast.Attribute | ast.Name) else None
    if dotted:
        head, _, rest = dotted.partition(".")
        yield ".".join(filter(None, [aliases.get(head, head), rest]))
        return
    for part in ast.iter_child_nodes(node):
        yield from _mentions(part, aliases)


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else None
    return None


def _reach(statement: _Statement, statements: Sequence[_Statement]) -> set[str]:
    """Dotted names that running `statement` mentions, including the functions of the file that it calls."""
    seen: set[int] = set()
    mentions: set[str] = set()
    queue = [statement]
    while queue:
        current = queue.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        mentions |= current.mentions
        queue += [other for other in statements if other.is_definition and other.binds & current.uses]
    return mentions


def _customises(statement: _Statement, statements: Sequence[_Statement]) -> bool:
    if statement.is_import:
        return False
    if statement.is_definition and not getattr(statement.node, "decorator_list", []):
        return False
    if _reaches_main_work(statement, statements):
        return False
    mentions = _reach(statement, statements)
    return any(_below(name, COMPILER_NAMESPACES) and not _below(name, _IGNORED_CALLS) for name in mentions)


def _below(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def _sliced(source: str, statements: Sequence[_Statement], roots: Sequence[int]) -> str:
    """The source text of the statements that `roots` depend on, in the order of the file."""
    chosen = set(roots)
    while True:
        needed = set().union(*(statements[at].uses for at in chosen), set())
        bound = set().union(*(statements[at].binds for at in chosen), set())
        more = {
            at for at, statement in enumerate(statements) if at not in chosen and _belongs(statement, needed, bound)
        }
        if not more:
            break
        chosen |= more
    return joined(text_of(source, statements[at].node) for at in sorted(chosen)) + "\n" if chosen else ""


def _belongs(statement: _Statement, needed: set[str], bound: set[str]) -> bool:
    """Whether the slice needs this statement, or the statement completes a definition (``@op.register_fake``)."""
    if statement.binds & needed and (statement.is_import or statement.is_definition or not _calls_compile(statement)):
        return True
    completes = getattr(statement.node, "decorator_list", None)
    if completes is None and isinstance(statement.node, ast.Expr):
        completes = [statement.node.value.func] if isinstance(statement.node.value, ast.Call) else []
    heads = {(_dotted(_callee(part)) or "") for part in completes or []}
    return any("." in head and head.split(".")[0] in bound and _registers(head) for head in heads)


def _callee(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _registers(dotted: str) -> bool:
    return dotted.rsplit(".", 1)[1].startswith(("register", "impl", "def", "py_impl"))


def _calls_compile(statement: _Statement) -> bool:
    return any(_below(name, _MAIN_WORK) for name in statement.mentions)
