"""Put back what a program changes in torch: before each compile, and where it hands something to torch.

The setup of a cell is this text.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

#: What may be put back: entries of torch's tables, kernels of its operators, patterns that its passes look for,
#: attributes of its modules and classes (those that programs call, and those of the compiler), what Dynamo is told not
#: to trace, not to guard, or to leave out, and passes in settings.
KINDS = ("lowerings", "decompositions", "kernels", "patterns", "calls", "functions", "marks", "passes")

_OF_TORCH = ("aten", "prims", "prim", "inductor")
_MARKS = ("assume_constant_result", "allow_in_graph", "nonstrict_trace")
_LEFT_OUT = ("ignore_logging_functions", "ignore_logger_methods", "reorderable_logging_functions")
_MODULES = ("torch._inductor.compile_fx", "torch._dynamo", "torch._refs", "torch.compiler")
#: Modules of which programs call no function by themselves. Others run in eager too, and Dynamo traces them.
OF_COMPILER = re.compile(r"torch\.(?:fx\b|export\b|compiler\b|(?:.*\.)?_)")
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


def is_torchs(value: Any) -> bool:
    """Whether `value` is no function or class, or one that torch, Python or the probe defines."""
    while isinstance(value, functools.partial):
        value = value.func
    value = inspect.unwrap(getattr(value, "__func__", value))
    code = getattr(value, "__code__", None)
    if code is not None:
        return _is_file_of_torch(code.co_filename)
    if not isinstance(value, type):
        return not callable(value) or is_torchs(type(value))
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
            if value is not before.get(key) and not is_torchs(value):
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
                users = [key for key, kernel in operator.py_kernels.items() if not is_torchs(kernel)]
                for key in users:
                    del operator.py_kernels[key]
                    operator._dispatch_cache.clear()


def _kept_attributes(kind: str) -> Callable[[], None]:
    owners: dict[int, tuple[Any, dict[str, Any]]] = {}
    for name, module in list(sys.modules.items()):
        if module is None or not (name == "torch" or name.startswith("torch.")):
            continue
        if (kind == "functions") is not bool(OF_COMPILER.match(name)):
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
                if name in before and value is not before[name] and not is_torchs(value):
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
        return apply_options(self, {name: value for name, value in (options or {}).items() if is_torchs(value)})

    wrapper.apply_options = apply_others

    def put_back() -> None:
        for name, value in copied().items():
            if not is_torchs(value):
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
