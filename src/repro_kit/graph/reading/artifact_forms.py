"""Parts of an `fx_graph_runnable`: bodies, generators, and the arguments in older versions of torch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from repro_kit.errors import StageError
from repro_kit.graph.program import Function
from repro_kit.graph.program_text import parse_function
from repro_kit.graph.reading.artifact_names import qualified

_OPERATOR = "torch.ops.higher_order.graphsafe_run_with_rng_state"
_COMMENT = re.compile(r"^(\s+)# (\w+) was unsupported type for dumping: <class '(.+)'>$", re.MULTILINE)
_GENERATOR = "torch._C.Generator"


def with_generators(text: str) -> str:
    """The artifact with a call in ``load_args`` for each generator, or what else is no tensor, that a comment names."""
    return _COMMENT.sub(
        lambda found: f"{found[1]}reader.{'generator' if found[3] == _GENERATOR else 'unsupported'}('{found[2]}')", text
    )


def without_states(forward: ast.FunctionDef) -> ast.FunctionDef:
    """`forward` with each operator called by itself that was run with the state of a generator."""
    plain = _Plain().visit(forward)
    assert isinstance(plain, ast.FunctionDef)
    return plain


class _Plain(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) != _OPERATOR:
            return node
        keywords = [keyword for keyword in node.keywords if keyword.arg != "rng_state"]
        return ast.copy_location(ast.Call(node.args[0], node.args[1:], keywords), node)


_SPECS = ("_in_spec", "_out_spec")


def without_specs(forward: ast.FunctionDef) -> ast.FunctionDef:
    """`forward` with its tensors as parameters, and the plain results: a graph of torch.export packs both in trees.

    ``a, b, = fx_pytree.tree_flatten_spec([], self._in_spec)`` names them in the order of ``load_args``.
    """
    body: list[ast.stmt] = []
    for node in forward.body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(args=[_, spec])) if _is_spec(spec):
                own = [name.id for name in names if isinstance(name, ast.Name)]
                forward.args.args = [ast.arg(arg=name) for name in ("self", *own)]
            case ast.Return(value=ast.Call(args=[results, spec])) if _is_spec(spec):
                body.append(ast.copy_location(ast.Return(results), node))
            case _:
                body.append(node)
    forward.body = body
    return forward


def _is_spec(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self" and node.attr in _SPECS


_CLASS = re.compile(r"^class Repro\(torch\.nn\.Module\)", re.MULTILINE)
#: How an artifact of torch begins, and what nothing after its class looks like.
_BEGINS = re.compile(r"^(?:[su]\d+ = \d+|import (?:os|math|torch)|from math import inf)[ \t]*$", re.MULTILINE)
_NO_OPERATORS = ("tensor", "device", "no_grad", "randn", "Size")
_OPERATOR_NAME = re.compile(r"\btorch\.(?:ops\.\w+\.(\w+)(?:\.\w+)?|(?:\w+\.)*([a-z]\w*))\(")

_METHOD = re.compile(r"^\s+\w+ = (?!reader\b|torch\b)\w+\.(\w+)\(", re.MULTILINE)


def artifacts_in(text: str) -> tuple[str, ...]:
    """The artifacts in `text`, which may hold several one after the other."""
    classes = [match.start() for match in _CLASS.finditer(text)]
    if len(classes) < 2:
        return (text,)
    cuts = [0]
    for here, there in pairwise(classes):
        begins = [match.start() for match in _BEGINS.finditer(text, here, there)]
        cuts.append(begins[0] if begins else there)
    parts = [text[cut:end] for cut, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]
    head = text[: classes[0]]  # of the first, which counts for one that has none of its own
    return tuple(part if at == 0 or _BEGINS.search(part) else head + part for at, part in enumerate(parts))


def operators_in(text: str) -> tuple[str, ...]:
    """The operators that the artifact `text` calls, by their short names, each once; else methods of tensors."""
    start = _CLASS.search(text)
    found = _OPERATOR_NAME.finditer(text, start.end() if start else 0)
    names = dict.fromkeys(match[1] or match[2] for match in found)
    operators = tuple(name for name in names if name not in _NO_OPERATORS)
    return operators or tuple(dict.fromkeys(_METHOD.findall(text, start.end() if start else 0)))


_LIST = "args"
_MAKER = "rand_strided"


def load_args_of(nodes: Sequence[ast.stmt]) -> ast.FunctionDef | None:
    """The arguments that `nodes` make without a ``load_args``, as one; None if there are none.

    Before 2.1 they are a list `args`; others call an ``InputReader`` at the top of the file.
    """
    readers = {
        node.targets[0].id
        for node in nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] == "InputReader"
    }
    if readers:
        calls = [node for node in nodes if isinstance(node, ast.Expr | ast.Assign) and _calls_of(node) in readers]
        function = ast.parse("def load_args(reader): pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        function.body = [*calls] or function.body
        return function
    return _of_list(nodes)


def _calls_of(node: ast.Expr | ast.Assign) -> str:
    """The object whose method is called; empty for anything else."""
    match node.value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name
    return ""


def _of_list(nodes: Sequence[ast.stmt]) -> ast.FunctionDef | None:
    elements: list[ast.expr] | None = None
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=listed)) if name == _LIST:
                elements = [*listed]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[one])) if (
                name == _LIST and elements is not None
            ):
                elements.append(one)
    if elements is None:
        return None
    lines = [line for number, element in enumerate(elements) for line in _lines(f"buf{number}", element)]
    function = ast.parse("def load_args(reader):\n" + "".join(f"    {line}\n" for line in lines or ["pass"])).body[0]
    assert isinstance(function, ast.FunctionDef)
    return function


def compiles_dynamos_graph(tree: ast.Module) -> bool:
    """Whether the script has Dynamo compile its module, and does not give the module's aten graph to Inductor."""
    return any(name.endswith("_dynamo.optimize") for name in _called_names(tree))


