"""Where a program runs: the devices and the process groups that it names, and the same program elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from repro_kit.graph.inputs import DynamicMark, Input, OpaqueInput, TensorInput, parse_input
from repro_kit.graph.program import Function, Peer, Program, Statement
from repro_kit.recipe import ProcessGroup

_TYPES = ("cuda", "xpu", "mps", "hpu", "mtia", "npu", "privateuseone")
_DEVICE = re.compile(rf"({'|'.join(_TYPES)})(?::\d+)?")


def devices_in(program: Program) -> frozenset[str]:
    """The types of the accelerators that the program names: ``cuda``, ``xpu`` …"""
    recipe = program.recipe
    named = {line.device for line in program.inputs if isinstance(line, TensorInput) and line.device}
    named |= {recipe.autocast.device} if recipe.autocast else set()
    functions = list(program.functions())
    texts = [one.text for function in functions for one in (*function.statements, function.returns)]
    texts += [line.text for line in program.inputs if isinstance(line, OpaqueInput | DynamicMark)]
    for text in (*texts, *recipe.contexts, program.preamble):
        named |= _ToCpu.seen_in(text)
    return frozenset(filter(None, map(device_type, named)))


def device_type(name: str) -> str:
    """The type of the accelerator that is called `name` (``cuda:0``); empty for the CPU and any other text."""
    found = _DEVICE.fullmatch(name)
    return found[1] if found else ""


def on_cpu(program: Program, types: Collection[str]) -> Program:
    """`program` with every device of one of the `types` replaced by the CPU.

    Calls of modules such as ``torch.cuda`` stay as they are: only a run shows whether such a program works on the CPU.
    """
    recipe = program.recipe
    autocast = recipe.autocast
    if autocast is not None and _is_of(autocast.device, types):
        autocast = replace(autocast, device="cpu")
    moved = program.mapped(lambda function: _function(function, types)).with_inputs(lambda line: _input(line, types))
    return moved.with_(
        preamble=_moved(program.preamble, types),
        recipe=recipe.with_(autocast=autocast, contexts=tuple(_moved(text, types) for text in recipe.contexts)),
    )


def _is_of(device: str, types: Collection[str]) -> bool:
    return device.partition(":")[0] in types


def _function(function: Function, types: Collection[str]) -> Function:
    moved = function.mapped(lambda one: Statement(one.target, _moved(one.text, types)))
    return moved.with_(returns=Statement(None, _moved(function.returns.text, types)))


def _input(line: Input, types: Collection[str]) -> Input:
    match line:
        case TensorInput(device=str(device)) if _is_of(device, types):
            return replace(line, device=None)
        case OpaqueInput() | DynamicMark():
            return parse_input(ast.parse(_moved(line.text, types)).body[0])
    return line


def _moved(text: str, types: Collection[str]) -> str:
    """Python code with the devices replaced; the same text if it names none."""
    if not any(name in text for name in types):
        return text
    mover = _ToCpu(types)
    tree = mover.visit(ast.parse(text))
    return ast.unparse(tree) if mover.seen else text


class _ToCpu(ast.NodeTransformer):
    """Replaces devices by the CPU, and keeps what was replaced in `seen`."""

    def __init__(self, types: Collection[str]) -> None:
        self.types = types
        self.seen: set[str] = set()

    @classmethod
    def seen_in(cls, text: str) -> set[str]:
        """The devices that Python code names."""
        if not any(name in text for name in _TYPES):
            return set()
        mover = cls(_TYPES)
        mover.visit(ast.parse(text))
        return mover.seen

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """``'cuda:0'`` becomes ``'cpu'``."""
        if isinstance(node.value, str) and _DEVICE.fullmatch(node.value) and _is_of(node.value, self.types):
            self.seen.add(node.value)
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``device(type='cuda', index=0)`` loses its index, and ``x.cuda(0)`` becomes ``x.cpu()``."""
        self.generic_visit(node)
        match node.func:
            case ast.Name(id="device") | ast.Attribute(value=ast.Name(id="torch"), attr="device"):
                if _names_cpu(node):
                    node.args, node.keywords = [ast.Constant("cpu")], []
            case ast.Attribute(attr=str(name)) if name in self.types and not _is_module(node.func.value):
                self.seen.add(name)
                node.func.attr, node.args, node.keywords = "cpu", [], []
        return node


def _names_cpu(call: ast.Call) -> bool:
    return any(isinstance(part, ast.Constant) and part.value == "cpu" for part in ast.walk(call))


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "torch"


#: Torch's operators over several ranks, as `torch.ops` names their namespaces.
_OF_RANKS = re.compile(r"torch\.ops\.(?:_?c10d|_dtensor|symm_mem|fsdp)\w*\.")
_RANKS = 2


