"""Change how an unmodified script compiles, by wrapping ``torch.compile`` and ``torch._dynamo.optimize``.

The options are those of `Override` (protocol/orders.py). A setting is made when its config module is imported, and the
script cannot change it afterwards.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from repro_probe.change import subsystems
from repro_probe.change.eager_parts import is_named, run_all_in_eager, run_functions_in_eager, run_graphs_in_eager
from repro_probe.common import torch_environment
from repro_probe.common.imports import when_imported
from repro_probe.common.run_files import FindingsDirectory
from repro_probe.common.torch_environment import default_of
from repro_probe.protocol.findings import APPLIED
from repro_probe.protocol.graph_data import CompileSettings
from repro_probe.protocol.orders import ProbeOptions
from repro_probe.protocol.recipe_data import CONFIG_MODULES, ENTRIES

Note = Callable[[CompileSettings], None]
Watch = Callable[[Any, Any], Any]

_inside = threading.local()

#: Modules of torch that pass a user's call on to torch.compile. Other modules of torch call it for themselves.
_HANDS_ON = ("torch.nn.modules.module", "torch.compiler")


_OF_DYNAMO = "guard_filter_fn"  # the option of torch.compile that every backend takes


def is_users(frame: FrameType) -> bool:
    """Whether a call of `torch.compile` from `frame` was made by the user."""
    name = frame.f_globals.get("__name__") or ""
    return name in _HANDS_ON or not (name == "torch" or name.startswith("torch."))


def compile_settings(arguments: dict[str, Any]) -> CompileSettings:
    """Return the arguments of a call of `torch.compile` that decide how a function is compiled, as data."""
    backend = arguments.get("backend") or "inductor"
    return {
        "mode": arguments.get("mode"),
        "dynamic": arguments.get("dynamic"),
        "fullgraph": arguments.get("fullgraph"),
        "options": arguments.get("options"),
        "backend": backend if isinstance(backend, str) else getattr(backend, "__qualname__", repr(backend)),
    }


def install(findings: FindingsDirectory, note: Note, watch: Watch) -> None:
    """Install the overrides, without importing a module before the script does.

    `note` gets the script's own settings at each call of `torch.compile`. `watch(compiled, original)` returns the
    callable that the script gets in place of `compiled`.
    """
    options = findings.options
    when_imported("torch", lambda torch: _wrap_compile(torch, options, note, watch))
    if "grad" in options:
        when_imported("torch", lambda torch: torch.set_grad_enabled(options["grad"]))
    if "setup" in options:
        when_imported("torch", lambda torch: exec(options["setup"], {"torch": torch, "__name__": "repro_setup"}))
    if options.get("eager"):
        from repro_probe.change.compiled_ahead import replace_aot_compile  # imports this module

        run_all_in_eager(findings, _fix)
        replace_aot_compile()
    if options.get("eager") or "backend" in options:
        from repro_probe.change import export_stand_ins  # imports this module
        from repro_probe.change.compiled_ahead import replace_precompile

        backend = None if options.get("eager") else options.get("backend")
        export_stand_ins.install(backend)
        replace_precompile(backend)
    if "disable" in options:
        run_functions_in_eager(options["disable"])
    when_imported("torch._dynamo", lambda dynamo: _wrap_optimize(dynamo, options))
    for key, value in options.get("config", {}).items():
        _when_config_is_imported(key, _fix, value=value)
    for key in options.get("defaults", ()):
        _when_config_is_imported(key, _fix_default)
    if options.get("eager_graphs"):
        run_graphs_in_eager(options["eager_graphs"], _fix)
    for key, paths in options.get("functions", {}).items():
        _when_config_is_imported(key, _add, paths=paths)
    if "switch" in options:
        path = findings.path(APPLIED, "jsonl")
        when_imported("torch._inductor.compiler_bisector", lambda _: subsystems.switch_off(options["switch"], path))


def _when_config_is_imported(key: str, change: Callable[..., None], **values: Any) -> None:
    """Call `change(module, name)` with `values` for the setting `key`, once its config module is imported."""
    short, _, name = key.partition(".")
    when_imported(CONFIG_MODULES[short], functools.partial(change, name=name, **values))


def _fix(module: Any, name: str, value: object) -> None:
    """Make the setting `name` for all threads, so that later assignments in the script have no effect."""
    *path, last = name.split(".")
    holder = module
    for part in path:
        holder = getattr(holder, part)
    setattr(holder, last, value)
    entries: Any = getattr(module, "_config", {})
    entry: Any = entries.get(name)
    if hasattr(entry, "env_value_force"):  # torch does the same for a setting that an environment variable forces
        entry.env_value_force = value
    elif name in entries:  # an older torch keeps plain values
        if not isinstance(entries, _FixedValues):
            module.__dict__["_config"] = entries = _FixedValues(entries)
        entries.fix(name, value)


class _FixedValues(dict):  # type: ignore[type-arg]
    """The values of an older torch's config module, some of which cannot be changed."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._fixed: dict[str, Any] = {}

    def fix(self, name: str, value: object) -> None:
        """Set `name` to `value`. Later assignments to `name` have no effect."""
        self._fixed[name] = value
        self[name] = value

    def __setitem__(self, name: str, value: object) -> None:
        super().__setitem__(name, self._fixed.get(name, value))

    def update(self, *changes: Any, **named: Any) -> None:
        """Assign all changes, as torch's `patch` does."""
        for name, value in dict(*changes, **named).items():
            self[name] = value


