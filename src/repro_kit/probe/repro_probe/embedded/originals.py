"""Put back what a program changes in torch: before each compile, and where it hands something to torch.

The setup of a cell is this text.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import itertools
import os
import re
import sys
import tempfile
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

#: What may be put back: entries of torch's tables, kernels of its operators, patterns that its passes look for,
#: attributes of its modules and classes (those that programs call, and those of the compiler), what Dynamo is told not
#: to trace, not to guard, or to leave out, passes in settings, the state that the program's own `__torch_dispatch__`
#: and operators write, and what its tensor subclasses lose where they are rebuilt from their parts.
KINDS = (
    "lowerings",
    "decompositions",
    "kernels",
    "patterns",
    "calls",
    "functions",
    "marks",
    "passes",
    "handlers",
    "subclasses",
)

_OF_TORCH = ("aten", "prims", "prim", "inductor")
_MARKS = ("assume_constant_result", "allow_in_graph", "nonstrict_trace")
_LEFT_OUT = ("ignore_logging_functions", "ignore_logger_methods", "reorderable_logging_functions")
_MODULES = ("torch._inductor.compile_fx", "torch._dynamo", "torch._refs", "torch.compiler")
#: Modules of which programs call no function by themselves. Others run in eager too, and Dynamo traces them.
_OF_COMPILER = re.compile(r"torch\.(?:fx\b|export\b|compiler\b|(?:.*\.)?_)")
_MOST = 10_000  # objects that the state of a handler may be in
_TABLES = (
    ("lowerings", "torch._inductor.lowering", "lowerings"),
    ("decompositions", "torch._inductor.decomposition", "decompositions"),
    ("decompositions", "torch._decomp", "decomposition_table"),
    *(("decompositions", "torch._decomp", f"global_decomposition_table.{of}") for of in ("pre_autograd", "meta")),
)


def keep(*kinds: str) -> None:
    """Keep these `kinds` of things in torch as they are now, whatever the program changes later."""
    import torch

    for name in _MODULES:
        importlib.import_module(name)
    _use_an_empty_cache()
    restores = [_kept_table(table) for kind, table in _tables() if kind in kinds]
    if "kernels" in kinds:
        restores.append(_without_kernels)
        _refuse(torch.library.Library, "impl", lambda library, *_: library.ns in _OF_TORCH)
    if "patterns" in kinds:
        matcher = importlib.import_module("torch._inductor.pattern_matcher")
        _refuse(matcher.PatternEntry, "register", lambda *_: True)
    restores += [_kept_attributes(kind) for kind in ("calls", "functions") if kind in kinds]
    if "marks" in kinds:
        _ignore_marks()
        restores.append(_without_functions_to_leave_out)
    if "passes" in kinds:
        restores.append(_without_passes())
    if "handlers" in kinds:
        # Compiled code runs other operators, and a handler is called for fake tensors too: what it keeps differs.
        _wrap_handlers(_forgetful)
        _let_operators_forget()
    if "subclasses" in kinds:
        _wrap_handlers(_rebuilding)

    from torch._dynamo import callback

    handler: Any = callback.callback_handler
    call_back = handler.run_start_callbacks

    @functools.wraps(call_back)
    def call_back_and_restore(*arguments: Any) -> None:
        call_back(*arguments)  # a callback of the program's may change something, too
        for put_back in restores:
            put_back()

    handler.run_start_callbacks = call_back_and_restore


def _use_an_empty_cache() -> None:
    """Let nothing be found that was compiled with the program's changes."""
    name = "TORCHINDUCTOR_CACHE_DIR"
    within = os.environ.get(name)
    os.environ[name] = tempfile.mkdtemp(prefix="kept-", dir=within if within and os.path.isdir(within) else None)


def _is_torchs(value: Any) -> bool:
    """Whether `value` is no function or class, or one that torch, Python or the probe defines."""
    while isinstance(value, functools.partial):
        value = value.func
    value = inspect.unwrap(getattr(value, "__func__", value))
    code = getattr(value, "__code__", None)
    if code is not None:
        return _is_file_of_torch(code.co_filename)
    if not isinstance(value, type):
        return not callable(value) or _is_torchs(type(value))
    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    return value.__module__ != "__main__" and _is_file_of_torch(file or "<built in>")


def _is_file_of_torch(file: str) -> bool:
    import torch

    roots = (os.path.dirname(torch.__file__), os.path.dirname(os.__file__))
    own = "site-packages" not in file.replace(roots[0], "")
    of_probe = f"{os.sep}repro_probe{os.sep}" in file or "repro_setup" in file
    return of_probe or file.startswith(("<built in>", "<frozen", roots[0])) or (own and file.startswith(roots[1]))


