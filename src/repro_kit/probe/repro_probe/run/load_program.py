"""Load a program's text and apply its recipe (docs/explanation/program-format.md; recipe.py)."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import linecache
import os
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, cast

from repro_probe.common import torch_environment
from repro_probe.protocol.recipe_data import (
    AUTOCAST_DEFAULTS,
    CONFIG_MODULES,
    ENTRIES,
    RECIPE_DEFAULTS,
    AutocastData,
    RecipeData,
)


class LoadedProgram:
    """The functions `graph` and `calls` of a program, and its recipe."""

    def __init__(self, namespace: dict[str, Any], recipe: RecipeData) -> None:
        self.namespace = namespace
        self.graph = namespace["graph"]
        self.calls = namespace["calls"]
        self.recipe = recipe
        self.parameters = list(inspect.signature(self.graph).parameters)

    def become_peer(self) -> None:
        """Take the graph and the calls of the ranks that run other code than the judged rank."""
        self.graph = self.namespace["peer_graph"]
        self.calls = self.namespace["peer_calls"]
        self.parameters = list(inspect.signature(self.graph).parameters)

    def compiled(self) -> Callable[..., Any]:
        """Return `graph` compiled as the recipe asks: by torch.compile, torch.export or AOTInductor."""
        if self.recipe["backend"] in ENTRIES:
            from repro_probe.run.compile_entries import compiled_by  # imports torch

            recipe = self.recipe
            return compiled_by(recipe["backend"], self.graph, self.parameters, recipe["options"], recipe["dynamic"])
        return self._compile(self.graph, fullgraph=self.recipe["fullgraph"])

    def _compile(self, function: Any, **arguments: Any) -> Any:
        import torch

        recipe = self.recipe
        backend = recipe["backend"]
        own = self.namespace.get(backend)
        # A model of the script may have the name of a backend of torch.
        is_users = callable(own) and not torch_environment.is_registered(backend)
        arguments["backend"] = own if is_users else torch_environment.backend(backend)
        for name in ("mode", "options", "dynamic"):
            if recipe[name] not in (None, {}):
                arguments[name] = recipe[name]
        return torch.compile(function, **arguments)

    @contextlib.contextmanager
    def compiled_autograd(self) -> Iterator[None]:
        """Switch compiled autograd on for the block, where the recipe asks for it."""
        if not self.recipe["compiled_autograd"]:
            yield
            return
        from torch._dynamo import compiled_autograd

        enable = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable  # the name of an older torch
        with enable(self._compile):
            yield

    @contextlib.contextmanager
    def surroundings(self) -> Iterator[None]:
        """Enter the recipe's contexts, which a call and its backward run in."""
        with contextlib.ExitStack() as stack:
            for expression in self.recipe["contexts"]:
                stack.enter_context(eval(expression, self.namespace))
            yield

    def widened(self, widen: Callable[[Any], Any]) -> contextlib.AbstractContextManager[None]:
        """Return an empty context: `calls` makes all tensors of a program."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def forward_region(self, autocast: bool = True) -> Iterator[None]:
        """Enter the contexts, grad mode and autocast region that a forward call runs in."""
        import torch

        recipe = self.recipe
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.surroundings())
            if recipe["grad_mode"] == "no_grad":
                stack.enter_context(torch.no_grad())
            elif recipe["grad_mode"] == "inference_mode":
                stack.enter_context(torch.inference_mode())
            if recipe["autocast"] is not None and autocast:
                region: AutocastData = {**AUTOCAST_DEFAULTS, **recipe["autocast"]}
                dtype = getattr(torch, region["dtype"].replace("torch.", ""))
                stack.enter_context(
                    torch.autocast(region["device"], dtype=dtype, cache_enabled=region["cache_enabled"])
                )
            yield


def load(text: str, inputs: str | None, prepare: Callable[[RecipeData], None] | None = None) -> LoadedProgram:
    """Execute `text` as a module and return its program. Exceptions of the module are not caught.

    `prepare(recipe)` is called after RECIPE is read, and before the module is executed.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(inputs)) if inputs else os.getcwd(), "program.py")
    linecache.cache[path] = (
        len(text),
        None,
        text.splitlines(True),
        path,
    )  # tracebacks and inspect read the source there
    code = compile(text, path, "exec")
    whole = cast(RecipeData, {**RECIPE_DEFAULTS, **recipe_of(text)})
    if prepare is not None:
        prepare(whole)
    module = types.ModuleType("repro_program")
    module.__file__ = path
    sys.modules[module.__name__] = module
    exec(code, module.__dict__)
    return LoadedProgram(module.__dict__, whole)


def recipe_of(text: str) -> dict[str, Any]:
    """Return the literal that `text` assigns to RECIPE, or {}. Raises SyntaxError and ValueError."""
    import ast

    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", None) == "RECIPE":
            return ast.literal_eval(statement.value)
    return {}


def apply(recipe: RecipeData, threads: int | None = None) -> None:
    """Make the settings of `recipe` that hold for the whole process.

    `threads` is the machine's default number of threads, for a process that has changed its own number.
    """
    import torch

    os.environ.update(recipe["env"])
    if recipe["memory"]:
        limit_memory(recipe["memory"])
    if recipe["threads"] or threads:
        torch.set_num_threads(recipe["threads"] or threads)
    if recipe["default_dtype"]:
        torch.set_default_dtype(getattr(torch, recipe["default_dtype"].replace("torch.", "")))
    set_config("inductor.fx_graph_cache", recipe["graph_caches"])
    set_config("functorch.enable_autograd_cache", recipe["graph_caches"])
    if recipe["fallback_random"]:
        set_config("inductor.fallback_random", True)
    for name, value in recipe["config"].items():
        set_config(name, value)


def limit_memory(size: int) -> None:
    """Limit this process to `size` bytes of address space, where the system supports that. A lower limit stays."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def set_config(name: str, value: object) -> None:
    """Make torch's setting ``<module>.<name>``. A setting that this torch lacks is skipped with a message."""
    module, _, key = name.partition(".")
    config = importlib.import_module(CONFIG_MODULES[module])
    try:
        setattr(config, key, value)
    except AttributeError:
        print(f"repro-kit: this torch has no setting {name}; it is left out", file=sys.stderr)


def seed(recipe: RecipeData) -> None:
    """Seed every random number generator that a program may use."""
    import torch

    random.seed(recipe["seed"])
    torch.manual_seed(recipe["seed"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(recipe["seed"] % 2**32)
