"""Cells on the user's script, changed from outside by the probe, and on the script that the reduction made."""

from __future__ import annotations

import shlex
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from copy import copy
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from typing import cast

from repro_kit.bundle.repro.script_repro import HANG
from repro_kit.case.case import Case
from repro_kit.case.stage_results import ENVIRONMENT, OBSERVATION, SOURCE_FAILURE, SOURCE_REDUCTION
from repro_kit.diagnosis.axes import overrides, repeat_by_hand, slug
from repro_kit.diagnosis.cell import Cell, CellPlan
from repro_kit.diagnosis.promises import OwnSettings
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.files import read_text
from repro_kit.options.stages import AblateOptions
from repro_kit.probe.repro_probe.protocol.orders import Measure, Override, ProbeOptions
from repro_kit.probe.repro_probe.protocol.recipe_data import ENTRIES
from repro_kit.recipe import LADDER, Recipe
from repro_kit.runner.program_oracle import script_order
from repro_kit.runner.read_findings import Recorded, probe_failure, read_recorded
from repro_kit.runner.subject_start import command
from repro_kit.runner.supervised import Run
from repro_kit.script import Script
from repro_kit.script.compile_calls import settings
from repro_kit.session.oracles import open_oracle
from repro_kit.stages.ablate.cells.base import Cells, interpreter
from repro_kit.stages.ablate.matrix import texts
from repro_kit.subject.script_run import SubjectRun, run_overridden
from repro_kit.trace import summarise
from repro_kit.ui import Ui
from repro_kit.verdicts import eager_run, symptoms, user_oracle
from repro_kit.verdicts.deadlocks import STUCK, STUCK_AT_END, DeadlockWatch, is_stuck
from repro_kit.verdicts.settle import verdict_of

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
        settings = next(filter(None, (recorded.compile_settings() for recorded in self._recorded())), None)
        if settings is None:
            return Recipe()
        return Recipe(
            backend=settings["backend"],
            mode=settings["mode"],
            dynamic=settings["dynamic"],
            fullgraph=bool(settings["fullgraph"]),
        )

    def _recorded(self) -> Iterator[Recorded]:
        """What was recorded of the processes of the script's runs."""
        of_capture = ["capture/record"] if self.case.is_current("capture") else []
        for directory in ("observe/probe", *of_capture, "observe/eager/probe"):
            yield from read_recorded(self.case.path / directory)

    def own_settings(self) -> OwnSettings:
        """Those that were recorded, and the texts of the files that the command names."""
        environment = self.case.load(ENVIRONMENT)
        events = (event for recorded in self._recorded() for event in recorded.events)
        options = [event.settings["options"] or {} for event in events if event.settings]
        together = {name: value for given in options for name, value in given.items()}
        return OwnSettings(environment.config, together, environment.variables, self.texts())

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
        from repro_kit.case.case import command_files

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
            verdict, static = self.run_once(plan) if plan.compiled or runs == 1 else (self.eager_again(plan), False)
            cell = replace(self._cell(plan, verdict), runs=runs, static=static)
            if cell.same:
                break
        return cell

    def run_once(self, plan: CellPlan) -> tuple[Verdict, bool]:
        """Run the plan once; returns the verdict, and whether no size became symbolic."""
        if not plan.compiled and (plan.setup or "contrast" in plan.axes or self.observation.eager is None):
            return self.eager_again(plan), False
        if not plan.compiled:
            return Verdict(self.observation.eager or Status.CANNOT_TELL), False
        env = plan.recipe.env if "env" in plan.overridden else {}
        directory = self.case.path / "ablate" / slug(plan.name)
        verdict = self.verdict(overrides(plan), directory.name, env)
        return verdict, summarise(directory / "trace").static

    def eager_again(self, plan: CellPlan) -> Verdict:
        """Run the script once more without torch.compile."""
        changed: Override = {**eager_run.PROBE, "setup": plan.setup} if plan.setup else eager_run.PROBE
        verdict = self.verdict(changed, slug(plan.name), eager_run.EAGER_VARIABLES)
        doubt = eager_run.doubt_of_eager_run(self.case.path / "ablate" / slug(plan.name) / "probe")
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
            verdict = user_oracle.ask_user_oracle(self.case, self.symptom, directory, changed, timeout, env, without)
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


