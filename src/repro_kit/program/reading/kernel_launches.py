"""Write the launches of a user's Triton kernels as the user wrote them: ``kernel[(12, 1, 1)](x=a, out=b, BLOCK=64)``.

A graph has them as calls of an operator that names the kernel by a number (`TritonKernelWrapperMutation` in
torch/_higher_order_ops/triton_kernel_wrap.py), which Dynamo cannot trace again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

from repro_kit.errors import StageError
from repro_kit.program.reading.graph_record import KernelRecord, LaunchRecord

_OPERATOR = "torch.ops.higher_order.triton_kernel_wrapper_mutation"


def with_launches(statements: Iterable[ast.stmt], launches: Mapping[str, LaunchRecord]) -> list[ast.stmt]:
    """`statements` with launches in place of the operator. Raises StageError for what a launch cannot say."""
    return [_launched(statement, launches) for statement in statements]


def kernel_names(launches: Mapping[str, LaunchRecord]) -> set[str]:
    """The names of the kernels."""
    return {launch.kernel.name or "" for launch in launches.values()}


def _launched(statement: ast.stmt, launches: Mapping[str, LaunchRecord]) -> ast.stmt:
    if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
        return statement
    call = statement.value
    if ast.unparse(call.func) != _OPERATOR:
        return statement
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    launch = launches.get(f"{ast.unparse(given['kernel_idx'])}/{ast.unparse(given['constant_args_idx'])}")
    if launch is None or not launch.kernel.name:
        raise StageError("The graph launches a Triton kernel that was not recorded.")
    name = launch.kernel.name
    if "." in name:
        raise StageError(f"The Triton kernel {name} is not defined at the top level of its file.")
    unknown = [argument for argument, text in launch.constants.items() if text is None]
    descriptors = given.get("tma_descriptor_metadata")
    if unknown or (isinstance(descriptors, ast.Dict) and descriptors.keys):
        what = f"argument {unknown[0]}" if unknown else "a tensor descriptor"
        raise StageError(f"The graph launches the Triton kernel {name} with {what}, which a program cannot hold.")
    constants = [ast.keyword(key, ast.parse(text or "", mode="eval").body) for key, text in launch.constants.items()]
    kernel = ast.Subscript(ast.Name(name, ast.Load()), _grid(given["grid"], launch.kernel), ast.Load())
    launched = ast.Expr(ast.Call(kernel, [], [*_keywords(given["kwargs"]), *constants]))
    return ast.fix_missing_locations(ast.copy_location(launched, statement))


def _keywords(arguments: ast.expr) -> list[ast.keyword]:
    assert isinstance(arguments, ast.Dict)
    return [
        ast.keyword(ast.literal_eval(key), value)
        for key, value in zip(arguments.keys, arguments.values, strict=True)
        if key
    ]


def _grid(grids: ast.expr, kernel: KernelRecord) -> ast.expr:
    """The grid: of each configuration that the kernel tries, where these have different ones."""
    assert isinstance(grids, ast.List)
    texts = list(map(ast.unparse, grids.elts))
    if len(set(texts)) == 1:
        return grids.elts[0]
    keys = _telling(kernel.configs)
    if len(texts) != len(kernel.configs) or not keys:
        raise StageError(f"The Triton kernel {kernel.name} has a grid for each configuration, which are not known.")
    values = ["({})".format(", ".join([*(config[key] for key in keys), ""])) for config in kernel.configs]
    table = ", ".join(f"{value}: {text}" for value, text in zip(values, texts, strict=True))
    chosen = ", ".join([*(f"meta[{key!r}]" for key in keys), ""])
    return ast.parse(f"lambda meta: {{{table}}}[{chosen}]", mode="eval").body


def _telling(configs: Sequence[Mapping[str, str]]) -> list[str]:
    """The arguments that the configurations have in common, and that differ between them."""
    shared = set.intersection(*map(set, configs)) if configs else set()
    return sorted(key for key in shared if len({config[key] for config in configs}) > 1)
