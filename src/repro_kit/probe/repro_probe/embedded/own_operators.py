"""Hold operators to what they say, in eager; or keep the program's own ones out of compiled graphs.

This file is also the setup of a cell, so it needs the standard library and torch alone.
"""

from __future__ import annotations

import dis
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

#: Namespaces of operators that parts of torch define when they are imported.
_OF_TORCH = {
    *("aten", "prim", "prims", "inductor", "rngprims", "debugprims", "export", "symm_mem", "streams"),
    *("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd", "fsdp", "_dtensor", "dtensor"),
    *("quantized", "_quantized", "quantized_decomposed", "mkldnn", "mkl", "onednn", "higher_order", "profiler"),
}
_CONTAINERS = (list, tuple, dict, set)
_PLAIN = (bool, int, float, str, type(None), *_CONTAINERS)
_MOST = 1000  # elements of a container that a formula reads


class OperatorMismatch(RuntimeError):
    """An operator does something else than it says."""


def check() -> None:
    """Raise OperatorMismatch where an operator of the program's does something else in eager than it says."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

    known = _known()

    def wrap(owner: Any) -> None:
        original = owner.__call__

        @functools.wraps(original)
        def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
            if _namespace(self) in known or _get_current_dispatch_mode() is not None:
                return original(self, *arguments, **named)
            with Checked():
                return original(self, *arguments, **named)

        owner.__call__ = call

    plain = torch._ops.OpOverload.__call__

    class Checked(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if _namespace(func) in known or not all(map(_is_plain, _tensors((args, kwargs)))):
                return plain(func, *args, **kwargs or {})
            return _checked(functools.partial(plain, func), func, args, kwargs or {})

    wrap(torch._ops.OpOverload)
    wrap(torch._ops.OpOverloadPacket)
    owners: list[Any] = [torch.library, getattr(getattr(torch._library, "custom_ops", None), "CustomOpDef", None)]
    for owner in owners:
        if hasattr(owner, "register_autograd"):
            owner.register_autograd = _with_watched_formulas(owner.register_autograd)


def check_forms() -> None:
    """Raise OperatorMismatch where an operator of any origin returns another form with fake tensors than without."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Checked(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if not all(map(_is_plain, _tensors((args, kwargs)))):
                return func(*args, **kwargs)
            try:
                promised, _ = _promised(func, func, args, kwargs)
            except OperatorMismatch:
                promised = None  # it raises: that is no other form
            results = func(*args, **kwargs)
            if promised is not None:
                _compare(func, promised, results)
            return results

    Checked().__enter__()


def keep_out() -> None:
    """Let Dynamo break the graph at each operator that the program defines."""
    import torch
    from torch._dynamo.callback import callback_handler

    known = _known()

    def forbid(*_: Any) -> None:
        for name in torch._C._dispatch_get_all_op_names():
            namespace, _, rest = name.partition("::")
            if namespace not in known:
                operator, _, overload = rest.partition(".")
                packet = getattr(getattr(torch.ops, namespace), operator, None)
                if packet is not None:
                    torch._dynamo.disallow_in_graph([packet, getattr(packet, overload or "default")])

    callback_handler.register_start_callback(forbid)


def _known() -> set[str]:
    import torch

    return _OF_TORCH | {name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names()}


def _namespace(operator: Any) -> str:
    return str(operator).partition(".")[0]