def _tables() -> Iterator[tuple[str, dict[Any, Any]]]:
    for kind, module, path in _TABLES:
        first, _, key = path.partition(".")
        table = getattr(importlib.import_module(module), first, {})
        yield kind, table.get(key, {}) if key else table


def _kept_table(table: dict[Any, Any]) -> Callable[[], None]:
    before = dict(table)

    def put_back() -> None:
        for key, value in list(table.items()):
            if value is not before.get(key) and not _is_torchs(value):
                if key in before:
                    table[key] = before[key]
                else:
                    del table[key]

    return put_back


def _without_kernels() -> None:
    import torch

    _ = torch.ops.aten, torch.ops.prims
    for namespace in [each for each in vars(torch.ops).values() if isinstance(each, torch._ops._OpNamespace)]:
        for name in dir(namespace):
            packet = getattr(namespace, name, None)
            for overload in getattr(packet, "overloads", list)():
                operator = getattr(packet, overload)
                users = [key for key, kernel in operator.py_kernels.items() if not _is_torchs(kernel)]
                for key in users:
                    del operator.py_kernels[key]
                    operator._dispatch_cache.clear()


def _kept_attributes(kind: str) -> Callable[[], None]:
    owners: dict[int, tuple[Any, dict[str, Any]]] = {}
    for name, module in list(sys.modules.items()):
        if module is None or not (name == "torch" or name.startswith("torch.")):
            continue
        if (kind == "functions") is not bool(_OF_COMPILER.match(name)):
            continue
        values = dict(vars(module))
        owners[id(module)] = module, values
        for value in values.values():
            # `isinstance` would ask the value for its class, and some of torch's warn of that.
            if issubclass(type(value), type) and value.__module__ == name:
                owners[id(value)] = value, dict(vars(value))

    def put_back() -> None:
        for owner, before in owners.values():
            for name, value in list(vars(owner).items()):
                if name in before and value is not before[name] and not _is_torchs(value):
                    setattr(owner, name, before[name])

    return put_back


def _without_passes() -> Callable[[], None]:
    """Ignore the program's functions in the settings of Inductor, and in the options of a compile."""
    import torch

    config: Any = importlib.import_module("torch._inductor.config")
    copied: Any = getattr(config, "get_config_copy", None) or getattr(
        config, "shallow_copy_dict", dict
    )  # of older torch
    wrapper: Any = torch._TorchCompileInductorWrapper
    apply_options = wrapper.apply_options

    @functools.wraps(apply_options)
    def apply_others(self: Any, options: Any) -> Any:
        return apply_options(self, {name: value for name, value in (options or {}).items() if _is_torchs(value)})

    wrapper.apply_options = apply_others

    def put_back() -> None:
        for name, value in copied().items():
            if not _is_torchs(value):
                setattr(config, name, None)

    return put_back


def _refuse(owner: Any, name: str, concerns: Callable[..., bool]) -> None:
    """Do nothing where the program calls the method `name` of `owner` with arguments that it `concerns`."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        if concerns(*arguments) and _is_called_by_program(original.__code__.co_filename):
            return None
        return original(*arguments, **named)

    setattr(owner, name, call)


def _is_called_by_program(within: str) -> bool:
    """Whether the innermost frame that is neither here nor in the file `within` is of no file of torch."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename in (within, __file__):
        frame = frame.f_back
    return not _is_file_of_torch(frame.f_code.co_filename)


def _ignore_marks() -> None:
    import torch

    for module in (torch.compiler, torch._dynamo, torch._dynamo.decorators):
        for name in (*_MARKS, "substitute_in_graph"):
            original = getattr(module, name, None)
            if original is not None:
                setattr(module, name, _ignored(original, decorates=name != "substitute_in_graph"))
    optimize = torch._dynamo.optimize

    @functools.wraps(optimize)
    def with_all_guards(*args: Any, guard_filter_fn: Any = None, **options: Any) -> Any:
        return optimize(*args, **options)

    torch._dynamo.optimize = with_all_guards
    stance: Any = getattr(torch._dynamo, "set_stance", optimize)

    @functools.wraps(stance)
    def evaluating_guards(*args: Any, skip_guard_eval_unsafe: bool = False, **options: Any) -> Any:
        return stance(*args, **options)

    torch._dynamo.set_stance = evaluating_guards


