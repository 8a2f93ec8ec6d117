"""Which accelerators a program names, and the same program on the CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import replace

from repro_kit.program.inputs import DynamicMark, Input, OpaqueInput, TensorInput, parse_input
from repro_kit.program.program import Function, Program
from repro_kit.program.statement import Statement

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
