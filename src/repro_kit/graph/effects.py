"""The effects of statements beyond their value, and the relations between the statements of a base program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from repro_kit.graph.inputs import Input, names_of
from repro_kit.graph.program import Program, Statement

#: Results of these operators may share memory with an operand (torch/_C/_VariableFunctions.pyi, native_functions.yaml).
_VIEW_NAMES = """
    view view_as reshape reshape_as transpose permute t T mT H mH swapaxes swapdims movedim moveaxis expand expand_as
    unsqueeze squeeze chunk split split_with_sizes tensor_split hsplit vsplit dsplit unbind narrow select slice
    as_strided detach flatten unflatten ravel real imag alias diagonal contiguous to type_as float half double
    bfloat16 int long bool cpu cuda conj resolve_conj resolve_neg unfold broadcast_to atleast_1d atleast_2d atleast_3d
    broadcast_tensors view_as_real view_as_complex data dropout positive lift_fresh requires_grad_ _unsafe_view
    _reshape_alias checkpoint getattr
"""
_VIEWS = frozenset(_VIEW_NAMES.split())
#: Functions of torch.nn.functional that take `inplace` by position; all others take it by keyword.
_INPLACE_NAMES = """
    relu relu6 elu selu celu leaky_relu silu mish hardtanh hardswish hardsigmoid threshold rrelu dropout dropout1d
    dropout2d dropout3d alpha_dropout feature_alpha_dropout
"""
_INPLACE_FUNCTIONS = frozenset(_INPLACE_NAMES.split())
_STATE = re.compile(
    r"^_?(set|enter|exit|push|pop|increment|decrement|assert|check|unset|clear)_|_(increment|decrement)_nesting$"
    r"|^_assert|^_check|manual_seed|log_api_usage|_hooks_(disable|enable)$|_grad_enabled$|^_?(inference_mode|record_)"
)
#: (start of a region, its end), as parts of names; the rest of both names must agree.
_REGIONS = (
    ("increment_nesting", "decrement_nesting"),
    ("enter_", "exit_"),
    ("push_", "pop_"),
    ("_disable", "_enable"),
    ("_begin", "_end"),
)
_FUNCTORCH = re.compile(r"(vmap|grad|jvp|func)_(increment|decrement)_nesting$|(enter|exit)_dual_level$")
_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.USub: "neg",
    ast.Invert: "bitwise_not",
}


@dataclass(frozen=True)
class Effects:
    """The effects of a statement: the values it mutates, whether it sets state, whether its result may be a view."""

    mutates: tuple[str, ...] = ()
    state: bool = False
    view: bool = False


#: Namespaces of the operators that torch itself defines, as in `embedded/own_operators.py` of the probe; any other one
#: of torch.ops is the user's, or a library's.
NAMESPACES = {
    *("aten", "prim", "prims", "inductor", "rngprims", "debugprims", "export", "symm_mem", "streams", "profiler"),
    *("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd", "fsdp", "_dtensor", "dtensor"),
    *("quantized", "_quantized", "quantized_decomposed", "mkldnn", "mkldnn_prepacked", "mkl", "onednn"),
    *("higher_order", "sym", "sparse", "cuda", "flex_lib"),
}
#: What registers an operator of others, or calls one.
CUSTOM_OPERATOR = re.compile(rf"torch\.library\b|\bcustom_op\b|torch\.ops\.(?!(?:{'|'.join(sorted(NAMESPACES))})\b)\w+")


def op_name(statement: Statement) -> str:
    """The operator's bare name: ``relu`` for ``torch.relu(x)``, ``x.relu()``, ``torch.ops.aten.relu.default(x)``."""
    node = statement.expression
    match node:
        case ast.Call():
            return _bare(statement.callee)
        case ast.BinOp(op=op) | ast.UnaryOp(op=op):
            return _OPERATORS.get(type(op), "")
        case ast.Compare(ops=[op]):
            return _OPERATORS.get(type(op), "")
        case ast.Subscript():
            return "getitem"
        case ast.Attribute(attr=attr):
            return attr
    if isinstance(statement.node, ast.AugAssign):
        return _OPERATORS.get(type(statement.node.op), "") + "_"
    return "setitem" if isinstance(statement.node, ast.Assign) else ""


