"""Read `fx_graph_runnable` artifacts of a trace, and scripts of PyTorch's minifier, as programs.

Sources of the formats: torch/_dynamo/repro/after_aot.py, torch/_dynamo/repro/after_dynamo.py (for Dynamo's graphs), and
``InputWriter`` in torch/_dynamo/debug_utils.py for the calls in ``load_args``. An artifact holds no values, but the
minifier may leave them in files next to it. Missing values become random floats and zero integers, as with an
``InputReader`` without a save_dir.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from repro_kit.errors import CannotRunError, StageError
from repro_kit.graph.inputs import Bit, Data, DataKind, Input, ScalarInput, Strided, TensorInput, parse_input
from repro_kit.graph.placement import group_of, unknown_groups, with_names
from repro_kit.graph.program import Function, Program
from repro_kit.graph.program_text import PRIMS, PRIMS_IMPORT, parse_function
from repro_kit.graph.reading.artifact_forms import (
    bodies,
    compares_results,
    compiles_dynamos_graph,
    inlined,
    left_out,
    load_args_of,
    modules,
    optimized_by,
    runnable,
    with_generators,
    without_specs,
    without_states,
)
from repro_kit.graph.reading.artifact_names import needed, qualified
from repro_kit.graph.reading.artifact_sizes import evaluate, is_symbol, repeats_in, repeats_of, symbol_values
from repro_kit.graph.values import contiguous, span
from repro_kit.recipe import Autocast, ProcessGroup, Recipe, short_name

_TRITON = "higher_order.triton_kernel_wrapper"
_BITS: tuple[Bit, ...] = ("conj", "neg")
_SETTING = re.compile(r"TORCH(?:INDUCTOR|DYNAMO)_\w+")
_OF_THE_RUN = re.compile(r"_DIR$|CACHE|DEBUG|LOGS|TRACE|PROFILE|REPRO|VERBOSE|DISABLE$|THREADS$|WORKER")


def from_runnable(text: str, storages: Collection[str] = ()) -> Program:
    """The program in an artifact (an aten graph, compiled by Inductor without gradients) or in a Dynamo graph's script.

    `storages` are the names (hashes) of storages whose values are available: these are loaded from a file named
    ``<variable>_<hash>.pt`` with the dtype and sizes of its line. Raises StageError when the text is no such artifact,
    or lacks something that the graph needs (bodies of higher-order operators, arguments other than tensors).
    """
    text = runnable(with_generators(text))
    if lost := left_out(text):
        raise CannotRunError(
            f"The artifact lacks the bodies of its operators ({', '.join(lost)}), which this version of torch did not "
            "write; give the TORCH_TRACE log that it is from, which has them in other records."
        )
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        line = f"line {error.lineno}: {(error.text or '').strip()}"
        raise StageError(f"The artifact is not valid Python ({line}).") from None
    group, names = _group(tree, text)
    tree = ast.parse(with_names(text, names))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    load_args = next((node for node in tree.body if getattr(node, "name", "") == "load_args"), None)
    load_args = load_args if isinstance(load_args, ast.FunctionDef) else load_args_of(tree.body)
    if "Repro" not in classes or load_args is None:
        raise StageError("The file is not an fx_graph_runnable: it has no class Repro with a load_args or a list args.")
    methods = {node.name: node for node in classes["Repro"].body if isinstance(node, ast.FunctionDef)}
    if "forward" not in methods:
        raise StageError("The artifact's class Repro has no forward.")
    attributes = _attributes(methods.get("__init__"), classes, _moved(tree))
    forward = inlined(without_specs(without_states(methods["forward"])), modules(methods.get("__init__"), classes))
    graph, constants = _graph(forward, attributes)
    if any(_TRITON in statement.text for statement in graph.statements):
        raise CannotRunError(
            "GPU only: the graph calls Triton kernels of the user's own, and a program cannot hold them; collect the "
            "script that defines them, on a machine with the GPU."
        )
    reader = _Reader(symbol_values(tree, load_args), storages)
    reader.read(load_args, graph.params[: len(graph.params) - len(constants)])
    reader.totals |= repeats_in(graph)
    functions = (*bodies(classes, "Repro"), graph)
    imports, preamble = needed(tree.body, functions, [constant.line for constant in constants])
    return Program(
        graph=graph,
        bodies=functions[:-1],
        inputs=(*reader.lines, *constants),
        calls=((*reader.arguments, *(constant.line.split(" = ")[0] for constant in constants)),),
        recipe=_recipe(tree, reader).with_(group=group),
        imports=tuple(dict.fromkeys([*_registers(tree.body, functions), *imports])),
        preamble=preamble,
    )


def _recipe(tree: ast.Module, reader: _Reader) -> Recipe:
    """The recipe of the script's ``run_repro``."""
    calls = [
        call for call in ast.walk(tree) if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("run_repro")
    ]
    given = {keyword.arg: keyword.value for call in calls for keyword in call.keywords if keyword.arg}
    settings = {name: value.value for name, value in given.items() if isinstance(value, ast.Constant)}
    homes = [statement.module or "" for statement in ast.walk(tree) if isinstance(statement, ast.ImportFrom)]
    check = bool(settings.get("accuracy")) or compares_results(tree)
    recipe = Recipe(
        dynamic=True if reader.symbolic else None,
        config=_config(tree.body),
        check=check,
        env=_environment(tree.body),
    )
    if not (any(home.endswith("repro.after_dynamo") for home in homes) or compiles_dynamos_graph(tree)):
        return recipe.with_(grad_mode="no_grad")
    trains = any(isinstance(line, TensorInput) and line.requires_grad for line in reader.lines)
    return recipe.with_(
        backend=str(settings.get("backend") or optimized_by(tree) or "inductor"),
        backward="sum" if trains else "none",
        autocast=Autocast() if settings.get("autocast") else None,
    )