def _without_functions_to_leave_out() -> None:
    from torch._dynamo import config

    for name in _LEFT_OUT:
        if getattr(config, name, None):
            setattr(config, name, set())


def _ignored(mark: Any, *, decorates: bool) -> Any:
    @functools.wraps(mark)
    def call(*arguments: Any, **named: Any) -> Any:
        if not _is_called_by_program(mark.__code__.co_filename):
            return mark(*arguments, **named)
        return arguments[0] if decorates else lambda function: function

    return call


def _wrap_handlers(wrap: Callable[[Any, Any], Any]) -> None:
    """Let `wrap`, called with the class and its handler, make the `__torch_dispatch__` of each class of the program."""
    python: Any = builtins
    build = python.__build_class__

    @functools.wraps(build)
    def call(*arguments: Any, **named: Any) -> Any:
        made = build(*arguments, **named)
        handler = getattr(made, "__dict__", {}).get("__torch_dispatch__")
        if handler is not None and not _is_torchs(getattr(handler, "__func__", handler)):
            made.__torch_dispatch__ = wrap(made, handler)
        return made

    python.__build_class__ = call


def _let_operators_forget() -> None:
    """Let each call of an operator of the program's undo what it writes, unless it says that it writes.

    Compiled code may leave out a call whose results nothing reads, or make one call of two.
    """
    from torch._library.custom_ops import CustomOpDef

    register: Any = CustomOpDef.register_kernel

    @functools.wraps(register)
    def call(operator: Any, device_types: Any, kernel: Any = None, /) -> Any:
        if kernel is None:
            return functools.partial(call, operator, device_types)
        keeps = "!" in operator._schema or _is_torchs(kernel)
        return register(operator, device_types, kernel if keeps else _forgetful(kernel, kernel))

    owner: Any = CustomOpDef
    owner.register_kernel = call


def _forgetful(owner: Any, handler: Any) -> Any:
    import torch

    function = getattr(handler, "__func__", handler)
    keep_state, undo = torch._dynamo.disable(_kept_state), torch._dynamo.disable(_undo)

    @functools.wraps(function)
    def forgetful(*arguments: Any, **named: Any) -> Any:
        kept = keep_state([owner, function, *arguments[:1]])  # the first argument of a mode is the mode
        try:
            return function(*arguments, **named)
        finally:
            undo(kept)

    call: Any = forgetful
    skip = getattr(sys.modules.get("torch._C._dynamo.eval_frame"), "skip_code", None)
    if skip is not None:
        skip(call.__code__)
    return call if handler is function else type(handler)(call)


def _rebuilding(owner: Any, handler: Any) -> Any:
    """Return a `handler` that gets and returns tensors of its class `owner` rebuilt from their parts, as compiled code.

    What a tensor loses so, it then loses in eager too.
    """
    from torch.utils._pytree import tree_map_only

    function = getattr(handler, "__func__", handler)
    if not hasattr(owner, "__tensor_flatten__"):
        return handler

    @functools.wraps(function)
    def rebuilding(cls: Any, operator: Any, types: Any, *given: Any, **named: Any) -> Any:
        originals: dict[int, Any] = {}

        def rebuilt(tensor: Any) -> Any:
            names, context = tensor.__tensor_flatten__()
            parts = {name: getattr(tensor, name) for name in names}
            again = type(tensor).__tensor_unflatten__(parts, context, tensor.size(), tensor.stride())
            originals[id(again)] = tensor
            return again

        again = tree_map_only(owner, rebuilt, given)
        result = function(cls, operator, types, *again, **named)
        return tree_map_only(owner, lambda out: originals[id(out)] if id(out) in originals else rebuilt(out), result)

    return rebuilding if handler is function else type(handler)(rebuilding)


def _undo(kept: list[Callable[[], None]]) -> None:
    for put_back in kept:
        put_back()


def _kept_state(roots: Iterable[Any]) -> list[Callable[[], None]]:
    """Return what puts back the variables, attributes, containers and small tensors that `roots` reach."""
    import torch

    restores: list[Callable[[], None]] = []
    given = {id(root): root for root in roots if isinstance(root, torch.Tensor)}  # arguments are not state
    seen: dict[int, Any] = dict(given)
    waiting = deque(root for root in roots if id(root) not in given)
    while waiting and len(seen) < _MOST:
        value = waiting.popleft()
        if isinstance(value, types.FunctionType):
            value = inspect.unwrap(value)
        if id(value) not in seen and not isinstance(value, types.ModuleType):
            seen[id(value)] = value
            waiting.extend(_kept(value, restores))
    return restores


