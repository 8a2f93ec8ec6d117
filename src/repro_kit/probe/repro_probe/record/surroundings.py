"""Record the state around a compiled call: the user's ``with`` blocks, and torch's switches for the process."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from repro_probe.change.override import is_users
from repro_probe.protocol.graph_data import Region, WorldData

#: Contexts whose effect is read from torch's own state.
_KNOWN = (
    *("no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "autocast", "device"),
    *("maybe_enable_compiled_autograd", "_enable"),
)
_PRECOMPILE = ("torch.compiler.precompile", "torch._precompile")
_DEEPEST = 4  # how often a local name is replaced by the expression that was assigned to it


def regions(frame: FrameType | None) -> list[Region]:
    """Return the items of the ``with`` blocks in the user's code around `frame`, outermost first.

    The `names` of an item map each name that its expression reads to the file that defines the name. Local names are
    replaced by their values or by the expressions assigned to them, where that is possible.
    """
    items: list[Region] = []
    while frame is not None:
        if is_users(frame) and not frame.f_globals.get("__name__", "").startswith("repro_probe"):
            items[:0] = _regions_of(frame)
        frame = frame.f_back
    written = " ".join(item["expression"] for item in items)
    return [mode for mode in _modes() if mode["expression"][:-1] not in written] + items


def _regions_of(frame: FrameType) -> list[Region]:
    path, line = frame.f_code.co_filename, frame.f_lineno
    scope: ast.AST | None = None
    items: list[ast.expr] = []
    for node in _enclosing(path, line):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope, items = node, []
        elif isinstance(node, ast.With) and node.body[0].lineno <= line:
            items += [item.context_expr for item in node.items] + list(_entered_later(node, line))
    regions: list[Region] = []
    for expression in items:
        if isinstance(expression, ast.Call) and ast.unparse(expression.func).rpartition(".")[2] in _KNOWN:
            continue
        written = _Inline(frame, scope, _DEEPEST).visit(ast.parse(ast.unparse(expression), mode="eval").body)
        if any(isinstance(entered, ast.Call) and _compiles(frame, entered.func) for entered in (expression, written)):
            continue
        homes = {name: _home(frame, name) for name in sorted(_reads(written) - set(dir(builtins)))}
        regions.append({"file": path, "expression": ast.unparse(written), "names": homes})
    return regions


def _compiles(frame: FrameType, called: ast.expr) -> bool:
    """Whether a ``with`` block enters what watches or makes the compilation: `repro_kit.watch`, or a precompilation."""
    first, *attributes = ast.unparse(called).split(".")
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    for name in ("", *attributes):
        value = getattr(value, name, None) if name else value
        home = str(getattr(value, "__module__", None) or getattr(value, "__name__", ""))
        if home.partition(".")[0] in ("repro_kit", "repro_probe") or home in _PRECOMPILE:
            return True
    return False


def _entered_later(node: ast.With, line: int) -> Iterator[ast.expr]:
    """Yield what ``enter_context`` enters before `line`, on stacks that the ``with`` block `node` opens."""
    stacks = {ast.unparse(item.optional_vars) for item in node.items if item.optional_vars is not None}
    for call in ast.walk(node):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
            continue
        enters = call.func.attr == "enter_context" and ast.unparse(call.func.value) in stacks
        if enters and call.lineno < line:
            yield call.args[0]


def _modes() -> Iterator[Region]:
    """Yield the user's modes that are on, if their classes can be called without arguments."""
    entered = [*_function_modes(), *torch.utils._python_dispatch._get_current_dispatch_mode_stack()]
    for cls in map(type, entered):
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if file is None or "." in cls.__qualname__ or cls.__module__.partition(".")[0] == "torch":
            continue
        try:
            inspect.signature(cls).bind()
        except (TypeError, ValueError):
            continue
        yield {"file": file, "expression": f"{cls.__qualname__}()", "names": {cls.__qualname__: file}}