def _group(tree: ast.Module, text: str) -> tuple[ProcessGroup | None, dict[str, str]]:
    """The process group that the script sets up, and the names that replace the names of its groups.

    The script knows the size and the own rank of each group, but no other member. So the members of a group become
    neighbours. Scripts of older versions set up no group.
    """
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("setup_fake_process_groups"):
            groups = ast.literal_eval(call.args[0]).items()
            own = max((group["rank"] for _, group in groups), default=0)
            starts = {name: (own - group["rank"], group["size"]) for name, group in groups}
            members = {name: range(start, start + size) for name, (start, size) in starts.items()}
            return group_of([text], _world(members), own, members)
    members = unknown_groups(text)
    return group_of([text], _world(members), 0, members)


def _world(members: Mapping[str, range]) -> int:
    """The number of ranks."""
    return max((ranks.stop for ranks in members.values()), default=1)


def _graph(forward: ast.FunctionDef, attributes: Mapping[str, ast.expr]) -> tuple[Function, list[Input]]:
    """`graph` with the module's own tensors as more parameters, and the inputs for these parameters."""
    used: dict[str, str] = {}

    class SelfAttributes(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            self.generic_visit(node)
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                return node
            if node.attr not in attributes:
                raise StageError(f"The artifact uses self.{node.attr}, whose definition it lacks.")
            used[node.attr] = f"constant{node.attr}" if node.attr.startswith("_") else f"constant_{node.attr}"
            return ast.copy_location(ast.Name(id=used[node.attr], ctx=ast.Load()), node)

    node = SelfAttributes().visit(forward)
    names = [arg for arg in node.args.args if arg.arg != "self"]
    node.args.args = [*names, *(ast.arg(arg=name) for name in used.values())]
    node.name, node.returns = "graph", None
    lines = [
        ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=attributes[at]) for at, name in used.items()
    ]
    return parse_function(node), [parse_input(ast.fix_missing_locations(line)) for line in lines]


def _attributes(init: ast.FunctionDef | None, classes: Collection[str], moved: ast.Call | None) -> dict[str, ast.expr]:
    """Tensors and modules of torch that ``__init__`` sets on the module; `moved`: the call that moves them to a device.

    Sub-modules that are printed as ``<lambda>()`` or similar, or are one of `classes`, are left out.
    """
    attributes: dict[str, ast.expr] = {}
    for node in init.body if init is not None else ():
        match node:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(attr="register_buffer"), args=[ast.Constant(value=name), value])
            ):
                attributes[str(name)] = qualified(value)
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _is_of_torch(value):
                attributes[name] = qualified(value)
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _is_module_of_torch(value, classes):
                attributes[name] = ast.parse(f"torch.nn.{ast.unparse(value)}", mode="eval").body
    if moved is None or not isinstance(moved.func, ast.Attribute):
        return attributes
    attr = moved.func.attr
    return {
        name: ast.Call(ast.Attribute(value, attr, ast.Load()), moved.args, moved.keywords)
        for name, value in attributes.items()
    }


