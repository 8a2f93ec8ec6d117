"""Cells on the user's script, changed from outside by the probe."""

from __future__ import annotations

import shlex
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

from repro_kit.case.case import Case
from repro_kit.case.handles import OBSERVATION
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.overrides import by_hand, overrides, setup_words, slug
from repro_kit.model.failure.failure import Kind, Status, Verdict
from repro_kit.model.failure.failure_nature import Nature
from repro_kit.model.failure.signature import Strength
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.probe.repro_probe.protocol.orders import Measure, Override
from repro_kit.runner.launch import Run
from repro_kit.runner.read_findings import probe_failure, read_findings
from repro_kit.runner.recorded import read_recorded
from repro_kit.runner.subject_start import command
from repro_kit.session.options import AblateOptions
from repro_kit.session.script.script_run import run_overridden
from repro_kit.session.verdicts import eager, failures, symptoms, user_oracle
from repro_kit.session.verdicts.blame import as_wrong_result
from repro_kit.stages.ablate.backend_names import texts
from repro_kit.stages.ablate.cells.base import Cells, interpreter
from repro_kit.trace import summarise
from repro_kit.ui import Ui

_HANG = 120.0  # seconds for a cell of a script that hangs


class Abandoned(Exception):
    """Nobody waits for the cell any more."""