def _reads(expression: ast.AST) -> set[str]:
    """Return the names that the expression reads and does not bind itself."""
    names = [part for part in ast.walk(expression) if isinstance(part, ast.Name)]
    bound = {part.arg for part in ast.walk(expression) if isinstance(part, ast.arg)}
    bound |= {name.id for name in names if not isinstance(name.ctx, ast.Load)}
    return {name.id for name in names} - bound


def _home(frame: FrameType, name: str) -> str:
    """Return the file that defines the value of `name` in `frame`, or the frame's file when that is unknown."""
    value = frame.f_locals.get(name, frame.f_globals.get(name))
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    named_alike = getattr(value, "__qualname__", None) == name
    return (named_alike and getattr(module, "__file__", None)) or frame.f_code.co_filename


def _enclosing(path: str, line: int) -> list[ast.stmt]:
    """Return the statements of the file that span `line`, outermost first."""
    nodes = [
        node
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return sorted(nodes, key=lambda node: (node.lineno, -(node.end_lineno or 0)))


@functools.lru_cache(maxsize=64)
def _tree(path: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):  # a notebook cell with magic commands, or a file that is not Python
        return ast.Module([], [])


class _Inline(ast.NodeTransformer):
    """Replaces local names by literals where their values have one, else by the expressions assigned to them."""

    def __init__(self, frame: FrameType, scope: ast.AST | None, depth: int) -> None:
        self.frame, self.scope, self.depth = frame, scope, depth

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self.frame.f_locals is self.frame.f_globals or node.id not in self.frame.f_locals:
            return node
        value = self.frame.f_locals[node.id]
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return ast.Constant(value)
        if isinstance(value, (torch.dtype, torch.device)):
            text = str(value) if isinstance(value, torch.dtype) else f"torch.device({str(value)!r})"
            return ast.parse(text, mode="eval").body
        made = _assigned(self.scope, node.id)
        if made is None or not self.depth:
            return node
        return _Inline(self.frame, self.scope, self.depth - 1).visit(ast.parse(ast.unparse(made), mode="eval").body)


def _assigned(scope: ast.AST | None, name: str) -> ast.expr | None:
    """Return the only expression that is assigned to `name` in the function; None when there are several or none."""
    values = [
        node.value
        for node in (ast.walk(scope) if scope is not None else ())
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    return values[0] if len(values) == 1 else None


def default_device() -> str | None:
    """Return the default device that the user set, or None."""
    holder = sys.modules.get("torch.utils._device")
    devices = [mode.device for mode in _function_modes() if type(mode).__name__ == "DeviceContext"]
    device = devices[-1] if devices else getattr(holder, "CURRENT_DEVICE", None)
    return None if device is None else str(device)


def _function_modes() -> list[Any]:
    """Return the modes that are on, the outermost first.

    While Dynamo compiles, they are not on torch's own stack, but on one of Dynamo; in an older torch they stay.
    """
    tracer = sys.modules.get("torch._dynamo.variables.torch_function")
    aside = getattr(tracer, "torch_function_mode_stack_state_mgr", None)
    return [*getattr(aside, "stack", ()), *torch.overrides._get_current_function_mode_stack()]


def world() -> WorldData | None:
    """Return the process groups of this process, or None when it is in none."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    names = dist.distributed_c10d._world.pg_names
    groups = {str(name): list(map(int, dist.get_process_group_ranks(group))) for group, name in names.items()}
    return {"size": dist.get_world_size(), "rank": dist.get_rank(), "groups": groups}


def compiles_autograd() -> bool:
    """Whether compiled autograd is on."""
    module = sys.modules.get("torch._dynamo.compiled_autograd")
    return any(getattr(module, name, False) for name in ("compiled_autograd_enabled", "in_compiled_autograd_region"))


def switches() -> list[str]:
    """Return statements that set torch's switches as in this process, for switches that are not at their default."""
    statements = []
    for read, default, statement in _SWITCHES:
        try:
            value = eval(read, {"torch": torch, "sys": sys, "newer": _newer})
        except (AttributeError, RuntimeError):  # this torch lacks the switch, or has it set through a newer interface
            continue
        if value != default:
            statements.append(statement.format(value))
    return statements


def _newer(legacy: str, newer: str) -> object:
    """Return what `newer` reads; None where `legacy` still reads the setting, which torch has under both names."""
    try:
        eval(legacy, {"torch": torch})
    except RuntimeError:  # both interfaces were used
        return eval(newer, {"torch": torch})
    return None


_OF_PRODUCTS, _OF_CONVOLUTIONS = "torch.get_float32_matmul_precision()", "torch.backends.cudnn.allow_tf32"

#: While a model in this class runs, Dynamo splits graphs by the model's buckets of gradients (`CatchErrorsWrapper` in
#: torch/_dynamo/convert_frame.py). It asks for the size of the buckets alone: no process group and no model is needed.
_DDP = "torch.nn.parallel.DistributedDataParallel"

#: For each switch: the expression that reads it, its default, and the statement that sets it.
_SWITCHES = (
    (
        "torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()",
        (False, False),
        "torch.use_deterministic_algorithms({0[0]}, warn_only={0[1]})",
    ),
    (
        "torch.utils.deterministic.fill_uninitialized_memory",
        True,
        "torch.utils.deterministic.fill_uninitialized_memory = {}",
    ),
    (_OF_PRODUCTS, "highest", "torch.set_float32_matmul_precision({!r})"),
    ("sys.float_info.min / 2 == 0.0", False, "torch.set_flush_denormal({})"),
    ("torch.is_anomaly_enabled()", False, "torch.autograd.set_detect_anomaly({})"),
    ("torch.backends.cuda.flash_sdp_enabled()", True, "torch.backends.cuda.enable_flash_sdp({})"),
    ("torch.backends.cuda.mem_efficient_sdp_enabled()", True, "torch.backends.cuda.enable_mem_efficient_sdp({})"),
    ("torch.backends.cuda.math_sdp_enabled()", True, "torch.backends.cuda.enable_math_sdp({})"),
    ("torch.backends.cuda.cudnn_sdp_enabled()", True, "torch.backends.cuda.enable_cudnn_sdp({})"),
    *(
        (f"torch.backends.cuda.matmul.{name}", True, f"torch.backends.cuda.matmul.{name} = {{}}")
        for name in ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    ),
    (
        "torch.cuda.is_initialized() and torch.cuda.get_per_process_memory_fraction() or 1.0",
        1.0,
        "torch.cuda.set_per_process_memory_fraction({})",
    ),
    *(
        (f"newer({legacy!r}, {newer!r})", None, newer + " = {!r}")
        for legacy, newer in (
            (_OF_PRODUCTS, "torch.backends.cuda.matmul.fp32_precision"),
            (_OF_PRODUCTS, "torch.backends.mkldnn.matmul.fp32_precision"),
            (_OF_CONVOLUTIONS, "torch.backends.cudnn.conv.fp32_precision"),
            (_OF_CONVOLUTIONS, "torch.backends.cudnn.rnn.fp32_precision"),
        )
    ),
    ("torch.backends.mkldnn.enabled", True, "torch.backends.mkldnn.enabled = {}"),
    ("torch.backends.cudnn.enabled", True, "torch.backends.cudnn.enabled = {}"),
    ("torch.backends.cudnn.benchmark", False, "torch.backends.cudnn.benchmark = {}"),
    ("torch.backends.cudnn.deterministic", False, "torch.backends.cudnn.deterministic = {}"),
    (_OF_CONVOLUTIONS, True, "torch.backends.cudnn.allow_tf32 = {}"),
    (
        f"getattr({_DDP}._get_active_ddp_module(), 'bucket_bytes_cap', None)",
        None,
        f'{_DDP}._active_ddp_module = type("SplitGraphsAsDDP", (), {{{{"bucket_bytes_cap": {{}}}}}})',
    ),
)
