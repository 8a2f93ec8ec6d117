"""Cells: a way to compile the subject, and how it is tried, on the captured program or on the user's script."""

from __future__ import annotations

import re
import shlex
import shutil
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Literal

from repro_kit.case import Case
from repro_kit.model.brief import brief
from repro_kit.model.cell import Cell
from repro_kit.model.failure import Kind, Status, Verdict
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.model.results import Capture, Environment, Observation
from repro_kit.model.signature import Signature, Strength, signature_of
from repro_kit.program import Program, parse, render, without_marks
from repro_kit.runner.findings import read_findings
from repro_kit.runner.recorded import read_recorded
from repro_kit.runner.subject import command
from repro_kit.stages import failures, symptoms, user_oracle
from repro_kit.stages.known import Known
from repro_kit.stages.names import texts
from repro_kit.stages.options import Options
from repro_kit.stages.oracle import open_oracle, query_timeout
from repro_kit.stages.overrides import by_hand, overrides, setup_words, slug
from repro_kit.trace import summarise
from repro_kit.ui import Ui

STOPPED = "not run: the layer was known"

_HANG = 120.0  # seconds for a cell of a script that hangs

_CUSTOM = re.compile(r"torch\.library\b|\bcustom_op\b|torch\.ops\.(?!aten\b|prims\b|higher_order\b)\w+\.\w")

Until = Callable[[Sequence[Cell]], bool]


@dataclass(frozen=True)
class Plan:
    """A cell to be run. On a script, only what is `overridden` of the recipe is changed, from outside."""

    name: str
    recipe: Recipe
    compiled: bool = True
    overridden: tuple[str, ...] = ()  # fields of the recipe that differ from the subject's own
    no_effect: str = ""
    axes: Mapping[str, object] = field(default_factory=dict)  # what is changed, as the user calls it
    setup: str = ""  # Python code to run before anything is compiled


def judged(cells: Sequence[Cell], target: Signature | None) -> list[Cell]:
    """`cells` with their failures' signatures, and whether these are the one that is looked for."""
    return [_judged(cell, target) for cell in cells]


def _judged(cell: Cell, target: Signature | None) -> Cell:
    failure = cell.verdict.failure
    signature = cell.signature or (signature_of(failure) if failure is not None else None)
    failed = cell.verdict.status == Status.FAIL and signature is not None and target is not None
    same = bool(failed and target and signature and target.matches(signature, Strength.REBASED))
    return replace(cell, verdict=brief(cell.verdict), signature=signature, same=same)


