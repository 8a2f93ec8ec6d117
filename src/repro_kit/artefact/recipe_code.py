"""Write a recipe as Python code: its settings, its calls, and torch.export, AOTInductor or precompilation."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro_kit.failure.failure import Difference
from repro_kit.failure.kinds import Kind
from repro_kit.graph.inputs import DynamicMark, TensorInput
from repro_kit.graph.program import Program
from repro_kit.probe.repro_probe.protocol.recipe_data import (
    AOT_INDUCTOR,
    ENTRIES,
    EXPORT_DECOMPOSED,
    EXPORT_DRAFT,
    EXPORT_STRICT,
    PRECOMPILE,
)
from repro_kit.recipe import LADDER, Recipe, module_of, qualified

#: The settings of torch that turn the graph caches off.
_CACHES_OFF = {"inductor.fx_graph_cache": False, "functorch.enable_autograd_cache": False}


def literal(value: Any) -> str:
    """`value` as Python source, including infinities and NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(literal, value)) + ("," if len(value) == 1 else "") + ")"
    return repr(value)


def quoted(text: str) -> str:
    """A string literal, in double quotes unless that needs escapes."""
    plain = repr(text)
    return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in plain and "\\'" not in plain else plain


def config(recipe: Recipe) -> dict[str, Any]:
    """All settings of the compiler's config modules, by their short names."""
    switches = {} if recipe.graph_caches else _CACHES_OFF
    random = {"inductor.fallback_random": True} if recipe.fallback_random else {}
    return {**switches, **random, **recipe.config}


def config_imports(recipe: Recipe) -> list[str]:
    """The modules whose settings the script assigns, and what it uses of torch's private parts."""
    modules = set(map(module_of, config(recipe)))
    return sorted(modules | ({"torch._dynamo.compiled_autograd"} if recipe.compiled_autograd else set()))


def config_lines(recipe: Recipe) -> list[str]:
    """One assignment for each setting."""
    return [f"{qualified(name)} = {literal(value)}" for name, value in config(recipe).items()]


def config_patches(recipe: Recipe) -> list[tuple[str, str]]:
    """The settings for a limited scope: (module, dict as Python text)."""
    modules: dict[str, dict[str, Any]] = {}
    for key, value in config(recipe).items():
        modules.setdefault(module_of(key), {})[key.partition(".")[2]] = value
    return [(module, literal(values)) for module, values in modules.items()]


def process_lines(recipe: Recipe) -> list[str]:
    """Settings of the process: memory, threads and default dtype."""
    limit = f"resource.setrlimit(resource.RLIMIT_AS, ({recipe.memory}, {recipe.memory}))"
    lines = [] if recipe.memory is None else [limit]
    lines += [] if recipe.threads is None else [f"torch.set_num_threads({recipe.threads})"]
    if recipe.default_dtype is not None:
        lines.append(f"torch.set_default_dtype({_dtype(recipe.default_dtype)})")
    return lines


def group_imports(recipe: Recipe) -> list[str]:
    """The import lines for `group_lines`."""
    if recipe.group is None:
        return []
    fake = ["from torch.testing._internal.distributed.fake_pg import FakeStore"] if recipe.group.is_fake else []
    return ["import torch.distributed as dist", *fake]


def group_lines(recipe: Recipe) -> list[str]:
    """The statements that make the process group. Each rank of a real group has its number as first argument."""
    group = recipe.group
    if group is None:
        return []
    ranks = f"rank={group.rank if group.is_fake else 'int(sys.argv[1])'}, world_size={group.size}"
    ways = "store=FakeStore()" if group.is_fake else "init_method=sys.argv[2]"
    made = [f"dist.init_process_group({quoted(group.backend)}, {ways}, {ranks})"]
    loopback = 'os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"'
    return [
        *([] if group.is_fake else [loopback]),
        *made,
        *(f"dist.new_group({literal(list(ranks))})" for ranks in group.subgroups),
    ]


def seed(recipe: Recipe) -> str:
    """The seed as an expression: another one for each rank of a real process group."""
    if recipe.group is None or recipe.group.is_fake:
        return str(recipe.seed)
    return f"{recipe.seed} + dist.get_rank()" if recipe.seed else "dist.get_rank()"


def compile_call(recipe: Recipe, function: str, defined: Collection[str]) -> str:
    """The call of ``torch.compile``. `defined`: names of the preamble, one of which may be the backend."""
    arguments = [function]
    if recipe.backend != "inductor":
        is_users = recipe.backend in defined and recipe.backend not in LADDER
        arguments.append(f"backend={recipe.backend if is_users else quoted(recipe.backend)}")
    if recipe.mode is not None:
        arguments.append(f"mode={quoted(recipe.mode)}")
    if recipe.options:
        arguments.append(f"options={literal(recipe.options)}")
    if recipe.dynamic is not None:
        arguments.append(f"dynamic={recipe.dynamic}")
    if recipe.fullgraph:
        arguments.append("fullgraph=True")
    return f"torch.compile({', '.join(arguments)})"


