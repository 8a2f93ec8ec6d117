"""Cells on a script that asks whether it is being compiled, with the answer held at one value.

Such a script may do another thing by intent when compiled. With the answer held at False or at True everywhere, both
ways take the same branch, and any difference that is left is the compiler's.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.diagnosis import HELD, HELD_AT_FALSE
from repro_kit.model.ablation.layer import first_failing, name_layer
from repro_kit.model.failure.failure import Layer
from repro_kit.model.recipe import Recipe
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.stages.ablate.cells.reduced_script_cells import OnReducedScript

_COMPILING = frozenset({"is_compiling", "is_dynamo_compiling"})
#: The questions whose answer a layer changes.
_ASKED = {Layer.DYNAMO: _COMPILING, Layer.EXPORT: _COMPILING | {"is_exporting"}}


def held_answers(script: OnReducedScript, cells: Sequence[Cell], recipe: Recipe) -> list[Cell]:
    """The failing cell with the answer held at False and, where that passes, at True.

    There are none where graphs are at fault, which hold no question any more, or where Dynamo raises.
    """
    layer = name_layer(cells, recipe).layer
    failing = first_failing(cells, recipe)
    failure = failing.verdict.failure if failing else None
    asked = _ASKED.get(layer) if layer else None
    if failing is None or failure is None or not failure.kind.policy.compared or not asked:
        return []
    held_cells: list[Cell] = []
    for contrast, answer in HELD.items():
        text = held_at(script.text, asked, answer=answer)
        if text is None:
            return []
        name = f"{failing.recipe.backend} with is_compiling() held at {answer}"
        axes = {**failing.changed, "contrast": contrast}
        plan = CellPlan(name, failing.recipe, overridden=tuple(failing.changed), axes=axes)
        (cell,) = script.of_text(text).run([plan])
        by_hand = f"{cell.repeat}  # with {answer} in place of each torch.compiler.is_compiling()"
        held_cells.append(replace(cell, repeat=by_hand))
        if contrast == HELD_AT_FALSE and held_cells[-1].outcome is not RunOutcome.PASSES:
            break
    return held_cells


def held_at(text: str, asked: frozenset[str], *, answer: bool) -> str | None:
    """`text` with `answer` for every call of torch's functions `asked`; None where there is no such call."""
    tree = ast.parse(text)
    holder = _Holder(_of_torch(tree), asked, answer)
    tree = holder.visit(tree)
    return ast.unparse(tree) + "\n" if holder.count else None


def _of_torch(tree: ast.Module) -> dict[str, str]:
    """The names that an import binds to torch or to a part of it, and what each stands for."""
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    bound[alias.asname or alias.name.partition(".")[0]] = alias.name
            case ast.ImportFrom(module=str(module), names=aliases):
                bound |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in aliases}
    return {name: whole for name, whole in bound.items() if whole.partition(".")[0] == "torch"}


class _Holder(ast.NodeTransformer):
    """Puts the answer in the place of each call, and counts the calls."""

    def __init__(self, of_torch: dict[str, str], asked: frozenset[str], answer: bool) -> None:
        self.of_torch, self.asked, self.answer = of_torch, asked, answer
        self.count = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The answer, if this is a call of one of the functions."""
        root, _, _ = ast.unparse(node.func).partition(".")
        if not self._is_asked(node.func, root):
            return self.generic_visit(node)
        self.count += 1
        return ast.Constant(self.answer)

    def _is_asked(self, called: ast.expr, root: str) -> bool:
        function = called.attr if isinstance(called, ast.Attribute) else self.of_torch.get(root, "").rpartition(".")[2]
        return root in self.of_torch and function in self.asked
