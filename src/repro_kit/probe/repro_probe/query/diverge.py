"""Find where a compiled program first differs from eager: in its values, or else in its gradients.

The result is only a hint: with other inputs and outputs the compiler fuses differently, and the failure may be gone.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_flatten, tree_flatten_with_path

from repro_probe.judge import compare_outputs, double_precision, recheck
from repro_probe.judge.compare_outputs import Evidence, Tolerance
from repro_probe.protocol.failure_data import OF_CONTENT, DifferenceData
from repro_probe.protocol.recipe_data import RecipeData
from repro_probe.query.first_wrong import Firsts, first_wrong, upstream
from repro_probe.query.harmless import Leaves, harmless
from repro_probe.query.record_values import defined, graph_of
from repro_probe.run import outputs, process_group
from repro_probe.run.load_program import LoadedProgram, seed
from repro_probe.run.outputs import Outcome

_SLIGHT = 0.1  # share of the program's own difference from eager: by so much, other fusions may round differently


class Unwatched:
    """The results of `program` in eager and compiled, to which those of a run with watched values are compared.

    Watching values changes what the compiler sees, and may cause another bug than the program's own. So watched
    values count only if the program returns the same as unwatched.

    Left out is what two runs of the same compiled code do not share. Programs that draw random numbers may draw others
    when they are watched, and several ranks must all make the same runs: their results are not compared.
    """

    def __init__(self, program: LoadedProgram) -> None:
        self._tolerance = Tolerance({**program.recipe, "rtol": None, "atol": None})
        self.comparable = not process_group.is_real(program.recipe["group"])
        if not self.comparable:
            return
        self._eager = outputs.run(program, program.graph)
        self.comparable = not self._eager.random
        if not self.comparable:
            return
        compiled = program.compiled()
        with program.compiled_autograd():
            self._results, again = (outputs.run(program, compiled) for _ in range(2))
        unsteady = compare_outputs.places_that_differ(self._results, again, self._tolerance)
        self._evidence = Evidence(ignore=unsteady)
        self._slight = 0.0
        self._slight = _SLIGHT * max(
            (each["max_abs"] for each in self._between(self._eager, self._results)), default=0.0
        )

    def is_unlike(self, watched: Outcome) -> bool:
        """Whether a compiled run with watched values, which come before the outputs, is wrong in another way.

        Where its own results are right, the failure is gone, and no value is wrong.
        """
        if not self.comparable:
            return False
        own = _last_outputs(watched, self._results)
        return all(self._between(other, own) for other in (self._results, self._eager))

    def is_right(self, watched: Outcome) -> bool:
        """Whether the results of a compiled run with watched values are right, or cannot be compared."""
        return not (self.comparable and self._between(self._eager, _last_outputs(watched, self._results)))

    def _between(self, one: Outcome, other: Outcome) -> list[DifferenceData]:
        """Return the differences of two runs in their values that are more than slight."""
        found = compare_outputs.differences(one, other, self._tolerance, self._evidence)
        return [
            each
            for each in found
            if each["kind"] in OF_CONTENT and (each["kind"] != "value" or each["max_abs"] > self._slight)
        ]


def _last_outputs(watched: Outcome, unwatched: Outcome) -> Outcome:
    """Return `watched` with as many outputs of each call as `unwatched` has, the last ones."""
    own = Outcome()
    own.grads, own.after = watched.grads, watched.after
    for (leaves, _), (fewer, structure) in zip(watched.outputs, unwatched.outputs):
        own.outputs.append((leaves[len(leaves) - len(fewer) :], structure))
    return own


_NOTE = "__repro_note__"  # the name that instrumented code calls


def first_names(program: LoadedProgram, text: str, *, exactly: bool = False) -> Firsts:
    """Return, in order, the values of `graph` that differ although their inputs do not.

    With `exactly`, the last digit counts, so that the values are those where rounding begins to differ.
    """
    read_by = reads(text)
    idle, right = set[str](), set[str]()
    unwatched = None if exactly else Unwatched(_forward(program.namespace, program.recipe))
    sizes = _sizes(_returning(program, text, list(read_by)), list(read_by))
    writers = _writers(program, text)

    def wrong_among(names: Sequence[str]) -> set[str] | None:
        watched = _differing(_returning(program, text, names, writers), names, unwatched)
        if watched is None:
            return None
        wrong = watched.wrong.keys() - idle
        for name in wrong:
            earlier: set[str] = upstream(name, read_by)
            if not wrong & earlier:
                seen[name] = watched.wrong[name]
        if watched.fails:
            right.update(set(names) - watched.wrong.keys())
        return wrong

    while True:
        seen: dict[str, Leaves] = {}
        names = first_wrong(list(sizes), read_by, sizes, wrong_among)
        judged = unwatched is not None and unwatched.comparable and bool(names)
        found = harmless(program, text, {name: seen[name] for name in names}) if judged else set()
        if not found:
            return Firsts(names, sorted(idle), sorted(right))
        idle |= found


class _Watched(NamedTuple):
    """What a compiled run gave the watched values that differ from eager's; whether the program's results do, too."""

    wrong: Mapping[str, Leaves]
    fails: bool


def _differing(watched: LoadedProgram, names: Sequence[str], unwatched: Unwatched | None) -> _Watched | None:
    """Hold the values `names`, which the graph of `watched` returns first, against eager's.

    Returns None where the other results are not those of the `unwatched` program. Without that, the last digit counts.
    """
    owners = []

    def eagerly(*arguments: Any) -> Any:
        result = watched.graph(*arguments)
        owners.append([names[at] if at < len(names) else "" for at in _numbers(result)])
        return result

    eager = outputs.run(watched, eagerly)
    compiled = outputs.run(watched, watched.compiled())
    if unwatched is not None and unwatched.is_unlike(compiled):
        return None
    best = None if unwatched is None else double_precision.in_double(watched)
    evidence = compare_outputs.Evidence(best, ignore=recheck.unsteady(watched, eager))
    exact: RecipeData = {**watched.recipe, "rtol": 0.0, "atol": 0.0}
    tolerance = Tolerance(exact if unwatched is None else watched.recipe)
    differences = compare_outputs.differences(eager, compiled, tolerance, evidence)
    wrong = {each["where"] for each in differences if each["kind"] in OF_CONTENT}
    places = eager.output_places().items()
    differing = {owners[call][at] for (call, at), where in places if where in wrong} - {""}
    made = [[(leaf.value, name) for leaf, name in zip(leaves, of)] for (leaves, _), of in zip(compiled.outputs, owners)]
    given = {name: [[value for value, owner in call if owner == name] for call in made] for name in differing}
    return _Watched(given, unwatched is not None and not unwatched.is_right(compiled))


def _numbers(result: Any) -> list[int]:
    """Return for each leaf of a tuple the number of the element that holds it."""
    return [path[0].idx for path, _ in tree_flatten_with_path(result)[0]]


def reads(text: str) -> dict[str, set[str]]:
    """Return the names that each value of `graph` is computed from, in order."""
    assigned = [node for node in graph_of(text).body if isinstance(node, ast.Assign)]
    return {
        node.targets[0].id: {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
        for node in assigned
        if isinstance(node.targets[0], ast.Name)
    }


def _returning(
    program: LoadedProgram, text: str, names: Sequence[str], writers: Mapping[str, int] = MappingProxyType({})
) -> LoadedProgram:
    """Return `program` with a graph that returns the values `names` before its own, with the usual tolerance.

    It has no backward. `writers`: the number of the statement before which a value is copied, since the statement
    writes to the value.
    """
    function = graph_of(text)
    copied = {name: f"{name}_before_{writers[name]}" for name in names if name in writers}
    body = []
    for number, statement in enumerate(function.body[:-1]):
        body += [
            ast.parse(f"{copy} = {name}.clone()").body[0] for name, copy in copied.items() if writers[name] == number
        ]
        body.append(statement)
    returned = [*(copied.get(name, name) for name in names), *_returned(function)]
    function.body = [*body, *ast.parse(f"return ({', '.join(returned)},)").body]
    return _forward(defined(function, program), program.recipe)


def _returned(function: ast.FunctionDef) -> list[str]:
    """Return the expressions that `function` returns."""
    last = function.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    values = value.elts if isinstance(value, ast.Tuple) else [value]
    return [ast.unparse(each) for each in values if each is not None]


def _forward(namespace: dict[str, Any], recipe: RecipeData) -> LoadedProgram:
    return LoadedProgram(namespace, {**recipe, "backward": "none", "rtol": None, "atol": None})


def _writers(program: LoadedProgram, text: str) -> dict[str, int]:
    """Return the number of the first statement that writes in eager to a value of an earlier one, and has a name too.

    Statements without a name, such as ``a[:] = x``, are taken for parts of the making of the value.
    """
    function = graph_of(text)
    writers: dict[str, int] = {}
    seen: dict[str, tuple[torch.Tensor, int]] = {}

    def note(number: int, name: str, value: Any) -> None:
        for earlier, (tensor, version) in seen.items():
            if tensor._version != version:
                seen[earlier] = (tensor, tensor._version)
                if name:
                    writers.setdefault(earlier, number)
        seen.pop(name, None)
        if is_plain(value) and not value.is_inference():
            seen[name] = (value, value._version)

    body = []
    for number, statement in enumerate(function.body[:-1]):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        name = target.id if isinstance(target, ast.Name) else ""
        body += [statement, ast.parse(f"{_NOTE}({number}, {name!r}, {name or None})").body[0]]
    function.body = [*body, function.body[-1]]
    namespace = defined(function, program)
    namespace[_NOTE] = note
    seed(program.recipe)
    for arguments in program.calls():
        seen.clear()
        with program.forward_region():
            namespace["graph"](*arguments)
    return writers


def _sizes(program: LoadedProgram, names: Sequence[str]) -> dict[str, int]:
    """Return the bytes of those of `names` that hold only tensors that can be read outside of `graph`."""
    seed(program.recipe)
    sizes = dict.fromkeys(names, 0)
    for arguments in program.calls():
        with program.forward_region():
            values = program.graph(*arguments)
        for name, value in zip(names, values):
            leaves = tree_flatten(value)[0]
            if not all(map(is_plain, leaves)):
                sizes.pop(name, None)
            elif name in sizes:
                sizes[name] += sum(leaf.numel() * leaf.element_size() for leaf in leaves)
    return sizes


def is_plain(leaf: Any) -> bool:
    """Whether `leaf` is a tensor that can be read outside of a `vmap` or `grad` that makes it, and compared."""
    is_tensor = isinstance(leaf, torch.Tensor) and not leaf.is_nested
    return is_tensor and not torch._C._functorch.is_functorch_wrapped_tensor(leaf)
