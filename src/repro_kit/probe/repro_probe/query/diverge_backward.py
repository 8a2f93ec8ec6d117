"""Find the statement whose backward first differs from eager's: its incoming gradients agree, its outgoing do not.

Each value that a statement reads is read through a sum with zeros, which are a new input of `graph`. The gradient of
these zeros is what the statement alone adds to the gradient of the value.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from repro_probe.judge import compare_outputs, double_precision, rounding
from repro_probe.judge.compare_outputs import Tolerance
from repro_probe.protocol.failure_data import OF_CONTENT
from repro_probe.protocol.recipe_data import RecipeData
from repro_probe.query.diverge import Unwatched, is_plain, reads
from repro_probe.query.first_wrong import Firsts, first_wrong
from repro_probe.query.record_values import HOOK, defined, graph_of, instrumented
from repro_probe.run import outputs
from repro_probe.run.load_program import LoadedProgram, seed

_SMALLEST = 1e-30  # the size of a gradient that counts as none
_PREFIX = "repro_probe_"  # of the names that are added to `graph`


class Use(NamedTuple):
    """One value that a statement reads."""

    statement: str  # the name that the statement assigns
    value: str

    @property
    def zeros(self) -> str:
        """The name of the input that is added to the value."""
        return f"{_PREFIX}{self.statement}_of_{self.value}"


@dataclass(frozen=True)
class Form:
    """The form of a tensor. `size`: bytes."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    size: int


def first_names(program: LoadedProgram, text: str) -> Firsts:
    """Return the statements whose gradients are wrong although the gradients that these are computed from are not.

    Where statements depend on each other, the last one of the forward comes first in the backward.
    """
    read_by = reads(text)
    forms = _forms(program, text)
    uses = [Use(name, value) for name, read in read_by.items() for value in sorted(read) if _in_all(value, forms)]
    uses.reverse()
    sizes = {use: sum(call[use.value].size for call in forms) for use in uses}
    unwatched = Unwatched(program)

    def wrong_among(watched: Sequence[Use]) -> set[Use] | None:
        return _differing(_with_zeros(program, text, watched, forms), watched, len(forms), unwatched)

    firsts = first_wrong(uses, _sources(uses, read_by), sizes, wrong_among)
    return Firsts(list(dict.fromkeys(use.statement for use in firsts)))


def _in_all(value: str, forms: Sequence[dict[str, Form]]) -> bool:
    return bool(forms) and all(value in call for call in forms)


def _sources(uses: Sequence[Use], read_by: dict[str, set[str]]) -> dict[Use, set[Use]]:
    """Return for each use those whose gradients its own is computed from: the next uses of what its statement makes."""
    watched = set(uses)
    readers: dict[str, list[str]] = {}
    for name, values in read_by.items():
        for value in values:
            readers.setdefault(value, []).append(name)

    def following(name: str) -> Iterator[Use]:
        for reader in readers.get(name, ()):
            if Use(reader, name) in watched:
                yield Use(reader, name)
            else:
                yield from of_statement[reader]

    of_statement: dict[str, set[Use]] = {}
    for name in reversed(list(read_by)):
        of_statement[name] = set(following(name))
    return {use: of_statement[use.statement] for use in uses}


def _forms(program: LoadedProgram, text: str) -> list[dict[str, Form]]:
    """Return for each call the forms of the values that have a gradient and that nothing writes to."""
    code, forms = instrumented(text, program.namespace["__file__"]), []
    seed(program.recipe)
    for arguments in program.calls():
        seen: dict[str, tuple[torch.Tensor, int]] = {}

        def note(name: str, value: Any, seen: dict[str, tuple[torch.Tensor, int]] = seen) -> None:
            if is_plain(value) and value.requires_grad and value.layout == torch.strided:
                seen[name] = value, value._version

        namespace = {**program.namespace, HOOK: note}
        exec(code, namespace)
        for name, value in zip(program.parameters, arguments):
            note(name, value)
        with program.forward_region():
            namespace["graph"](*arguments)
        forms.append({name: _form(value) for name, (value, version) in seen.items() if value._version == version})
    return forms


def _form(value: torch.Tensor) -> Form:
    return Form(tuple(value.shape), value.dtype, value.device, value.numel() * value.element_size())