def optimized_by(tree: ast.Module) -> str:
    """The backend that a script of torch 2.0 gives to ``torch._dynamo.optimize``; empty if it names none."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function, args=[ast.Constant(value=str(backend)), *_]) if ast.unparse(function).endswith(
                "_dynamo.optimize"
            ):
                return backend
    return ""


def compares_results(tree: ast.Module) -> bool:
    """Whether the script compares the results with eager's: its failure is a wrong result."""
    return "same_two_models" in _called_names(tree)


def _called_names(tree: ast.Module) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def _lines(storage: str, element: ast.expr) -> Iterator[str]:
    """The calls of `reader` for one element."""
    match element:
        case ast.Tuple(elts=[size, stride, dtype, device, *rest]):
            grad = f", requires_grad={ast.unparse(rest[0])}" if rest else ""
        case ast.Call(func=ast.Name(id=name), args=[size, stride, dtype, device]) if name == _MAKER:
            grad = ""
        case _:
            yield f"reader.symint({ast.unparse(element)})"
            return
    size_of, stride_of, dtype_of, device_of = map(ast.unparse, (size, stride, dtype, device))
    yield f"{storage} = reader.storage(None, 0, device={device_of})"
    yield f"reader.tensor({storage}, {size_of}, {stride_of}, dtype={dtype_of}{grad})"


def modules(init: ast.FunctionDef | None, classes: Mapping[str, ast.ClassDef]) -> dict[str, str]:
    """The attributes that ``__init__`` sets to an instance of one of `classes`: {attribute: function name}."""
    function_names = {}
    for node in init.body if init is not None else ():
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=attr)], value=ast.Call(func=ast.Name(id=name), args=[])):
                if name in classes:
                    function_names[attr] = _function_name(name)
    return function_names


def bodies(classes: Mapping[str, ast.ClassDef], outermost: str) -> tuple[Function, ...]:
    """Every class but `outermost` as a function. Raises StageError if one needs more than its arguments."""
    functions = []
    for name, node in classes.items():
        methods = {method.name: method for method in node.body if isinstance(method, ast.FunctionDef)}
        if name == outermost or "forward" not in methods:
            continue
        forward = inlined(methods["forward"], modules(methods.get("__init__"), classes))
        forward = _with_numbers(forward, methods.get("__init__"))
        left = next((part for part in ast.walk(forward) if isinstance(part, ast.Name) and part.id == "self"), None)
        if left is not None:
            raise StageError(f"The body {name} of the artifact has its own tensors, which a program cannot hold.")
        forward.name, forward.returns = _function_name(name), None
        forward.args.args = [ast.arg(arg=arg.arg) for arg in forward.args.args if arg.arg != "self"]
        functions.append(parse_function(forward))
    return tuple(functions)


def _with_numbers(forward: ast.FunctionDef, init: ast.FunctionDef | None) -> ast.FunctionDef:
    """The `forward` of a body with the small tensors that ``__init__`` writes out in place of its attributes."""
    written: dict[str, ast.expr] = {}
    for node in init.body if init is not None else ():
        match node:
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(attr="register_buffer"),
                    args=[ast.Constant(value=str(name)), ast.Call(func=ast.Name(id="tensor")) as value],
                )
            ):
                written[name] = qualified(value)

    class Written(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            self.generic_visit(node)
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in written
            return ast.copy_location(written[node.attr], node) if is_own else node

    replaced = Written().visit(forward)
    assert isinstance(replaced, ast.FunctionDef)
    return replaced


def inlined(forward: ast.FunctionDef, functions: Mapping[str, str]) -> ast.FunctionDef:
    """`forward` with `functions` in place of its sub-modules: ``a = self.body; op(a)`` becomes ``op(body)``."""
    names: dict[str, str] = {}
    statements: list[ast.stmt] = []
    for node in forward.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=alias)], value=ast.Attribute(value=ast.Name(id="self"), attr=attr)
            ) if attr in functions:
                names[alias] = functions[attr]
            case _:
                statements.append(node)

    class SubmoduleNames(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.copy_location(ast.Name(id=names.get(node.id, node.id), ctx=node.ctx), node)

        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in functions:
                return ast.copy_location(ast.Name(id=functions[node.attr], ctx=node.ctx), node)
            return node

    forward.body = statements
    renamed = SubmoduleNames().visit(forward)
    assert isinstance(renamed, ast.FunctionDef)
    return renamed


def _function_name(name: str) -> str:
    return name.lower()


#: How torch prints a body that it cannot write: versions before 2.14 leave out those of higher-order operators.
_LEFT_OUT = re.compile(r"^\s+self\.(\w+) = (?:<\w+>|GraphModule)\(\)[ \t]*$", re.MULTILINE)


def left_out(text: str) -> tuple[str, ...]:
    """The attributes of the artifact `text` whose bodies torch did not write."""
    return tuple(dict.fromkeys(_LEFT_OUT.findall(text)))


_EXPRESSION = re.compile(r"^(?!\w+ = )[\w*+/(), -]+ = \d+$\n?", re.MULTILINE)
_NO_ARGUMENTS = re.compile(r"^(def load_args\(reader\):\n)(?=\S)", re.MULTILINE)


_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[\w+-]*[ \t]*$\n?", re.MULTILINE)  # of a text that it was copied from


def runnable(text: str) -> str:
    """`text` without what torch writes that is not Python: ``4*s77 = 32`` at the top, a ``load_args`` without lines."""
    return _NO_ARGUMENTS.sub(r"\1    pass\n", _EXPRESSION.sub("", _FENCE.sub("", text.removeprefix("\ufeff"))))