class Cells(ABC):
    """Runs the cells of a matrix on one subject; what the case's journal knows is not run again."""

    subject: Literal["script", "program"]

    def __init__(self, case: Case, options: Options, ui: Ui, target: Signature | None = None) -> None:
        self.case, self.options, self.ui = case, options, ui
        self.target = target or case.file.signature
        self.known = Known(case.path, [self.subject, *self.about()])

    @abstractmethod
    def recipe(self) -> Recipe:
        """The subject's own."""

    @abstractmethod
    def usual(self) -> float:
        """Seconds that a cell is expected to take."""

    def uses_custom_operators(self) -> bool:
        """Whether the subject's text names operators that are not torch's own, or makes some."""
        return any(_CUSTOM.search(text) for text in self._texts())

    @abstractmethod
    def _texts(self) -> list[str]:
        """The subject's text, as far as it is known."""

    @abstractmethod
    def about(self) -> list[object]:
        """What the cells depend on beside their own recipes."""

    @abstractmethod
    def _cell(self, it: Plan, verdict: Verdict) -> Cell:
        """The cell of a plan that has a verdict."""

    @abstractmethod
    def _run(self, plans: Sequence[tuple[int, Plan]], done: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
        """The cells of `plans`, judged, in any order; `done` are those that are known already."""

    def run(self, plans: Sequence[Plan], until: Until | None = None) -> list[Cell]:
        """The cells of `plans`, in their order; once `until` is true of those there are, the rest is left out."""
        found: dict[int, Cell] = {}
        for at, it in enumerate(plans):
            cell = self.settled(it)
            if cell is not None:
                found[at] = cell
        rest = [(at, it) for at, it in enumerate(plans) if at not in found]
        running = self._run(rest, list(found.values()))
        try:
            for count, (at, cell) in enumerate(running, start=1):
                found[at] = cell
                if not cell.inferred:
                    self.keep(plans[at], cell)
                self.ui.progress(f"{count} of {len(rest)} cells on the {self.subject}: {cell.name}")
                if until is not None and until(list(found.values())):
                    break
        finally:
            if isinstance(running, Iterator) and hasattr(running, "close"):
                running.close()
        left_out = Verdict(Status.SKIPPED, note=STOPPED)
        return [found.get(at) or self._cell(it, left_out) for at, it in enumerate(plans)]

    def settled(self, it: Plan) -> Cell | None:
        """The cell of a plan that need not be run: it changes nothing, or it was judged before."""
        if it.no_effect:
            return self._cell(it, Verdict(Status.SKIPPED))
        cell = self.known.find(self._parts(it))
        return _judged(replace(cell, name=it.name), self.target) if cell else None

    def keep(self, it: Plan, cell: Cell) -> None:
        """Write down that this cell came of the plan."""
        self.known.add(self._parts(it), cell)

    def _parts(self, it: Plan) -> list[object]:
        return [it.recipe, it.compiled, dict(it.axes), it.setup, self.options.repeat]

    def _made(self, it: Plan, verdict: Verdict, repeat: str) -> Cell:
        cell = Cell(
            it.name,
            it.compiled,
            it.recipe,
            verdict,
            no_effect=it.no_effect,
            repeat=repeat,
            subject=self.subject,
            changed=dict(it.axes),
            setup=it.setup,
        )
        return _judged(cell, self.target)


class OnProgram(Cells):
    """Cells on the captured program, through the oracle."""

    subject = "program"

    def __init__(self, case: Case, options: Options, ui: Ui, target: Signature | None = None) -> None:
        self.path = case.path / "capture" / "program.py"
        self.text = self.path.read_text(encoding="utf-8")
        self.program = parse(self.text)
        kind = case.file.signature.kind if case.file.signature else Kind.ACCURACY
        self.timeout = query_timeout(options, kind)
        super().__init__(case, options, ui, target)

    def recipe(self) -> Recipe:
        """The program's own."""
        return self.program.recipe

    def usual(self) -> float:
        """What the program took when it was captured."""
        verdict = self.case.read("capture/capture.json", Capture).verdict
        return verdict.seconds if verdict else 1.0

    def _texts(self) -> list[str]:
        return [self.text]

    def about(self) -> list[object]:
        """The program's text and values, and this torch."""
        inputs = sorted((it.name, it.stat().st_size) for it in (self.path.parent / "inputs").glob("*.pt"))
        return [self.text, inputs, self.timeout, *_torch(self.case)]

    def _run(self, plans: Sequence[tuple[int, Plan]], done: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
        if not plans:
            return
        inputs = self.path.parent / "inputs"
        with open_oracle(self.case, self.options) as oracle:
            for at, it in plans:
                if not it.compiled:
                    (verdict,) = oracle.eager([self._text(it)], inputs, timeout=self.timeout)
                    yield at, self._cell(it, verdict)
            waiting = [(at, it) for at, it in plans if it.compiled]
            for runs in range(1, self.options.repeat + 1):
                texts = [self._text(it) for _, it in waiting]
                again = []
                for (at, it), verdict in zip(waiting, oracle.check(texts, inputs, timeout=self.timeout), strict=True):
                    cell = replace(self._cell(it, verdict), runs=runs)
                    if cell.same or runs == self.options.repeat:
                        yield at, cell
                    else:
                        again.append((at, it))
                waiting = again

    def _text(self, it: Plan) -> str:
        preamble = f"{it.setup}\n{self.program.preamble}" if it.setup else self.program.preamble
        program: Program = replace(self.program, recipe=it.recipe, preamble=preamble)
        return render(without_marks(program) if it.recipe.dynamic is False else program)

    def _cell(self, it: Plan, verdict: Verdict) -> Cell:
        changes = ", ".join(f"{name}={getattr(it.recipe, name)!r}" for name in it.overridden)
        eager = "" if it.compiled else "TORCH_COMPILE_DISABLE=1 "
        repeat = f"{eager}python {self.path}" + (f"  # with {changes} in its RECIPE" if changes else "")
        return self._made(it, verdict, repeat + setup_words(it))


class Abandoned(Exception):
    """Nobody waits for the cell any more."""


class OnScript(Cells):
    """Cells on the user's own command, changed from outside by the probe."""

    subject = "script"

    def __init__(
        self, case: Case, options: Options, ui: Ui, target: Signature | None = None, *, infer: bool = False
    ) -> None:
        """`infer`: a backend is not tried where one before it in the ladder fails alike."""
        self.observation = case.read("observe/run.json", Observation)
        self.symptom = symptoms.known(case)
        if self.symptom is not None and self.symptom.timed:
            options = replace(options, jobs=1)  # nothing may run beside what is timed
        # What a backend costs is not in the one that does more: it may cost less.
        self._infer = infer and not (self.symptom and self.symptom.kind in (Kind.SLOWDOWN, Kind.MEMORY))
        self._abandoned = Event()
        super().__init__(case, options, ui, target)

    def recipe(self) -> Recipe:
        """The script's own settings: those of its first `torch.compile`; Inductor is the default."""
        places = ("capture/record", "observe/eager/probe")
        for recorded in [one for place in places for one in read_recorded(self.case.path / place)]:
            known = recorded.compile_settings()
            if known:
                fullgraph = bool(known.get("fullgraph"))
                return Recipe(
                    backend=known["backend"], mode=known["mode"], dynamic=known["dynamic"], fullgraph=fullgraph
                )
        return Recipe()

    def usual(self) -> float:
        """What the command took when it was observed."""
        return self.observation.seconds

    def _texts(self) -> list[str]:
        return texts(self.case)

    def about(self) -> list[object]:
        """The command, its files, and this torch."""
        from repro_kit.stages.registry import files

        subject = self.case.file.subject
        return [list(command(subject)), subject.cwd, files(self.case), self.target, self.symptom, *_torch(self.case)]

    def _run(self, plans: Sequence[tuple[int, Plan]], done: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
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

    def _inferred(self, it: Plan, known: Iterable[Cell]) -> Cell | None:
        """What follows from a known cell, with that one's outcome; the subject's own is always run."""
        if not it.compiled or not it.axes or it.setup:
            return None
        for cell in known:
            if cell.compiled and not cell.inferred and (self._is_static(it, cell) or self._does_more(it, cell)):
                same = replace(self._cell(it, cell.verdict), signature=cell.signature, same=cell.same)
                return replace(same, inferred=cell.name)
        return None

    def _is_static(self, it: Plan, cell: Cell) -> bool:
        """Whether dynamic=False leaves nothing to change of `cell`: dynamic=None made no size symbolic there."""
        asked = cell.static and cell.recipe.dynamic is None and it.recipe.dynamic is False
        return asked and cell.recipe.with_(dynamic=False) == it.recipe

    def _does_more(self, it: Plan, cell: Cell) -> bool:
        """Whether the backend does all that another one does which fails alike."""
        backend, before = it.recipe.backend, cell.recipe.backend
        if not self._infer or backend not in LADDER or it.recipe.mode is not None or not cell.same:
            return False
        return before in LADDER[: LADDER.index(backend)] and cell.recipe == it.recipe.with_(backend=before)

    def _one(self, it: Plan) -> Cell:
        for runs in range(1, self.options.repeat + 1):
            verdict, static = self._tried(it)
            cell = replace(self._cell(it, verdict), runs=runs, static=static)
            if cell.same:
                break
        return cell

    def _tried(self, it: Plan) -> tuple[Verdict, bool]:
        if not it.compiled:
            return Verdict(self.observation.eager or Status.INFRA), False
        env = it.recipe.env if "env" in it.overridden else {}
        place = self.case.path / "ablate" / slug(it.name)
        verdict = self.verdict(overrides(it), place.name, env)
        return verdict, summarise(place / "trace").static

    def _cell(self, it: Plan, verdict: Verdict) -> Cell:
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
        override: Mapping[str, object],
        name: str,
        env: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
        measure: Sequence[str] = (),
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
        changed = {**override, "measure": list(measured)}
        if self.symptom is not None and self.symptom.kind is Kind.ORACLE:
            return user_oracle.ask(self.case, self.options, self.symptom, place, changed, env, timeout, without)
        ran = symptoms.run_traced(
            self.case, self.options, place, changed, env, timeout, on_tick=self._tick, without=without
        )
        summary = summarise(place / "trace")
        findings = read_findings(place / "probe")
        found = failures.found_in(place, ran, findings, summary)
        if ran.ok and self.symptom is not None:
            return symptoms.of_run(self.symptom, ran, findings, summary)
        if not found:
            return Verdict(Status.PASS, seconds=ran.seconds)
        if self.observation.eager == Status.PASS:
            found = [failures.in_the_light_of_eager(one) for one in found]
        like = [one for one in found if self.target and self.target.matches(one.signature, Strength.REBASED)]
        return Verdict(Status.FAIL, (like or found)[0].failure, ran.seconds)


def _torch(case: Case) -> list[object]:
    env = case.read("env.json", Environment)
    return [case.file.subject.python, env.torch, env.torch_git]
