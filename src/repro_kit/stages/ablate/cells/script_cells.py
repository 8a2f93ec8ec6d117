"""Cells on the user's script, changed from outside by the probe."""

from __future__ import annotations

import shlex
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from threading import Event

from repro_kit.case.case import Case
from repro_kit.case.handles import ENVIRONMENT, OBSERVATION
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.overrides import overrides, repeat_by_hand, slug
from repro_kit.model.failure.failure import Kind, Status, Verdict
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.probe.repro_probe.protocol.orders import Measure, Override
from repro_kit.runner.launch import Run
from repro_kit.runner.read_findings import probe_failure
from repro_kit.runner.recorded import read_recorded
from repro_kit.runner.subject_start import command
from repro_kit.session.options import AblateOptions
from repro_kit.session.script.script_run import SubjectRun, run_overridden
from repro_kit.session.verdicts import eager_run, symptoms, user_oracle
from repro_kit.session.verdicts.deadlock_rule import STUCK, STUCK_AT_END
from repro_kit.session.verdicts.deadlock_watch import DeadlockWatch
from repro_kit.session.verdicts.script_verdict import verdict_of
from repro_kit.stages.ablate.backend_names import texts
from repro_kit.stages.ablate.cells.base import Cells, interpreter
from repro_kit.trace import summarise
from repro_kit.ui import Ui

_HANG = 120.0  # seconds for a cell of a script that hangs


class Abandoned(Exception):
    """Raised in the thread of a cell that nobody waits for any more."""


