"""The base class of what runs cells, for `program_cells.py` and `script_cells.py`, and the journal of the cells."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import orjson

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ENVIRONMENT
from repro_kit.diagnosis.cell import Cell, CellPlan
from repro_kit.diagnosis.promises import OwnSettings, makes_promises
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.frames import brief
from repro_kit.failure.signature import Signature, Strength, signature_of
from repro_kit.graph.effects import CUSTOM_OPERATOR
from repro_kit.journal import JsonLinesJournal
from repro_kit.options.stages import AblateOptions
from repro_kit.recipe import Recipe
from repro_kit.serialize import from_data, to_data
from repro_kit.ui import Ui

_JOURNAL = "ablate/cells.jsonl"


class CellCache:
    """The cells of one case, by key."""

    def __init__(self, case: Path, about: Iterable[object]) -> None:
        """`about`: everything that the cells depend on, except their recipes."""
        self._about = list(about)
        self._journal = JsonLinesJournal(
            case / _JOURNAL, lambda entry: from_data(entry["cell"], Cell), lambda cell: {"cell": to_data(cell)}
        )

    def find(self, parts: Iterable[object]) -> Cell | None:
        """The cell that was recorded with the same `parts`, which identify the run; None if there is none."""
        return self._journal.get(self._key(parts))

    def add(self, parts: Iterable[object], cell: Cell) -> None:
        """Record `cell`, unless it did not run or has no verdict."""
        if cell.verdict.status not in (Status.CANNOT_TELL, Status.NOT_RUN):
            self._journal.put(self._key(parts), cell)

    def _key(self, parts: Iterable[object]) -> str:
        data = orjson.dumps([to_data(part) for part in (*self._about, *parts)], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(data).hexdigest()[:24]


STOPPED = "not run: the layer was known"

#: A name of what changes torch, or an assignment to an attribute of a module that is no setting.
_CHANGES = re.compile(
    r"lowering|decomp|py_impl|py_kernels|\bLibrary\(|\.impl\(|pattern_matcher|register_replacement|\bsetattr\(|patch\b"
    r"|assume_constant_result|allow_in_graph|substitute_in_graph|nonstrict_trace|guard_filter_fn|skip_guard_eval|_pass\b"
    r"|ignore_logg\w+|reorderable_logging"
    r"|__torch_dispatch__|addaudithook|setrecursionlimit|setrlimit|stack_size|setitimer|\balarm\(|signal\.signal"
    r"|on_compile_(?:start|end)|register_(?:start|end)_callback|\bset(?:profile|trace)\b"
    r"|^\s*(?!self\.)(?!.*\bconfig\.)\w+(?:\.\w+)+(?:\[.*\])?\s*=[^=]",
    re.MULTILINE,
)

Until = Callable[[Sequence[Cell]], bool]


def judged(cell: Cell, target: Signature | None) -> Cell:
    """`cell` with the signature of its failure, and whether that matches the expected signature."""
    failure = cell.verdict.failure
    signature = cell.signature or (signature_of(failure) if failure is not None else None)
    failed = cell.verdict.status == Status.FAIL and signature is not None and target is not None
    same = bool(failed and target and signature and target.matches(signature, Strength.REBASED))
    return replace(cell, verdict=brief(cell.verdict), signature=signature, same=same)


class Cells(ABC):
    """Runs the cells of a matrix on one subject. A cell that is in the journal of the case is not run again."""

    subject: Literal["script", "program"]

    def __init__(self, case: Case, options: AblateOptions, ui: Ui, target: Signature | None = None) -> None:
        self.case, self.options, self.ui = case, options, ui
        self.target = target or case.file.signature
        self.cache = CellCache(case.path, [self.subject, *self.about()])

    @abstractmethod
    def recipe(self) -> Recipe:
        """The recipe of the subject itself."""

    @abstractmethod
    def usual(self) -> float:
        """The expected time of a cell, in seconds."""

    @property
    def is_reduced(self) -> bool:
        """Whether the subject is one that minify has made small."""
        return False

    def changes_torch(self) -> bool:
        """Whether the text of the subject may change torch's tables, operators, functions or passes, or marks some."""
        return any(map(may_change_torch, self.texts()))

    def uses_custom_operators(self) -> bool:
        """Whether the text of the subject may use operators that are not torch's."""
        return any(map(CUSTOM_OPERATOR.search, self.texts()))

    @abstractmethod
    def texts(self) -> list[str]:
        """The texts of the subject, as far as they are known."""

    @abstractmethod
    def own_settings(self) -> OwnSettings:
        """What the subject sets, as far as it is known."""

    @abstractmethod
    def about(self) -> list[object]:
        """Everything that the cells depend on, except their recipes."""

    @abstractmethod
    def _cell(self, plan: CellPlan, verdict: Verdict) -> Cell:
        """The cell for a plan and its verdict."""

    @abstractmethod
    def _run(self, plans: Sequence[tuple[int, CellPlan]], done: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
        """Run the cells of `plans`; yields them in any order. `done`: the cells that are known already."""

    def run(self, plans: Sequence[CellPlan], until: Until | None = None) -> list[Cell]:
        """The cells of `plans`, in order. Once `until` is true for the cells so far, the other cells are not run."""
        cells: dict[int, Cell] = {}
        for number, plan in enumerate(plans):
            cell = self.settled(plan)
            if cell is not None:
                cells[number] = cell
        rest = [(number, plan) for number, plan in enumerate(plans) if number not in cells]
        running = self._run(rest, list(cells.values()))
        try:
            for count, (number, cell) in enumerate(running, start=1):
                cells[number] = cell
                if not cell.inferred:
                    self.keep(plans[number], cell)
                self.ui.progress(f"compiling it in other ways: {count} of {len(rest)} tried")
                if until is not None and until(list(cells.values())):
                    break
        finally:
            if isinstance(running, Iterator) and hasattr(running, "close"):
                running.close()
        left_out = Verdict(Status.NOT_RUN, note=STOPPED)
        return [cells.get(number) or self._cell(plan, left_out) for number, plan in enumerate(plans)]

    def settled(self, plan: CellPlan) -> Cell | None:
        """The cell of a plan that need not run, because the plan has no effect or has run before; else None."""
        if plan.no_effect:
            return self._cell(plan, Verdict(Status.NOT_RUN))
        cell = self.cache.find(self._parts(plan))
        return judged(replace(cell, name=plan.name), self.target) if cell else None

    def keep(self, plan: CellPlan, cell: Cell) -> None:
        """Record `cell` as the result of `plan`."""
        self.cache.add(self._parts(plan), cell)

    def _parts(self, plan: CellPlan) -> list[object]:
        return [plan.recipe, plan.compiled, dict(plan.axes), plan.setup, self.options.repeat]

    def _made(self, plan: CellPlan, verdict: Verdict, repeat: str) -> Cell:
        cell = Cell(
            plan.name,
            plan.compiled,
            plan.recipe,
            verdict,
            no_effect=plan.no_effect,
            repeat=repeat,
            subject=self.subject,
            changed=dict(plan.axes),
            setup=plan.setup,
        )
        return judged(cell, self.target)


def may_change_torch(text: str) -> bool:
    """Whether `text` names what changes torch or a setting that promises something, or assigns to a module."""
    return bool(_CHANGES.search(text)) or makes_promises(text)


def interpreter(case: Case) -> list[object]:
    """What identifies the interpreter and the torch of a case."""
    env = case.load(ENVIRONMENT)
    return [case.file.subject.python, env.torch, env.torch_git]