#: What the probe can change in a process that has imported torch already, and that writes nothing at its end.
_IN_A_FORK = {"backend", "mode", "dynamic", "fullgraph", "config", "defaults", "setup", "eager", "measure"}


def reduced_script(case: Case) -> Path | None:
    """The reduced script of the case, if it was seen to fail alike in a fresh interpreter and needs torch only."""
    reduction = case.current(SOURCE_REDUCTION)
    signature = case.file.signature
    if reduction is None or not (reduction.verified and reduction.self_contained) or not case.holds(SOURCE_FAILURE):
        return None
    grows = signature is None or signature.kind is Kind.COMPILE_GROWTH
    return None if grows else (case.path / SOURCE_REDUCTION.name).parent / "best.py"


class OnReducedScript(OnScript):
    """Cells on the reduced script: in forks of a process that has imported torch, if a fork shows the same."""

    def __init__(self, case: Case, options: AblateOptions, ui: Ui, script: Path, *, infer: bool = False) -> None:
        self.script, self.text = script.absolute(), read_text(script)
        reduction = case.load(SOURCE_REDUCTION)
        self._ranks, self._fresh = max(1, reduction.ranks), reduction.fresh
        self._one_at_a_time, self._workers = Lock(), options.jobs
        hangs = case.file.signature is not None and case.file.signature.kind.policy.hangs
        timeout = min(options.timeout, HANG) if hangs else options.timeout
        super().__init__(case, replace(options, jobs=1, timeout=timeout), ui, infer=infer)

    def of_text(self, text: str) -> OnReducedScript:
        """Cells on `text`, which is made from the reduced script; the axes of a plan must name the change."""
        other = copy(self)
        other.text = text
        return other

    def recipe(self) -> Recipe:
        """The settings of the first call that compiles, as the reduced script has them."""
        recorded = super().recipe()
        return recorded if recorded.backend in ENTRIES else replace(recorded, **settings(Script(self.text)))

    def usual(self) -> float:
        """The time of a start of an interpreter with torch for each rank, which is most of a cell."""
        return min(super().usual(), 3.0 * self._ranks)

    @property
    def is_reduced(self) -> bool:
        """Always."""
        return True

    def texts(self) -> list[str]:
        """The text of the reduced script."""
        return [self.text]

    def own_settings(self) -> OwnSettings:
        """Those of the script that the reduced one names, too."""
        own, text = super().own_settings(), self.text
        config = {name: value for name, value in own.config.items() if name.rpartition(".")[2] in text}
        return replace(own, config=config, options={name: own.options[name] for name in own.options if name in text})

    def changes_torch(self) -> bool:
        """As in `Cells`: the reduced script is all there is."""
        return Cells.changes_torch(self)

    def uses_custom_operators(self) -> bool:
        """As in `Cells`, likewise."""
        return Cells.uses_custom_operators(self)

    def about(self) -> list[object]:
        """The text of the reduced script, and everything that a cell on the user's script depends on."""
        return [self.text, *super().about()]

    def _ended(self, run: SubjectRun, changed: Override) -> Run:
        forks = not self._fresh and {name for name, value in changed.items() if value} <= _IN_A_FORK
        if forks and not run.without and run.env in ({}, eager_run.EAGER_VARIABLES):
            return self._forked(run, changed)
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(self._ranks)] if self._ranks > 1 else []
        script = run.directory / self.script.name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(self.text, encoding="utf-8")  # which may be another than that of the file
        argv = [self.case.file.subject.python, *launcher, str(script)]
        return super()._ended(replace(run, why="", argv=argv), changed)

    def _forked(self, run: SubjectRun, changed: Override) -> Run:
        run.directory.mkdir(parents=True, exist_ok=True)
        options = cast(ProbeOptions, changed)
        order = script_order(self.text, run.directory, options, env=run.env, ranks=self._ranks)
        with self._one_at_a_time, open_oracle(self.case, self._workers) as oracle:
            stuck = is_stuck if self._ranks > 1 else None
            (ended,) = oracle.run_scripts([order], timeout=run.timeout, is_stuck=stuck)
        return ended