def _kept(value: Any, restores: list[Callable[[], None]]) -> Iterable[Any]:
    """Add what puts back what `value` holds. Returns what can be reached from there."""
    import torch

    if isinstance(value, torch.Tensor):
        if type(value) in (torch.Tensor, torch.nn.Parameter) and value.numel() <= _MOST:
            _keep_values(value, restores)
        return []
    if isinstance(value, (dict, list, deque, set)):
        return _kept_items(value, restores)
    if isinstance(value, (tuple, frozenset)):
        return value
    if isinstance(value, (types.MethodType, staticmethod, classmethod, property, functools.partial)):
        return [getattr(value, name, None) for name in ("__func__", "__self__", "fget", "func", "args")]
    if isinstance(value, types.FunctionType):
        return [] if _is_torchs(value) else _kept_variables(value, restores)
    if isinstance(value, type):
        if _is_torchs(value):
            return []
        write, remove = functools.partial(setattr, value), functools.partial(delattr, value)
        return [*_kept_names(lambda: vars(value), write, remove, restores), *value.__bases__]
    if isinstance(value, types.SimpleNamespace) or not _is_torchs(type(value)):
        return [*_kept_items(getattr(value, "__dict__", {}), restores), type(value)]
    return []


def _keep_values(tensor: Any, restores: list[Callable[[], None]]) -> None:
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    version = tensor._version
    with _disable_current_modes():
        before = tensor.detach().clone()

    def put_back() -> None:
        if tensor._version != version:
            with _disable_current_modes(), torch.no_grad():
                tensor.copy_(before)

    restores.append(put_back)


def _kept_items(container: Any, restores: list[Callable[[], None]]) -> list[Any]:
    kind: Any = next(kind for kind in (OrderedDict, dict, list, deque, set) if isinstance(container, kind))
    is_mapping = issubclass(kind, dict)

    def items() -> list[Any]:
        return [*kind.keys(container), *kind.values(container)] if is_mapping else [*container]

    before = items()
    again = [_as_it_was(item) for item in before]

    def put_back() -> None:
        then, now = [value() for value in again], items()
        if len(now) == len(then) and all(one is other for one, other in zip(now, then)):
            return
        kind.clear(container)
        half = len(then) // 2
        if kind in (list, deque):
            kind.extend(container, then)
        else:
            kind.update(container, zip(then[:half], then[half:]) if is_mapping else then)

    restores.append(put_back)
    return before


def _kept_variables(function: types.FunctionType, restores: list[Callable[[], None]]) -> list[Any]:
    """Keep the variables that `function` names: those of its module, and of the functions around it."""
    names: set[str] = set()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        names |= set(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    outer = function.__globals__
    reached = _kept_names(lambda: outer, outer.__setitem__, outer.__delitem__, restores, names)
    for cell in function.__closure__ or ():
        write, remove = functools.partial(setattr, cell), functools.partial(delattr, cell)
        reached += _kept_names(functools.partial(_variable, cell), write, remove, restores)
    return [*reached, function.__dict__, function.__defaults__ or (), function.__kwdefaults__ or {}]


def _variable(cell: Any) -> dict[str, Any]:
    try:
        return {"cell_contents": cell.cell_contents}
    except ValueError:  # it is not set yet
        return {}


def _kept_names(
    read: Callable[[], Any],
    write: Callable[[str, Any], None],
    remove: Callable[[str], None],
    restores: list[Callable[[], None]],
    names: Iterable[str] | None = None,
) -> list[Any]:
    """Keep what the `names` in a namespace are bound to; None: all but Python's own."""

    def bound() -> dict[str, Any]:
        now = read()
        named = [name for name in now if not name.startswith("__")] if names is None else names
        return {name: now[name] for name in named if name in now}

    before = bound()
    again = {name: _as_it_was(value) for name, value in before.items()}

    def put_back() -> None:
        now = bound()
        for name in now.keys() - before.keys():
            remove(name)
        for name, value in again.items():
            then = value()
            if name not in now or now[name] is not then:
                write(name, then)

    restores.append(put_back)
    return list(before.values())


def _as_it_was(value: Any) -> Callable[[], Any]:
    """Return a function that returns `value`, or a new counter of itertools in the place of one that has gone on."""
    text = repr(value) if type(value) is itertools.count else ""
    return lambda: value if not text or repr(value) == text else eval(text, {"count": itertools.count})