#: What the helpers of graph/reading/raw_graph.py call.
_HELPED = {"flat_scan": "scan", "flat_flex": "flex_attention"}


def _bare(callee: str) -> str:
    if callee in _HELPED:
        return _HELPED[callee]
    if callee.startswith(("torch.vmap(", "torch.func.")):  # `torch.vmap(f)` of `torch.vmap(f)(x)`
        callee = callee.partition("(")[0]
    parts = callee.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) >= 4:
        return parts[3]
    return parts[-1]


def effects_of(statement: Statement) -> Effects:
    """The effects of one statement, seen alone."""
    node = statement.node
    match node:
        case ast.AugAssign(target=target) | ast.Assign(targets=[target]):
            return Effects(mutates=(_root(target),))
    call = statement.expression
    if not isinstance(call, ast.Call):
        return Effects(view=isinstance(call, ast.Subscript | ast.Attribute | ast.Name))
    if isinstance(call.func, ast.Subscript):  # kernel[grid](...): a launch of a Triton kernel writes to its arguments
        return Effects(tuple(dict.fromkeys(part for value in _values(call) for part in _names(value))))
    callee, name = statement.callee, op_name(statement)
    mutated = tuple(dict.fromkeys(filter(None, _mutated(call, callee, name))))
    state = bool(_STATE.search(name)) and not mutated
    view = name in _VIEWS or isinstance(call.func, ast.Name)
    return Effects(mutated, state or (statement.target is None and not mutated), view or bool(mutated))


def _values(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _mutated(call: ast.Call, callee: str, name: str) -> Iterable[str]:
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    if "out" in options:
        yield from _names(options["out"])
    inplace = options.get("inplace")
    if inplace is None and callee.startswith("torch.nn.functional.") and name in _INPLACE_FUNCTIONS:
        last = call.args[3:] if "dropout" in name else call.args[1:]  # the third argument of dropout is `training`
        inplace = last[-1] if last else None
    if isinstance(inplace, ast.Constant) and inplace.value is True:
        yield from _names(call.args[0] if call.args else options.get("input"))
    ends_inplace = name.endswith("_") and not name.endswith("__")
    if ends_inplace or name == "setitem" or _is_inplace_operator(callee):
        function = callee.startswith(("torch.", "operator.", "_operator."))
        receiver = call.func.value if isinstance(call.func, ast.Attribute) and not function else None
        yield from _names(receiver if receiver is not None else (call.args[0] if call.args else None))


def _is_inplace_operator(callee: str) -> bool:
    home, _, name = callee.rpartition(".")
    return (
        home.endswith("operator")
        and name[:1] == "i"
        and name not in ("is_", "is_not", "index", "inv", "invert", "indexOf")
    )


def _names(node: ast.AST | None) -> Iterable[str]:
    if node is not None:
        yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name) and part.id != "torch")


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def groups(statements: Sequence[Statement], states: Iterable[int]) -> list[tuple[int, ...]]:
    """Group the state-setting statements at indices `states`: an enter with its exit.

    An exit belongs to the enter whose handle it takes, else to the last open enter of its name. A setter
    (``_set_grad_enabled``) belongs to the next call of itself, which restores the old state.
    """
    groups_found: list[list[int]] = []
    handles: dict[str, list[int]] = {}
    open_: dict[str, list[list[int]]] = {}
    for at in states:
        statement = statements[at]
        group = next((handles[name] for name in statement.reads if name in handles), None)
        key, opens = _region(op_name(statement))
        waiting = open_.setdefault(key, [])
        if group is None and waiting and opens is not True and key:
            group = waiting[-1]
        if group is not None:
            group.append(at)
            if group in waiting:
                waiting.remove(group)
        else:
            group = [at]
            groups_found.append(group)
            if opens is not False and key:
                waiting.append(group)
        if statement.target is not None:
            handles[statement.target] = group
    return [tuple(group) for group in groups_found]


def _region(name: str) -> tuple[str, bool | None]:
    """(the name of the region, whether `name` opens it; None for a setter, which opens and closes)."""
    if "set_" in name or name.endswith("_grad_enabled"):
        return name, None
    for start, end in _REGIONS:
        if start in name:
            return name.replace(start, "*", 1), True
        if end in name:
            return name.replace(end, "*", 1), False
    return "", None