def group_of(
    codes: Sequence[str], size: int, rank: int, groups: Mapping[str, Sequence[int]]
) -> tuple[ProcessGroup | None, dict[str, str]]:
    """The process group that the collectives in `codes` need, and the names that replace the names of its groups.

    `groups` has the ranks of each recorded group, by its name. A single group that is used becomes the world of the
    program. The result is None if the code names no operator over ranks.
    """
    if not any(_OF_RANKS.search(code) for code in codes):
        return None, {}
    used = {name: tuple(groups[name]) for code in codes for name in _group_names(code, groups)}
    distinct = list(dict.fromkeys(used.values()))
    if len(distinct) == 1 and rank in distinct[0]:
        (ranks,) = distinct
        return ProcessGroup(len(ranks), rank=ranks.index(rank)), dict.fromkeys(used, "0")
    whole = tuple(range(size))
    subgroups = tuple(ranks for ranks in distinct if ranks != whole)
    numbers = {whole: "0", **{ranks: str(number) for number, ranks in enumerate(subgroups, 1)}}
    return ProcessGroup(size, rank=rank, subgroups=subgroups), {name: numbers[ranks] for name, ranks in used.items()}


def unknown_groups(code: str) -> dict[str, range]:
    """Ranks for the groups that the collectives in `code` name, where nothing else is recorded of them.

    The name is the last argument, and the number of ranks the one before it, if that is a number. Where no collective
    says the number, any number will do.
    """
    sizes: dict[str, int] = {}
    for call in filter(_is_collective, ast.walk(ast.parse(code.strip() + "\n"))):
        match call:
            case ast.Call(args=[*_, before, ast.Constant(value=str(name))]):
                size = before.value if isinstance(before, ast.Constant) and type(before.value) is int else 0
                sizes[name] = max(size, sizes.get(name, 0))
    return {name: range(size or _RANKS) for name, size in sizes.items()}


def _group_names(code: str, groups: Mapping[str, Sequence[int]]) -> list[str]:
    """The names of `groups` that are arguments of operators over ranks in `code`."""
    calls = [node for node in ast.walk(ast.parse(code.strip() + "\n")) if _is_collective(node)]
    return [
        argument.value
        for call in calls
        for argument in ast.walk(call)
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value in groups
    ]


def with_names(code: str, names: Mapping[str, str]) -> str:
    """`code` with the groups of its collectives renamed."""
    if all(old == new for old, new in names.items()):
        return code
    tree = ast.parse(code.strip() + "\n")
    for call in filter(_is_collective, ast.walk(tree)):
        for argument in ast.walk(call):
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                argument.value = names.get(argument.value, argument.value)
    return ast.unparse(tree)


def with_ranks(program: Program, size: int) -> Program | None:
    """`program` for a world of `size` ranks; None if its groups do not allow that.

    Numbers of ranks among the arguments of collectives are replaced. The result may be invalid: the caller must try it.
    """
    group = program.recipe.group
    if group is None or group.subgroups:
        return None
    rank, others = min(group.rank, size - 1), tuple(rank for rank in group.others if rank < size)
    if program.peer is not None and (not others or len(others) == size or rank != group.rank):
        return None
    recipe = program.recipe.with_(group=replace(group, size=size, rank=rank, others=others))

    def change(function: Function) -> Function:
        return function.mapped(lambda statement: _resized(statement, group.size, size))

    return program.with_(recipe=recipe, peer=program.peer and program.peer.mapped(change)).mapped(change)


def with_peer(program: Program, other: Program) -> Program:
    """`program`, with the graph and the calls of `other` as its peer."""
    names = {body.name: f"peer_{body.name}" for body in other.bodies}
    bodies = tuple(body.substituted(names).with_(name=names[body.name]) for body in other.bodies)
    graph = other.graph.substituted(names).with_(name="peer_graph")
    return program.with_(peer=Peer(graph, bodies, other.inputs, other.calls))


def swapped(program: Program) -> Program:
    """The same ranks with the same code, but with the peer of `program` as its graph, and its graph as the peer."""
    group, peer = program.recipe.group, program.peer
    assert group is not None and peer is not None
    others = tuple(rank for rank in range(group.size) if rank not in group.others)
    return program.with_(
        graph=peer.graph.with_(name="graph"),
        bodies=peer.bodies,
        inputs=peer.inputs,
        calls=peer.calls,
        recipe=program.recipe.with_(group=replace(group, others=others)),
        peer=Peer(program.graph.with_(name="peer_graph"), program.bodies, program.inputs, program.calls),
    )


def _resized(statement: Statement, old: int, new: int) -> Statement:
    call = ast.parse(statement.text).body[0]
    if not (isinstance(call, ast.Expr) and isinstance(call.value, ast.Call) and _is_collective(call.value)):
        return statement
    for argument in call.value.args:
        if isinstance(argument, ast.Constant) and type(argument.value) is int and argument.value == old:
            argument.value = new
    return Statement(statement.target, ast.unparse(call))


def _is_collective(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and bool(_OF_RANKS.match(ast.unparse(node.func)))