class OnScript(Cells):
    """Cells on the user's own command, changed from outside by the probe."""

    subject = "script"

    def __init__(self, case: Case, options: AblateOptions, ui: Ui, *, infer: bool = False) -> None:
        """`infer`: a backend is not run if an earlier backend of the ladder fails alike."""
        self.observation = case.load(OBSERVATION)
        self.symptom = symptoms.case_symptom(case)
        if (self.symptom is not None and self.symptom.timed) or case.load(ENVIRONMENT).accelerator:
            # Nothing else may run while a cell is timed, or take the memory of the only device.
            options = replace(options, jobs=1)
        # Costs cannot be inferred: a backend that does more may cost less.
        self._infer = infer and not (self.symptom and self.symptom.kind.policy.in_eager)
        self._abandoned = Event()
        super().__init__(case, options, ui)

    def recipe(self) -> Recipe:
        """The settings of the script's first `torch.compile`; by default, Inductor's."""
        of_capture = ["capture/record"] if self.case.is_current("capture") else []
        directories = ["observe/probe", *of_capture, "observe/eager/probe"]
        for recorded in [process for directory in directories for process in read_recorded(self.case.path / directory)]:
            settings = recorded.compile_settings()
            if settings:
                return Recipe(
                    backend=settings["backend"],
                    mode=settings["mode"],
                    dynamic=settings["dynamic"],
                    fullgraph=bool(settings["fullgraph"]),
                )
        return Recipe()

    def usual(self) -> float:
        """The time of the observed run of the command."""
        return self.observation.seconds

    def texts(self) -> list[str]:
        """The texts of the files that the command names."""
        return texts(self.case)

    def changes_torch(self) -> bool:
        """As in `Cells`; whatever the script imports may do so, too."""
        return True

    def uses_custom_operators(self) -> bool:
        """As in `Cells`; so may these modules define operators."""
        return True

    def about(self) -> list[object]:
        """The command, its files, the expected failure, and this torch."""
        from repro_kit.case.fingerprint import command_files

        subject = self.case.file.subject
        return [
            list(command(subject)),
            subject.cwd,
            command_files(self.case),
            self.target,
            self.symptom,
            *interpreter(self.case),
        ]

    def _run(self, plans: Sequence[tuple[int, CellPlan]], done: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
        cells = list(done)
        waiting, running = deque(plans), dict[Future[Cell], int]()
        jobs = max(1, self.options.jobs)
        with self.threads(jobs) as pool:
            while waiting or running:
                while waiting and len(running) < jobs:
                    at, plan = waiting.popleft()
                    cell = self._inferred(plan, cells)
                    if cell is None:
                        within = copy_context()  # of the shared oracles, too
                        running[pool.submit(within.run, self._one, plan)] = at
                        continue
                    cells.append(cell)
                    yield at, cell
                ended = wait(running, return_when=FIRST_COMPLETED).done if running else set()
                for future in ended:
                    cell = future.result()
                    cells.append(cell)
                    yield running.pop(future), cell

    @contextmanager
    def threads(self, jobs: int) -> Iterator[ThreadPoolExecutor]:
        """Threads that run scripts. Leaving the block with an exception kills the scripts."""
        try:
            with ThreadPoolExecutor(jobs) as pool:
                try:
                    yield pool
                except BaseException:
                    self._abandoned.set()
                    raise
        finally:
            self._abandoned.clear()

    def _inferred(self, plan: CellPlan, cells: Iterable[Cell]) -> Cell | None:
        """The cell of `plan`, if its outcome follows from one of `cells`. The subject's own cell always runs."""
        if not plan.compiled or not plan.axes or plan.setup:
            return None
        for cell in cells:
            if cell.compiled and not cell.inferred and (self._is_static(plan, cell) or self._does_more(plan, cell)):
                same = replace(self._cell(plan, cell.verdict), signature=cell.signature, same=cell.same)
                return replace(same, inferred=cell.name, runs=cell.runs)
        return None

    def _is_static(self, plan: CellPlan, cell: Cell) -> bool:
        """Whether dynamic=False changes nothing in `cell`, since dynamic=None made no size symbolic there."""
        may_be_static = cell.static and cell.recipe.dynamic is None and plan.recipe.dynamic is False
        return may_be_static and cell.recipe.with_(dynamic=False) == plan.recipe

    def _does_more(self, plan: CellPlan, cell: Cell) -> bool:
        """Whether `plan` fails like `cell` since Dynamo raises before it calls any backend.

        Nothing else follows from a weaker backend that fails: a stronger one may leave out what crashes it.
        """
        backend, failure = plan.recipe.backend, cell.verdict.failure
        if not self._infer or backend not in LADDER[1:] or plan.recipe.mode is not None or not cell.same:
            return False
        in_dynamo = failure is not None and failure.kind is Kind.DYNAMO_ERROR
        return in_dynamo and cell.recipe == plan.recipe.with_(backend=LADDER[0])

    def _one(self, plan: CellPlan) -> Cell:
        for runs in range(1, self.options.repeat + 1):
            verdict, static = self.run_once(plan) if plan.compiled or runs == 1 else (self._eager_again(plan), False)
            cell = replace(self._cell(plan, verdict), runs=runs, static=static)
            if cell.same:
                break
        return cell

    def run_once(self, plan: CellPlan) -> tuple[Verdict, bool]:
        """Run the plan once; returns the verdict, and whether no size became symbolic."""
        if not plan.compiled and (plan.setup or self.observation.eager is None):
            return self._eager_again(plan), False
        if not plan.compiled:
            return Verdict(self.observation.eager or Status.CANNOT_TELL), False
        env = plan.recipe.env if "env" in plan.overridden else {}
        directory = self.case.path / "ablate" / slug(plan.name)
        verdict = self.verdict(overrides(plan), directory.name, env)
        return verdict, summarise(directory / "trace").static

    def _eager_again(self, plan: CellPlan) -> Verdict:
        """Run the script once more without torch.compile."""
        changed: Override = {**eager_run.PROBE, "setup": plan.setup} if plan.setup else eager_run.PROBE
        verdict = self.verdict(changed, slug(plan.name), eager_run.VARIABLES)
        doubt = eager_run.doubt(self.case.path / "ablate" / slug(plan.name) / "probe")
        return Verdict(Status.CANNOT_TELL, seconds=verdict.seconds, note=doubt) if doubt else verdict

    def _cell(self, plan: CellPlan, verdict: Verdict) -> Cell:
        command_line = shlex.join(command(self.case.file.subject))
        own_backend = self.recipe().backend if plan.overridden == ("backend",) else ""  # it takes time to read
        return self._made(plan, verdict, repeat_by_hand(command_line, plan, own_backend))

    def verdict(
        self,
        override: Override,
        name: str,
        env: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
        measure: Sequence[Measure] = (),
    ) -> Verdict:
        """Run the script with the arguments of `torch.compile`, settings (`config`) and variables changed.

        `without`: variables of the user's to remove. `measure`: what to measure in addition to the symptom. The files
        of the run go to `ablate/NAME` of the case.
        """
        kind = self.case.file.signature.kind if self.case.file.signature else None
        timeout = min(self.options.timeout, _HANG) if kind and kind.policy.hangs else self.options.timeout
        directory = self.case.path / "ablate" / name
        shutil.rmtree(directory, ignore_errors=True)  # files of an earlier run would be read as files of this run
        measured = dict.fromkeys([*(symptoms.probes(self.symptom) if self.symptom else ()), *measure])
        changed: Override = {**override, "measure": list(measured)}
        if self.symptom is not None and self.symptom.kind is Kind.ORACLE:
            verdict = user_oracle.ask(self.case, self.symptom, directory, changed, timeout, env, without)
        else:
            run = SubjectRun(
                directory,
                why=f"a cell on the script: {name}",
                timeout=timeout,
                env=env or {},
                without=without,
                on_tick=self._watched(directory),
            )
            passes_in_eager = self.observation.eager in (Status.PASS, None)
            ended = self._ended(run, changed)
            verdict = verdict_of(directory, ended, self.symptom, self.target, passes_in_eager=passes_in_eager)
        failed = probe_failure(directory / "probe")
        return Verdict(Status.CANNOT_TELL, seconds=verdict.seconds, note=failed) if failed else verdict

    def _ended(self, run: SubjectRun, changed: Override) -> Run:
        """Run the subject once; its findings, trace and output go to the directory of the run."""
        return run_overridden(self.case, run, changed)

    def _watched(self, directory: Path) -> Callable[[float], None]:
        """A function that looks at a run, and ends it when nobody waits for it or its ranks wait for each other."""
        expected = self.target is not None and self.target.kind is Kind.DEADLOCK
        deadlock = DeadlockWatch(directory / "probe", STUCK_AT_END if expected else STUCK)

        def tick(seconds: float) -> None:
            if self._abandoned.is_set():
                raise Abandoned
            deadlock.look(seconds)

        return tick