def _with_watched_formulas(register: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(register)
    def call(operator: Any, backward: Any, /, **named: Any) -> Any:
        name = getattr(operator, "_qualname", operator)
        if named.get("setup_context") is not None:
            named["setup_context"] = _watched(named["setup_context"], name)
        return register(operator, _watched(backward, name), **named)

    return call


def _watched(formula: Callable[..., Any], operator: Any) -> Callable[..., Any]:
    """Let a part of an autograd formula, which is traced once, raise where what it reads has changed since."""
    first: dict[str, str] = {}

    @functools.wraps(formula)
    def call(*arguments: Any, **named: Any) -> Any:
        for name, value in _read_by(inspect.unwrap(formula)):
            if first.setdefault(name, value) != value:
                _refuse(operator, f"has an autograd formula that reads {name!r}, which changes between two calls")
        return formula(*arguments, **named)

    return call


def _read_by(function: Any) -> Iterator[tuple[str, str]]:
    """Yield the plain values that a function reads of its module, of the functions around it, and of objects there."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    around = inspect.getclosurevars(function)
    loaded = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    found = {**{name: value for name, value in around.globals.items() if name in loaded}, **around.nonlocals}
    for name, value in list(found.items()):
        held = getattr(value, "__dict__", {})
        found.update({f"{name}.{attribute}": held[attribute] for attribute in code.co_names if attribute in held})
    for name, value in found.items():
        if isinstance(value, _PLAIN) and (not isinstance(value, _CONTAINERS) or len(value) < _MOST):
            yield name, repr(value)


def _checked(call: Callable[..., Any], operator: Any, arguments: Any, named: dict[str, Any]) -> Any:
    """Return the results of a call, and raise OperatorMismatch where they are not what the operator says."""
    before, random = _copied((arguments, named)), _random_state()
    promised, of_fakes = _promised(call, operator, arguments, named)
    results = call(*arguments, **named)
    given, drew = _by_name(operator, arguments, named), not _alike(random, _random_state())
    declared = [argument.name for argument in operator._schema.arguments if argument.alias_info is not None]
    for name, value in _by_name(operator, *before).items():
        if name not in declared and not _alike(value, given[name], exactly=True):
            _refuse(operator, f"writes to its argument {name!r}, and its schema does not say so")
    views, fake_views = _viewed(results, given), _viewed(promised, of_fakes)
    for name in views:
        if name not in declared:
            _refuse(operator, f"returns a view of its argument {name!r}, and its schema does not say so")
    if promised is not None:
        _compare(operator, promised, results)
        for name in {*views} ^ {*fake_views}:
            how = "with fake tensors only" if name in fake_views else "without fake tensors only"
            _refuse(operator, f"returns a view of its argument {name!r} {how}")
    if not (declared or drew or _is_distributed()):
        if not _alike(results, call(*before[0], **before[1])):
            _refuse(operator, "returns other results when it is called again with the same arguments")
        if _depends_on_place(call, before):
            _refuse(operator, "returns other results for the same values at another place in memory")
    return results


def _depends_on_place(call: Callable[..., Any], given: tuple[Any, dict[str, Any]]) -> bool:
    """Whether a call with new values in the memory of the last one returns otherwise than one with copies of them.

    So does an operator that keeps results by the address or the identity of its arguments, of which compiled code uses
    the memory again. The new values are those of numbers with a fraction in the opposite order.
    """
    import torch

    with torch.no_grad():
        for tensor in _tensors(given):
            if tensor.is_floating_point() or tensor.is_complex():
                tensor.copy_(tensor.flip([*range(tensor.dim())]))
    elsewhere = _copied(given)
    try:
        return not _alike(call(*given[0], **given[1]), call(*elsewhere[0], **elsewhere[1]))
    except Exception:  # the operator may not take such values
        return False


def _promised(call: Callable[..., Any], operator: Any, arguments: Any, named: Any) -> tuple[Any, dict[str, Any]]:
    """Return what an operator answers with fake tensors, and its arguments then; None where torch has no answer."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from torch.utils._pytree import tree_map_only

    mode = FakeTensorMode(shape_env=ShapeEnv())
    fake = functools.partial(mode.from_tensor, static_shapes=True)
    arguments, named = tree_map_only(torch.Tensor, fake, (arguments, named))
    try:
        with mode, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(*arguments, **named), _by_name(operator, arguments, named)
    except Exception as error:
        if type(error).__module__.startswith("torch") or isinstance(error, NotImplementedError):
            return None, {}  # it has no fake kernel, or one whose sizes depend on values
        first = (str(error).strip() or "no message").splitlines()[0]
        _refuse(operator, f"raises {type(error).__name__} with fake tensors ({first})")


def _compare(operator: Any, promised: Any, results: Any) -> None:
    from torch.utils._pytree import tree_leaves

    said, seen = tree_leaves(promised), tree_leaves(results)
    if len(said) != len(seen):
        _refuse(operator, f"returns {len(said)} results with fake tensors, and {len(seen)} without")
    for number, pair in enumerate(zip(said, seen)):
        which = "" if len(seen) == 1 else f", as result {number},"
        for fake, real in _facts(*pair):
            if fake != real:
                _refuse(operator, f"returns{which} {fake} with fake tensors, and {real} without")


def _facts(said: Any, seen: Any) -> Iterator[tuple[str, str]]:
    """Yield what can be compared of two results, in words: (with fake tensors, without)."""
    import torch

    yield _sort(said), _sort(seen)
    if not isinstance(seen, torch.Tensor):
        return
    yield str(said.dtype), str(seen.dtype)
    yield f"a tensor on {said.device}", f"a tensor on {seen.device}"
    yield str(said.layout), str(seen.layout)
    sizes = tuple(said.shape)
    if said.dim() == seen.dim():  # a size that only the values tell may be any
        sizes = tuple(real if isinstance(fake, torch.SymInt) else fake for fake, real in zip(sizes, seen.shape))
    yield f"shape {sizes}", f"shape {tuple(seen.shape)}"
    if seen.layout is torch.strided and seen.numel() and all(type(stride) is int for stride in said.stride()):
        fake, real = ([stride for stride, size in zip(each.stride(), sizes) if size > 1] for each in (said, seen))
        if fake != real:
            yield f"strides {tuple(said.stride())}", f"strides {tuple(seen.stride())}"


def _sort(result: Any) -> str:
    import torch

    return "a tensor" if isinstance(result, torch.Tensor) else "None" if result is None else "a number"


def _by_name(operator: Any, arguments: Any, named: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip((argument.name for argument in operator._schema.arguments), arguments)), **named}


def _viewed(results: Any, given: dict[str, Any]) -> list[str]:
    """Return the names of the arguments that share memory with a result."""
    memory = {tensor.untyped_storage()._cdata for tensor in _tensors(results)}
    return [
        name
        for name, value in given.items()
        if memory & {tensor.untyped_storage()._cdata for tensor in _tensors(value)}
    ]


def _alike(one: Any, other: Any, *, exactly: bool = False) -> bool:
    """Whether the tensors in two values have the same elements, but for rounding."""
    return all(_is_like(a, b, exactly) for a, b in zip(_tensors(one), _tensors(other)))


def _is_like(one: Any, other: Any, exactly: bool) -> bool:
    import torch

    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not (one.is_floating_point() or one.is_complex()):
        return torch.equal(one, other)
    limits = {"rtol": 0.0, "atol": 0.0} if exactly else {}
    return torch.allclose(one, other, equal_nan=True, **limits)


def _copied(value: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, torch.clone, value)


def _tensors(value: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _is_plain(tensor: Any) -> bool:
    import torch

    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided


def _random_state() -> list[Any]:
    import torch

    of_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *of_devices]


def _is_distributed() -> bool:
    import torch

    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _refuse(operator: Any, said: str) -> NoReturn:
    name = str(operator) if "::" in str(operator) else str(operator).replace(".", "::", 1)
    if name.endswith(".default"):
        name = name[: -len(".default")]
    raise OperatorMismatch(f"{name} {said}")