def _fix_default(module: Any, name: str) -> None:
    if name in getattr(module, "_config", {}):
        _fix(module, name, default_of(module, name))


def _add(module: Any, name: str, paths: Sequence[str]) -> None:
    setattr(module, name, {*getattr(module, name), *map(_function, paths)})


def _function(path: str) -> Any:
    module, _, name = path.rpartition(".")
    if module not in sys.modules and "." in module:  # a method: logging.Logger.info
        return getattr(_function(module), name)
    return getattr(importlib.import_module(module), name)


def _wrap_compile(torch: Any, options: ProbeOptions, note: Note, watch: Watch) -> None:
    compile_ = torch.compile

    @functools.wraps(compile_)
    def compile(model: Any = None, **arguments: Any) -> Any:
        if not is_users(sys._getframe(1)):
            return compile_(model, **arguments)
        note(compile_settings(arguments))
        changed = _compile_arguments(arguments, options)
        if model is None:
            return lambda function: _compile(function, changed)
        return _compile(model, changed)

    def _compile(model: Any, changed: dict[str, Any]) -> Any:
        code = getattr(model, "__code__", None)
        if code is not None and is_named(code, options.get("disable", ())):
            changed = {"disable": True}  # torch.compile looks through the decorator
        _inside.flag = True
        try:
            return watch(compile_(model, **changed), model)
        finally:
            _inside.flag = False

    torch.compile = compile


def _compile_arguments(arguments: dict[str, Any], options: ProbeOptions) -> dict[str, Any]:
    changed = dict(arguments)
    before = changed.get("backend") or "inductor"
    if options.get("backend") in ENTRIES:  # for what the script exports
        return changed
    for name in ("backend", "dynamic", "fullgraph"):
        if name in options:
            changed[name] = torch_environment.backend(options[name]) if name == "backend" else options[name]
    if options.get("backend", before) != before:
        # Options and modes belong to the backend that they were written for; a filter of guards is Dynamo's.
        changed.pop("mode", None)
        kept = {name: value for name, value in (changed.pop("options", None) or {}).items() if name == _OF_DYNAMO}
        if kept:
            changed["options"] = kept
    guard_filter = (changed.get("options") or {}).get(_OF_DYNAMO)
    if "mode" in options and guard_filter is not None:  # torch takes a mode or options
        changed.pop("mode", None)
        changed["options"] = {**_options_of_mode(options["mode"]), _OF_DYNAMO: guard_filter}
    elif "mode" in options:
        changed.pop("options", None)
        changed["mode"] = options["mode"]
    return changed


def _options_of_mode(mode: str | None) -> dict[str, Any]:
    import torch._inductor

    settings: dict[str, Any] = torch._inductor.list_mode_options(mode) if mode else {}
    return settings


def _wrap_optimize(dynamo: Any, options: ProbeOptions) -> None:
    optimize = dynamo.optimize
    if not {"backend", "dynamic"} & set(options) or options.get("backend") in ENTRIES:
        return

    @functools.wraps(optimize)
    def optimize_with(*positional: Any, **arguments: Any) -> Any:
        if not getattr(_inside, "flag", False):
            if positional:
                arguments["backend"], positional = positional[0], ()
            if "backend" in options:
                arguments["backend"] = torch_environment.backend(options["backend"])
            if "dynamic" in options:
                arguments["dynamic"] = options["dynamic"]
        return optimize(*positional, **arguments)

    dynamo.optimize = optimize_with
    eval_frame: Any = importlib.import_module("torch._dynamo.eval_frame")
    eval_frame.optimize = optimize_with