def is_transform(statement: Statement) -> bool:
    """Whether the statement opens or closes a functorch level. Values inside a level have no meaning outside."""
    return bool(_FUNCTORCH.search(op_name(statement)))


def families(statements: Sequence[Statement], effects: Sequence[Effects]) -> dict[str, str]:
    """For every name that may share memory with another: the representative of its group (union-find over views)."""
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for statement, effect in zip(statements, effects, strict=True):
        if statement.target is None or not (effect.view or statement.getitem):
            continue
        for name in effect.mutates or statement.reads:
            if name not in ("torch", "getattr", "operator"):
                parent[find(statement.target)] = find(name)
    return {name: find(name) for name in list(parent)}


class Base:
    """A program that does not change, and the relations between the statements of its graph (by index)."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.statements: Sequence[Statement] = program.graph.statements
        self.params = frozenset(program.graph.params)
        self.index = {
            statement.target: at for at, statement in enumerate(self.statements) if statement.target is not None
        }
        local = self.params | set(self.index)
        self.reads = [tuple(name for name in statement.reads if name in local) for statement in self.statements]
        self.outputs = tuple(name for name in program.graph.outputs if name in local)
        self.effects: Sequence[Effects] = [self._effects(at) for at in range(len(self.statements))]

    def _effects(self, at: int) -> Effects:
        statement = self.statements[at]
        effects = effects_of(statement)
        if effects.state or effects.mutates or statement.target is None:
            return effects
        callee = statement.text.partition("(")[0]
        custom = ("torch.ops." in callee or "._" in callee) and not callee.startswith(_PURE)
        # Nobody reads its value, so the program called it for an effect.
        unread = custom and statement.target not in self._read
        return Effects(state=True, view=effects.view) if unread else effects

    @cached_property
    def _read(self) -> frozenset[str]:
        return frozenset(name for reads in self.reads for name in reads) | set(self.outputs)

    @cached_property
    def families(self) -> dict[str, frozenset[str]]:
        """For every mutated value: the names that may share its memory."""
        root = families(self.statements, self.effects)
        members: dict[str, set[str]] = {}
        for name, representative in root.items():
            members.setdefault(representative, set()).add(name)
        mutated = {name for effects in self.effects for name in effects.mutates}
        return {name: frozenset(members.get(root.get(name, name), ())) | {name} for name in mutated}

    @cached_property
    def effective(self) -> frozenset[int]:
        """Statements that may matter although nobody reads their value."""
        return frozenset(at for at, effects in enumerate(self.effects) if effects.state or effects.mutates)

    @cached_property
    def states(self) -> list[tuple[int, ...]]:
        """Statements that set state, in groups that must stay together (an enter with its exit)."""
        return groups(self.statements, [at for at, effects in enumerate(self.effects) if effects.state])

    @cached_property
    def units(self) -> list[tuple[int, ...]]:
        """All other statements. A statement with several results and the getitems of its results are one unit."""
        owner: dict[str, int] = {}
        units: dict[int, list[int]] = {}
        in_state = {at for group in self.states for at in group}
        for at, statement in enumerate(self.statements):
            if at in in_state:
                continue
            part = statement.getitem
            first = owner[part[0]] if part is not None and part[0] in owner else at
            units.setdefault(first, []).append(at)
            if statement.target is not None:
                owner[statement.target] = first
        return [tuple(unit) for unit in units.values()]

    @cached_property
    def regions(self) -> list[tuple[int, int]]:
        """(first, last) statement of each outermost functorch level. A cut must not fall inside."""
        regions: list[tuple[int, int]] = []
        for group in self.states:
            if len(group) > 1 and is_transform(self.statements[group[0]]):
                first, last = group[0], group[-1]
                if not regions or first > regions[-1][1]:
                    regions.append((first, last))
        return regions

    @cached_property
    def line_of(self) -> dict[str, Input]:
        """For each name of an input: the line of `calls()` that binds it."""
        return {name: line for line in self.program.inputs for name in names_of(line)}

    @cached_property
    def taken(self) -> frozenset[str]:
        """Names that a new input must avoid."""
        return frozenset(self.line_of)


_PURE = ("torch.ops.aten.", "torch.ops.prims.", "torch.ops.higher_order.", "torch._C._nn.", "torch._C._linalg.")