def _is_of_torch(value: ast.expr) -> bool:
    return ast.unparse(qualified(value)).startswith("torch.")


def _is_module_of_torch(value: ast.expr, classes: Collection[str]) -> bool:
    """Whether this is ``Linear(in_features=8, …)`` of ``from torch.nn import *``, perhaps with ``.to(…)``."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner)):
            return _is_module_of_torch(inner, classes)
        case ast.Call(func=ast.Name(id=name)):
            return name[:1].isupper() and name not in classes and name != "Module"
    return False


def _moved(tree: ast.Module) -> ast.Call | None:
    """The call that moves the module to a device: ``Repro().cuda()``, ``Repro().to(device="cuda")``."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="Repro")), attr="cuda" | "to" | "cpu")):
                return node
    return None


def _environment(nodes: Sequence[ast.stmt]) -> dict[str, str]:
    """The variables of the original run that set defaults of the compiler: torch writes no setting at its default."""
    variables: dict[str, str] = {}
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=str(name)))],
                value=ast.Constant(value=str(value)),
            ) if _SETTING.fullmatch(name) and not _OF_THE_RUN.search(name):
                variables[name] = value
    return variables


def _config(nodes: Sequence[ast.stmt]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for node in nodes:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)):
            continue
        name = short_name(ast.unparse(node.targets[0]))
        if name is not None:
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                continue  # a function, which has no literal
            if not isinstance(value, set) and "_config_ignore" not in name:  # these are lists of torch's own
                config[name] = value
    return config


def _registers(nodes: Sequence[ast.stmt], functions: Sequence[Function]) -> tuple[str, ...]:
    """The import that registers Inductor's own operators, if the artifact has it and uses one of them."""
    used = any(PRIMS in statement.text for function in functions for statement in function.statements)
    return (PRIMS_IMPORT,) if used and any(ast.unparse(node) == PRIMS_IMPORT for node in nodes) else ()


@dataclass
class _Storage:
    name: str
    device: str | None
    file: str | None = None  # the file with its values
    tensors: list[TensorInput] = field(default_factory=list)


class _Reader:
    """Interprets ``load_args`` like ``InputReader``, on text: collects the lines and names of the inputs."""

    def __init__(self, symbols: dict[str, int], stored: Collection[str]) -> None:
        self.symbols = symbols
        self.stored = stored
        self.storages: dict[str, _Storage] = {}
        self.scalars: list[ScalarInput] = []
        self.arguments: list[str] = []
        self.totals: dict[str, int] = {}  # of tensors that say how often each element is repeated: their sums
        self.symbolic = False

    def read(self, function: ast.FunctionDef, params: Sequence[str]) -> None:
        """Follow the calls in ``load_args``. Each call but ``storage`` makes the argument for the next parameter."""
        for node in function.body:
            call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            options = {keyword.arg or "": keyword.value for keyword in call.keywords}
            if call.func.attr == "storage" and isinstance(node, ast.Assign):
                name, digest = ast.unparse(node.targets[0]), ast.unparse(call.args[0]).strip("'")
                file = f"{name}_{digest}.pt" if digest in self.stored else None
                self.storages[name] = _Storage(name, _device(options.get("device")), file)
            elif len(self.arguments) < len(params):
                self._argument(call, params[len(self.arguments)], options)
        if len(self.arguments) != len(params):
            raise StageError("The artifact's load_args gives fewer arguments than forward takes.")
        sizes = {scalar.name: scalar.value for scalar in self.scalars}
        for tensor, size in repeats_of(function):
            total = sizes.get(params[size])
            if isinstance(total, int):
                self.totals[params[tensor]] = total

    def _argument(self, call: ast.Call, param: str, options: Mapping[str, ast.expr]) -> None:
        assert isinstance(call.func, ast.Attribute)
        match call.func.attr:
            case "tensor":
                self._tensor(call.args, param, options)
            case "symint" if isinstance(call.args[0], ast.Constant) and call.args[0].value is None:
                raise CannotRunError(
                    f"The artifact does not hold the value of the size {param}, which depended on data; collect the "
                    "script."
                )
            case "symint":
                self.scalars.append(ScalarInput(param, self._number(call.args[0])))
                self.symbolic = True
            case "const" | "opaque" | "generator":  # a device mesh, say: a graph can only pass it on
                self.scalars.append(ScalarInput(param, None))
            case kind:
                raise StageError(f"Input {param} of the artifact is of kind {kind}, which a program cannot hold.")
        self.arguments.append(param)

    def _tensor(self, args: Sequence[ast.expr], param: str, options: Mapping[str, ast.expr]) -> None:
        storage = self.storages[ast.unparse(args[0])]
        shape = self._numbers(args[1])
        stride = self._numbers(args[2]) if len(args) > 2 else contiguous(shape)
        dtype = ast.unparse(options["dtype"]) if "dtype" in options else None
        offset = self._number(options["storage_offset"]) if "storage_offset" in options else 0
        requires_grad = "requires_grad" in options and ast.literal_eval(options["requires_grad"]) is True
        tensor = TensorInput(
            param,
            Data("load", args=(storage.file,)) if storage.file else Data(_kind(dtype)),
            Strided(shape, stride, int(offset)),
            None if dtype == "torch.float32" else dtype,
            storage.device,
            requires_grad,
            bits=tuple(bit for bit in _BITS if bit in options and ast.literal_eval(options[bit]) is True),
        )
        storage.tensors.append(tensor)

    @property
    def lines(self) -> tuple[Input, ...]:
        """The lines of `calls()`."""
        tensors = (line for storage in self.storages.values() for line in _lines(storage))
        return (*self.scalars, *(_filled(line, self.totals.get(line.name)) for line in tensors))

    def _numbers(self, node: ast.expr) -> tuple[int, ...]:
        if not isinstance(node, ast.Tuple | ast.List):
            raise StageError(f"The artifact's size {ast.unparse(node)} is not a tuple.")
        return tuple(int(self._number(part)) for part in node.elts)

    def _number(self, node: ast.expr) -> int | float:
        names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
        unknown = [name for name in names if is_symbol(name) and name not in self.symbols]
        if unknown:
            raise CannotRunError(
                f"The artifact does not hold the value of the size {unknown[0]}; write it at the top of the file, in a "
                f"line of its own ({unknown[0]} = 8)."
            )
        return evaluate(node, self.symbols)


