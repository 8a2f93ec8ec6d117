"""Write the code that compiles a program by torch.export, AOTInductor or precompilation.

`run/compile_entries.py` of the probe does the same for queries.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro_kit.model.recipe import Recipe
from repro_kit.probe.repro_probe.protocol.entries import (
    AOT_INDUCTOR,
    ENTRIES,
    EXPORT_DECOMPOSED,
    EXPORT_DRAFT,
    EXPORT_STRICT,
    PRECOMPILE,
)
from repro_kit.program import recipe_code
from repro_kit.program.inputs import DynamicMark, TensorInput
from repro_kit.program.program import Program

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
    options = f", inductor_configs={recipe_code.literal(recipe.options)}" if recipe.options else ""
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