def forward_regions(recipe: Recipe) -> str:
    """The context managers around the forward call, as text; empty for none."""
    regions = []
    if recipe.grad_mode == "no_grad":
        regions.append("torch.no_grad()")
    elif recipe.grad_mode == "inference_mode":
        regions.append("torch.inference_mode()")
    if recipe.autocast is not None:
        cache = "" if recipe.autocast.cache_enabled else ", cache_enabled=False"
        device, dtype = quoted(recipe.autocast.device), _dtype(recipe.autocast.dtype)
        regions.append(f"torch.autocast({device}, dtype={dtype}{cache})")
    return ", ".join(regions)


def compiled_autograd(recipe: Recipe, defined: Collection[str]) -> str:
    """The context manager around a compiled run with compiled autograd, as text; empty without it."""
    if not recipe.compiled_autograd:
        return ""
    compile_ = compile_call(recipe.with_(fullgraph=False), "gm", defined)
    compile_ = "torch.compile" if compile_ == "torch.compile(gm)" else f"lambda gm: {compile_}"
    return f"torch._dynamo.compiled_autograd._enable({compile_})"


def tolerances(recipe: Recipe) -> str:
    """The arguments of ``assert_close`` after the two results."""
    if recipe.rtol is None and recipe.atol is None:
        return "equal_nan=True"
    return f"rtol={literal(recipe.rtol or 0.0)}, atol={literal(recipe.atol or 0.0)}, equal_nan=True"


def _dtype(name: str) -> str:
    return f"torch.{name.removeprefix('torch.')}"


_MARK = re.compile(r"torch\._dynamo\.mark_dynamic\((\w+), (\d+)\)")