def _filled(tensor: TensorInput, total: int | None) -> TensorInput:
    """`tensor` with whole numbers that add up to `total`, if there is one and no file has the values."""
    shape = tensor.shape
    if total is None or tensor.data.kind != "zeros" or shape is None or len(shape) != 1 or not shape[0]:
        return tensor
    share, more = divmod(total, shape[0])
    literal = str([share + (at < more) for at in range(shape[0])])
    return replace(tensor, data=Data("tensor", shape, (literal,)), strided=None)


def _lines(storage: _Storage) -> list[TensorInput]:
    """The tensors of one storage: a single one as itself, several as views of a flat base."""
    spans = [
        tensor_input.offset + span(tensor_input.shape or (), tensor_input.stride or ())
        for tensor_input in storage.tensors
    ]
    if len(storage.tensors) == 1:
        (tensor,) = storage.tensors
        assert tensor.strided is not None
        plain = tensor.strided.stride == contiguous(tensor.strided.shape) and not tensor.offset
        sizes = tensor.strided.shape if plain else (spans[0],)
        data = replace(tensor.data, sizes=sizes)
        return [replace(tensor, data=data, strided=None if plain else tensor.strided)]
    if len({tensor_input.dtype for tensor_input in storage.tensors}) > 1:
        names = ", ".join(tensor_input.name for tensor_input in storage.tensors)
        raise StageError(f"Inputs {names} of the artifact share memory under several dtypes.")
    if not storage.tensors:
        return []
    first = storage.tensors[0]
    base = TensorInput(storage.name, replace(first.data, sizes=(max(spans),)), None, first.dtype, first.device)
    views = [
        replace(view, data=Data("view", None, (storage.name,)), dtype=None, device=None) for view in storage.tensors
    ]
    return [base, *views]


def _kind(dtype: str | None) -> DataKind:
    """How to make values of a dtype: there are no random numbers of eight bits or fewer."""
    if dtype is None or "complex" in dtype or re.search(r"float(16|32|64)$", dtype):
        return "randn"
    return "ones" if "float8" in dtype else "zeros"


def _device(node: ast.expr | None) -> str | None:
    if node is None:
        return None
    parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and part.value is not None]
    return ":".join(str(part) for part in parts)