class OnScript(Cells):
    """Cells on the user's own command, changed from outside by the probe."""

    subject = "script"

    def __init__(self, case: Case, options: AblateOptions, ui: Ui, *, infer: bool = False) -> None:
        """`infer`: a backend is not tried where one before it in the ladder fails alike."""
        self.observation = case.load(OBSERVATION)
        self.symptom = symptoms.known(case)
        if self.symptom is not None and self.symptom.timed:
            options = replace(options, jobs=1)  # nothing may run beside what is timed
        # What a backend costs is not in the one that does more: it may cost less.
        self._infer = infer and not (self.symptom and self.symptom.kind in (Kind.SLOWDOWN, Kind.MEMORY))
        self._abandoned = Event()
        super().__init__(case, options, ui)

    def recipe(self) -> Recipe:
        """The script's own settings: those of its first `torch.compile`; Inductor is the default."""
        of_capture = ["capture/record"] if self.case.is_current("capture") else []
        places = ["observe/probe", *of_capture, "observe/eager/probe"]
        for recorded in [one for place in places for one in read_recorded(self.case.path / place)]:
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
        """What the command took when it was observed."""
        return self.observation.seconds

    def _texts(self) -> list[str]:
        return texts(self.case)

    def about(self) -> list[object]:
        """The command, its files, and this torch."""
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
        known = list(done)
        waiting, running = deque(plans), dict[Future[Cell], int]()
        jobs = max(1, self.options.jobs)
        with self.threads(jobs) as pool:
            while waiting or running:
                while waiting and len(running) < jobs:
                    at, it = waiting.popleft()
                    cell = self._inferred(it, known)
                    if cell is None:
                        running[pool.submit(self._one, it)] = at
                        continue
                    known.append(cell)
                    yield at, cell
                ended = wait(running, return_when=FIRST_COMPLETED).done if running else set()
                for future in ended:
                    cell = future.result()
                    known.append(cell)
                    yield running.pop(future), cell

    @contextmanager
    def threads(self, jobs: int) -> Iterator[ThreadPoolExecutor]:
        """Threads that run scripts; where they are left early, the scripts are killed."""
        try:
            with ThreadPoolExecutor(jobs) as pool:
                try:
                    yield pool
                except BaseException:
                    self._abandoned.set()
                    raise
        finally:
            self._abandoned.clear()

    def _tick(self, seconds: float) -> None:
        if self._abandoned.is_set():
            raise Abandoned

    def _inferred(self, it: CellPlan, known: Iterable[Cell]) -> Cell | None:
        """What follows from a known cell, with that one's outcome; the subject's own is always run."""
        if not it.compiled or not it.axes or it.setup:
            return None
        for cell in known:
            if cell.compiled and not cell.inferred and (self._is_static(it, cell) or self._does_more(it, cell)):
                same = replace(self._cell(it, cell.verdict), signature=cell.signature, same=cell.same)
                return replace(same, inferred=cell.name, runs=cell.runs)
        return None

    def _is_static(self, it: CellPlan, cell: Cell) -> bool:
        """Whether dynamic=False leaves nothing to change of `cell`: dynamic=None made no size symbolic there."""
        asked = cell.static and cell.recipe.dynamic is None and it.recipe.dynamic is False
        return asked and cell.recipe.with_(dynamic=False) == it.recipe

    def _does_more(self, it: CellPlan, cell: Cell) -> bool:
        """Whether the backend does all that another one does which fails alike."""
        backend, before = it.recipe.backend, cell.recipe.backend
        if not self._infer or backend not in LADDER or it.recipe.mode is not None or not cell.same:
            return False
        return before in LADDER[: LADDER.index(backend)] and cell.recipe == it.recipe.with_(backend=before)

    def _one(self, it: CellPlan) -> Cell:
        for runs in range(1, self.options.repeat + 1):
            verdict, static = self.run_once(it) if it.compiled or runs == 1 else (self._eager_again(it), False)
            cell = replace(self._cell(it, verdict), runs=runs, static=static)
            if cell.same:
                break
        return cell

    def run_once(self, it: CellPlan) -> tuple[Verdict, bool]:
        """One run of the plan: its verdict, and whether no size became symbolic in it."""
        if not it.compiled and self.observation.eager is None:
            return self._eager_again(it), False
        if not it.compiled:
            return Verdict(self.observation.eager or Status.CANNOT_TELL), False
        env = it.recipe.env if "env" in it.overridden else {}
        place = self.case.path / "ablate" / slug(it.name)
        verdict = self.verdict(overrides(it), place.name, env)
        return verdict, summarise(place / "trace").static

    def _eager_again(self, it: CellPlan) -> Verdict:
        """A run without torch.compile, beside the one that observe may have made."""
        verdict = self.verdict(eager.PROBE, slug(it.name), eager.VARIABLES)
        doubt = eager.doubt(self.case.path / "ablate" / slug(it.name) / "probe")
        return Verdict(Status.CANNOT_TELL, seconds=verdict.seconds, note=doubt) if doubt else verdict

    def _cell(self, it: CellPlan, verdict: Verdict) -> Cell:
        repeat = shlex.join(command(self.case.file.subject))
        changed = overrides(it)
        if not it.compiled:
            repeat = f"TORCH_COMPILE_DISABLE=1 {repeat}"
        elif it.overridden == ("backend",) and it.recipe.backend in LADDER:
            repeat = f"TORCH_BISECT_BACKEND={it.recipe.backend} {repeat}"
        elif changed.keys() - {"setup"}:
            repeat += f"  # with {by_hand(changed)}"
        if "env" in it.overridden:
            repeat = " ".join([*(f"{name}={shlex.quote(value)}" for name, value in it.recipe.env.items()), repeat])
        return self._made(it, verdict, repeat + setup_words(it))

    def verdict(
        self,
        override: Override,
        name: str,
        env: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
        measure: Sequence[Measure] = (),
    ) -> Verdict:
        """Run the script with `torch.compile`'s arguments, settings (`config`) and variables changed from outside.

        `without` names variables of the user's that it does not get, `measure` what to measure beside the symptom.
        What it leaves goes to `ablate/NAME` of the case.
        """
        kind = self.case.file.signature.kind if self.case.file.signature else None
        timeout = min(self.options.timeout, _HANG) if kind == Kind.TIMEOUT else self.options.timeout
        place = self.case.path / "ablate" / name
        shutil.rmtree(place, ignore_errors=True)  # what an earlier run left would be read as this one's
        measured = dict.fromkeys([*(symptoms.probes(self.symptom) if self.symptom else ()), *measure])
        changed: Override = {**override, "measure": list(measured)}
        if self.symptom is not None and self.symptom.kind is Kind.ORACLE:
            verdict = user_oracle.ask(self.case, self.symptom, place, changed, timeout, env, without)
        else:
            ran = run_overridden(
                self.case,
                place,
                changed,
                why=f"a cell on the script: {name}",
                timeout=timeout,
                env=env,
                without=without,
                on_tick=self._tick,
            )
            verdict = self._judged(place, ran)
        failed = probe_failure(place / "probe")
        return Verdict(Status.CANNOT_TELL, seconds=verdict.seconds, note=failed) if failed else verdict

    def _judged(self, place: Path, ran: Run) -> Verdict:
        summary = summarise(place / "trace")
        findings = read_findings(place / "probe")
        found = failures.found_in(place, ran, findings, summary)
        if ran.ok and self.symptom is not None:
            return symptoms.of_run(self.symptom, ran, findings, summary)
        if not found:
            return Verdict(Status.PASS, seconds=ran.seconds)
        if self.observation.eager in (Status.PASS, None):
            found = [as_wrong_result(seen) for seen in found]
        like = [one for one in found if self.target and self.target.matches(one.signature, Strength.REBASED)]
        seen = (like or found)[0]
        if seen.nature is Nature.MACHINE:
            note = f"an error of the machine: {seen.signature.summary()}"
            return Verdict(Status.CANNOT_TELL, seconds=ran.seconds, note=note)
        return Verdict(Status.FAIL, seen.failure, ran.seconds)
