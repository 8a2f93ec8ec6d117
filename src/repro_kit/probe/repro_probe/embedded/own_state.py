"""Let the program's own `__torch_dispatch__`, operators and subclasses of tensors keep what compiled code keeps.

This file is also the setup of a cell.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

from repro_probe.embedded.originals import is_torchs

#: The state that the program's own `__torch_dispatch__` and operators write, and what its tensor subclasses lose where
#: they are rebuilt from their parts.
KINDS = ("handlers", "subclasses")

_MOST = 10_000  # objects that the state of a handler may be in


def forget(*kinds: str) -> None:
    """Let nothing of these `kinds` be kept by what the program defines later."""
    if "handlers" in kinds:
        # Compiled code runs other operators, and a handler is called for fake tensors too: what it keeps differs.
        _wrap_handlers(_forgetful)
        _let_operators_forget()
    if "subclasses" in kinds:
        _wrap_handlers(_rebuilding)


def _wrap_handlers(wrap: Callable[[Any, Any], Any]) -> None:
    """Let `wrap`, called with the class and its handler, make the `__torch_dispatch__` of each class of the program."""
    python: Any = builtins
    build = python.__build_class__

    @functools.wraps(build)
    def call(*arguments: Any, **named: Any) -> Any:
        made = build(*arguments, **named)
        handler = getattr(made, "__dict__", {}).get("__torch_dispatch__")
        if handler is not None and not is_torchs(getattr(handler, "__func__", handler)):
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
        keeps = "!" in operator._schema or is_torchs(kernel)
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
        return [] if is_torchs(value) else _kept_variables(value, restores)
    if isinstance(value, type):
        if is_torchs(value):
            return []
        write, remove = functools.partial(setattr, value), functools.partial(delattr, value)
        return [*_kept_names(lambda: vars(value), write, remove, restores), *value.__bases__]
    if isinstance(value, types.SimpleNamespace) or not is_torchs(type(value)):
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