def _with_zeros(
    program: LoadedProgram, text: str, uses: Sequence[Use], forms: Sequence[dict[str, Form]]
) -> LoadedProgram:
    """Return `program` with zeros added to the value of each use, and with the usual tolerance."""
    function = graph_of(text)
    function.body = [part for statement in function.body for part in _read_through(statement, set(uses))]
    function.args.args += [ast.arg(use.zeros) for use in uses]
    make_calls, dynamic = program.calls, "mark_dynamic" in text

    def calls() -> list[tuple[Any, ...]]:
        return [
            (*arguments, *(_zeros(form[use.value], dynamic=dynamic) for use in uses))
            for arguments, form in zip(make_calls(), forms)
        ]

    recipe: RecipeData = {**program.recipe, "rtol": None, "atol": None}
    return LoadedProgram({**defined(function, program), "calls": calls}, recipe)


def _read_through(statement: ast.stmt, uses: Collection[Use]) -> Iterator[ast.stmt]:
    """Yield the sums that `statement` is to read in place of values, and then `statement`."""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        sums: set[str] = set()
        for name in [part for part in ast.walk(statement.value) if isinstance(part, ast.Name)]:
            use = Use(statement.targets[0].id, name.id)
            if use in uses:
                sums.add(f"{use.zeros}_sum = {use.value} + {use.zeros}")
                name.id = f"{use.zeros}_sum"
        yield from (ast.parse(line).body[0] for line in sorted(sums))
    yield statement


def _zeros(form: Form, *, dynamic: bool) -> torch.Tensor:
    """Return zeros that need almost no memory, as a leaf with a gradient."""
    zeros = torch.zeros((), dtype=form.dtype, device=form.device).expand(form.shape).detach().requires_grad_()
    if dynamic:
        for dimension in range(zeros.dim()):
            torch._dynamo.maybe_mark_dynamic(zeros, dimension)
    return zeros


def _differing(watched: LoadedProgram, uses: Sequence[Use], calls: int, unwatched: Unwatched) -> set[Use] | None:
    """Return those of `uses` whose gradients differ from eager's, each relative to its usual size.

    What a rounding error in eager changes as much, such as the choice of a ReLU, is no difference.
    None where the other results are not those of the `unwatched` program.
    """
    eager = outputs.run(watched, watched.graph)
    with watched.compiled_autograd():
        compiled = outputs.run(watched, watched.compiled())
    if unwatched.is_unlike(compiled):
        return None
    exact = double_precision.in_double(watched)
    labels = {label: use for use in uses for label in _labels(use, calls)}
    scales = {label: _scale(eager.grads.get(label)) for label in labels}
    nudged = [_scaled(run, scales) for run in rounding.nudged_runs(watched)]
    evidence = compare_outputs.Evidence(None if exact is None else _scaled(exact, scales), nudged)
    tolerance = Tolerance(watched.recipe)
    differences = compare_outputs.differences(_scaled(eager, scales), _scaled(compiled, scales), tolerance, evidence)
    wrong = {each["where"] for each in differences if each["kind"] in OF_CONTENT}
    return {use for label, use in labels.items() if f"grad of {label}" in wrong}


def _labels(use: Use, calls: int) -> list[str]:
    """Return the names of the zeros of `use` in each call (run/outputs.py)."""
    return [use.zeros] if calls == 1 else [f"{use.zeros} (call {number})" for number in range(calls)]


def _scale(gradient: outputs.Leaf | None) -> float:
    """Return the power of two that brings a gradient to about 1, so that it can be compared by the usual tolerance."""
    size = compare_outputs.rms(compare_outputs.wide(gradient.value)) if gradient is not None else 0.0
    return 2.0 ** -math.floor(math.log2(size)) if size > _SMALLEST else 1.0


def _scaled(outcome: outputs.Outcome, scales: dict[str, float]) -> outputs.Outcome:
    """Return the gradients of `outcome`, each multiplied by its scale, in its own dtype."""
    scaled = outputs.Outcome()
    for label, scale in scales.items():
        leaf = outcome.grads.get(label)
        value = None if leaf is None else (compare_outputs.wide(leaf.value) * scale).to(leaf.value.dtype)
        scaled.grads[label] = None if value is None else outputs.Leaf(value)
    return scaled
