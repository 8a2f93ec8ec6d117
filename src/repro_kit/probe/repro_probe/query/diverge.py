"""Find where a compiled program first differs from eager, by compiling the program with all its values as outputs.

The result is only a hint: with other outputs the compiler fuses differently, and the failure may be gone.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_flatten_with_path

from repro_probe.judge import compare_outputs, reference
from repro_probe.judge.comparison_tolerance import Tolerance
from repro_probe.run import outputs
from repro_probe.run.load_program import LoadedProgram, seed

_OF_VALUES = ("shape", "dtype", "nan", "value")


def first_names(program: LoadedProgram, text: str, *, exactly: bool = False) -> list[str]:
    """Return, in order, the values of `graph` that differ although their inputs do not.

    With `exactly`, the last digit counts, so that the values are those where rounding begins to differ.
    """
    reads = _reads(text)
    names = _tensors(_returning(program, text, list(reads)), list(reads))
    watched = _returning(program, text, names)
    owners = []

    def eagerly(*arguments: Any) -> Any:
        result = watched.graph(*arguments)
        owners.append([names[path[0].idx] for path, _ in tree_flatten_with_path(result)[0]])
        return result

    eager = outputs.run(watched, eagerly, _quiet)
    compiled = outputs.run(watched, watched.compiled(), _quiet)
    evidence = compare_outputs.Evidence() if exactly else compare_outputs.Evidence(reference.in_double(watched))
    tolerance = Tolerance({**watched.recipe, "rtol": 0.0, "atol": 0.0} if exactly else watched.recipe)
    differences = compare_outputs.differences(eager, compiled, tolerance, evidence)
    wrong = {difference["where"] for difference in differences if difference["kind"] in _OF_VALUES}
    places = eager.output_places().items()
    differing = {owners[call][at] for (call, at), where in places if where in wrong}
    return [name for name in names if name in differing and not differing & _sources(name, reads)]


def _graph(tree: ast.Module) -> ast.FunctionDef:
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "graph"]
    return function


def _reads(text: str) -> dict[str, set[str]]:
    """Return the names that each value of `graph` is computed from, in order."""
    assigned = [node for node in _graph(ast.parse(text)).body if isinstance(node, ast.Assign)]
    return {
        node.targets[0].id: {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
        for node in assigned
        if isinstance(node.targets[0], ast.Name)
    }


def _returning(program: LoadedProgram, text: str, names: Sequence[str]) -> LoadedProgram:
    """Return `program` with a graph that returns the values `names`, without backward, with the usual tolerance."""
    function = _graph(ast.parse(text))
    function.body[-1:] = ast.parse(f"return ({''.join(name + ', ' for name in names)})").body
    module = ast.fix_missing_locations(ast.Module([function], []))
    namespace = dict(program.namespace)
    exec(compile(module, namespace["__file__"], "exec"), namespace)
    return LoadedProgram(namespace, {**program.recipe, "backward": "none", "rtol": None, "atol": None})


def _tensors(program: LoadedProgram, names: Sequence[str]) -> list[str]:
    """Return those of `names` that hold only tensors that can be read outside of `graph`."""
    seed(program.recipe)
    wanted = dict.fromkeys(names)
    for arguments in program.calls():
        with program.forward_region():
            values = program.graph(*arguments)
        for name, value in zip(names, values):
            if not all(map(_is_plain, tree_flatten(value)[0])):
                wanted.pop(name, None)
    return list(wanted)


def _is_plain(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and not torch._C._functorch.is_functorch_wrapped_tensor(leaf)


def _sources(name: str, reads: dict[str, set[str]]) -> set[str]:
    """Return every value that `name` is computed from."""
    sources: set[str] = set()
    waiting = [name]
    while waiting:
        new = reads.get(waiting.pop(), set()) - sources
        sources |= new
        waiting += new
    return sources


def _quiet(step: outputs.Step, number: int) -> None:
    """Ignore the steps of the run."""