@dataclass(frozen=True)
class Arguments:
    """The arguments of `graph` as torch.export sees them."""

    names: tuple[str, ...] = ()  # of all
    parameters: tuple[str, ...] = ()  # those that become parameters and buffers of the module
    dynamic: tuple[tuple[str, tuple[int, ...]], ...] = ()  # the dynamic dimensions of each that has some

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the arguments that are not parameters of the module."""
        return tuple(name for name in self.names if name not in self.parameters)


def is_entry(recipe: Recipe) -> bool:
    """Whether the program is compiled by torch.export, AOTInductor or precompilation."""
    return recipe.backend in ENTRIES


def arguments_of(program: Program) -> Arguments:
    """The arguments of the first call of `program`."""
    named = dict(zip(program.calls[0], program.graph.params, strict=True))
    tensors = [input_ for input_ in program.inputs if isinstance(input_, TensorInput) and input_.name in named]
    marks = [_MARK.search(input_.line) for input_ in program.inputs if isinstance(input_, DynamicMark)]
    dims: dict[str, tuple[int, ...]] = {}
    for mark in marks:
        if mark is not None and mark[1] in named:
            name = named[mark[1]]
            dims[name] = (*dims.get(name, ()), int(mark[2]))
    if program.recipe.dynamic:
        dims = {named[tensor.name]: tuple(range(len(tensor.shape or ()))) for tensor in tensors if tensor.shape}
    return Arguments(
        program.graph.params,
        tuple(named[tensor.name] for tensor in tensors if tensor.parameter or tensor.buffer),
        tuple(dims.items()),
    )


def entry_code(recipe: Recipe, arguments: Arguments, names: Mapping[str, str], calls: int, graph: str = "graph") -> str:
    """The class of the module, and the function that compiles and runs it. `names`: free names for both.

    `graph`: the name of the function that the module calls.
    """
    inputs = ", ".join(arguments.inputs)
    passed = [f"self.{name}" if name in arguments.parameters else name for name in arguments.names]
    init = ""
    if arguments.parameters:
        stores = "\n".join(f"        self.{name} = {name}" for name in arguments.parameters)
        init = f"    def __init__(self, {', '.join(arguments.parameters)}):\n        super().__init__()\n{stores}\n\n"
    module = (
        f"class {names['module']}(torch.nn.Module):\n{init}    def forward({', '.join(['self', *arguments.inputs])}):\n"
        f"        return {graph}({', '.join(passed)})"
    )
    lines, result = compile_lines(recipe, arguments, f"{names['module']}({', '.join(arguments.parameters)})")
    if calls > 1:  # compiled at the first call
        lines = ["if not made:", *(f"    {line}" for line in lines), f"    made.append({result})"]
        result = "made[0]"
    signature = ", ".join([*arguments.names, *(["made=[]"] if calls > 1 else [])])
    body = textwrap.indent("\n".join([*lines, f"return {result}({inputs})"]), "    ")
    return f"{module}\n\n\ndef {names['compile_and_run']}({signature}):\n{body}"


def compile_lines(recipe: Recipe, arguments: Arguments, module: str) -> tuple[list[str], str]:
    """The lines that compile `module`, and the expression of what they make."""
    if recipe.backend == PRECOMPILE:
        return _precompile(arguments, module)
    given = [module, f"({', '.join(arguments.inputs)}{',' if len(arguments.inputs) == 1 else ''})"]
    if arguments.dynamic:
        given.append(f"dynamic_shapes={_shapes(arguments, 'AUTO' if recipe.dynamic else 'DYNAMIC')}")
    if recipe.backend == EXPORT_STRICT:
        given.append("strict=True")
    export = "draft_export" if recipe.backend == EXPORT_DRAFT else "export"
    lines = [f"exported = torch.export.{export}({', '.join(given)})"]
    if recipe.backend == EXPORT_DECOMPOSED:
        lines.append("exported = exported.run_decompositions()")
    if recipe.backend != AOT_INDUCTOR:
        return lines, "exported.module()"
    options = f", inductor_configs={literal(recipe.options)}" if recipe.options else ""
    lines.append(f"package = torch._inductor.aoti_compile_and_package(exported{options})")
    return lines, "torch._inductor.aoti_load_package(package)"


def _precompile(arguments: Arguments, module: str) -> tuple[list[str], str]:
    lines = [
        "from torch.compiler import precompile",
        "",
        f"module = {module}",
        "with tempfile.TemporaryDirectory() as directory:",
        '    files = {"artifact_path": f"{directory}/artifact.py", "cache_path": f"{directory}/cache"}',
        "    with precompile.capture(torch.nn.Module.__call__, **files) as capture:",
        f"        capture({', '.join(['module', *arguments.inputs])})",
        "    loaded = functools.partial(precompile.load(*files.values()), module)",
    ]
    return lines, "loaded"


def _shapes(arguments: Arguments, size: str) -> str:
    dims = dict(arguments.dynamic)
    shapes = [_dims(dims[name], size) if name in dims else "None" for name in arguments.inputs]
    return f"({', '.join(shapes)}{',' if len(shapes) == 1 else ''})"


def _dims(dims: Sequence[int], size: str) -> str:
    return "{" + ", ".join(f"{dim}: torch.export.Dim.{size}" for dim in dims) + "}"


@dataclass(frozen=True)
class Wanted:
    """What the script is to show.

    `whole`: results of every kind are compared, each run makes its own inputs, and NaN equals NaN; else only what
    differs is compared, in the fewest lines that may do.
    """

    kind: Kind
    difference: Difference | None = None  # the one that was seen first
    raises: str = ""  # the exception of eager that the compiled program loses
    comment: str = ""  # how the last line fails
    header: str = ""  # the docstring
    whole: bool = True
    rewritten: bool = True  # public names stand for private ones, and `with` blocks for open and closed regions

    @property
    def form(self) -> str:
        """The kind of difference; "" where none was seen."""
        return self.difference.kind if self.difference else ""

    @property
    def place(self) -> str:
        """The place of the difference; "" where none was seen."""
        return self.difference.place if self.difference else ""


@dataclass(frozen=True)
class Parts:
    """The texts of a program, as its script has them."""

    recipe: Recipe
    graph: str
    function: str  # its name
    bodies: tuple[str, ...]  # of higher-order operators
    inputs: tuple[str, ...]  # lines
    calls: tuple[tuple[str, ...], ...]  # the names of the arguments of each
    tensors: tuple[str, ...]  # arguments that are tensors
    leaves: tuple[str, ...]  # those that get gradients
    single: bool  # the graph returns one result, and no tuple
    made_by: str  # the expression of all calls, where a function makes them
    code: str  # all of these texts
    entry: Arguments | None  # for torch.export and the like
    defined: frozenset[str]  # names of the preamble
    taken: frozenset[str]  # all names

    def free(self, name: str) -> str:
        """`name`, if the program has no such name; else another one."""
        return name if name not in self.taken else f"repro_{name}"

    @property
    def has_buffers(self) -> bool:
        """Whether the module that is exported has buffers, which each of its calls may change."""
        return self.entry is not None and any("torch.nn.Buffer(" in line for line in self.inputs)

    @property
    def functions(self) -> str:
        """The text of what runs."""
        return "\n".join([*self.bodies, self.graph])
