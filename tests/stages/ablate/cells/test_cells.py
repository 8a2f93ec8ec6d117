"""Cells of a script: which are run, which follow from others, which are known from before. No script is run here."""

import json
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from threading import Event
from time import sleep

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import Environment, Observation
from repro_kit.diagnosis.axes import slug
from repro_kit.diagnosis.cell import CellPlan
from repro_kit.diagnosis.layer import is_decided, name_layer
from repro_kit.failure.failure import ExceptionLink, Failure, Frame, Layer, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.options.stages import AblateOptions
from repro_kit.probe.repro_probe.protocol.findings import EVENTS, finding
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.recipe import LADDER, Recipe
from repro_kit.runner.supervised import Run
from repro_kit.session.oracles import open_oracle, shared_oracles
from repro_kit.stages.ablate import stage
from repro_kit.stages.ablate.cells import script_cells
from repro_kit.stages.ablate.cells.base import STOPPED
from repro_kit.stages.ablate.cells.script_cells import Abandoned, OnReducedScript, OnScript
from repro_kit.stages.ablate.matrix import Matrix
from repro_kit.stages.ablate.stage import deciding_cells
from repro_kit.stages.ablate.table import plan_sentence
from repro_kit.subject.script_run import SubjectRun
from repro_kit.ui import SilentUi, Ui

FRAME = Frame("/env/site-packages/torch/_inductor/lowering.py", 1, "lower")
FAILURE = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("RuntimeError", "no such thing", (FRAME,)),))
OTHER = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("KeyError", "something else altogether", (FRAME,)),))
IN_DYNAMO = Failure(Kind.DYNAMO_ERROR, exceptions=(ExceptionLink("Unsupported", "no such thing", (FRAME,)),))
Behaviour = Callable[[Recipe], Verdict]


class Pretended(OnScript):
    """Its cells behave as `behaviour` says; `asked` are the names of those that were run."""

    behaviour: Behaviour
    static = False

    def run_once(self, it: CellPlan) -> tuple[Verdict, bool]:
        self.asked.append(it.name)
        return (type(self).behaviour(it.recipe) if it.compiled else Verdict(Status.PASS)), self.static


@pytest.fixture
def case(tmp_path: Path) -> Case:
    made = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), str(tmp_path), "python"), "2026-01-01")
    made.update(signature=signature_of(FAILURE))
    made.write(
        "observe/run.json", Observation(("a.py",), 1, None, False, 1.0, 0, "python", "2.13.0", eager=Status.PASS)
    )
    made.write("env.json", Environment("3.11", "python", "linux", "2.13.0"))
    return made


def cells_of(case: Case, behaviour: Behaviour, options: AblateOptions | None = None, **more: bool) -> Pretended:
    kind = type("P", (Pretended,), {"behaviour": staticmethod(behaviour), "static": more.pop("static", False)})
    made: Pretended = kind(case, options or AblateOptions(), SilentUi(), **more)
    made.asked = []
    return made


def from_(first: str) -> Behaviour:
    """Fails alike from this backend of the ladder on."""
    return lambda recipe: (
        Verdict(Status.FAIL, FAILURE) if LADDER.index(recipe.backend) >= LADDER.index(first) else Verdict(Status.PASS)
    )


PLANS = Matrix("quick").cells(Recipe())


def test_cells_share_the_oracle_of_the_stages(case: Case) -> None:
    used = []

    def behaviour(recipe: Recipe) -> Verdict:
        with open_oracle(case) as oracle:
            used.append(oracle)
        return Verdict(Status.PASS)

    with shared_oracles(), open_oracle(case, 2) as oracle:
        cells_of(case, behaviour).run(PLANS)
    assert len(used) > 1 and set(used) == {oracle}


def test_a_cell_that_was_judged_is_not_run_again(case: Case) -> None:
    first = cells_of(case, from_("inductor"))
    before = first.run(PLANS)
    assert first.asked == [it.name for it in PLANS]
    again = cells_of(case, from_("eager"))  # it would behave differently now
    assert again.run(PLANS) == before
    assert again.asked == []


def test_half_a_line_of_the_journal_costs_that_cell_alone(case: Case) -> None:
    cells_of(case, from_("inductor")).run(PLANS)
    journal = case.path / "ablate" / "cells.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    again = cells_of(case, from_("inductor"))
    again.run(PLANS)
    assert again.asked == [PLANS[-1].name]


def test_another_script_is_another_cell(case: Case) -> None:
    script = Path(case.file.subject.cwd) / "a.py"
    script.write_text("1")
    cells_of(case, from_("inductor")).run(PLANS)
    script.write_text("2")
    again = cells_of(case, from_("inductor"))
    again.run(PLANS)
    assert len(again.asked) == len(PLANS)


def test_what_could_not_be_run_is_tried_again(case: Case) -> None:
    cells_of(case, lambda recipe: Verdict(Status.CANNOT_TELL)).run(PLANS)
    again = cells_of(case, from_("inductor"))
    again.run(PLANS)
    assert len(again.asked) == len(PLANS) - 1  # all but plain eager


def test_what_dynamo_raises_is_inferred_for_later_backends_but_the_subjects_own_is_run(case: Case) -> None:
    case.update(signature=signature_of(IN_DYNAMO))
    runner = cells_of(case, lambda recipe: Verdict(Status.FAIL, IN_DYNAMO), infer=True)
    found = {cell.recipe.backend: cell for cell in runner.run(PLANS) if cell.compiled}
    assert {name for name, cell in found.items() if cell.inferred} == {"aot_eager", "aot_eager_decomp_partition"}
    assert runner.asked[-1] == "inductor dynamic=None"


def test_a_ladder_that_is_not_monotone_is_run_whole(case: Case) -> None:
    """AOTAutograd's backend crashes, and Inductor leaves out what crashes it."""
    only = lambda recipe: Verdict(Status.FAIL, FAILURE) if recipe.backend == "aot_eager" else Verdict(Status.PASS)  # noqa: E731
    cells = cells_of(case, only, infer=True).run(Matrix("quick").cells(Recipe(backend="aot_eager")))
    assert not any(cell.inferred for cell in cells)
    found = name_layer(cells, Recipe(backend="aot_eager"))
    assert found.layer is Layer.AOT
    assert found.sentence == (
        "AOTAutograd is at fault: backend 'eager' passes, 'aot_eager' fails, "
        "though 'aot_eager_decomp_partition' and 'inductor' pass."
    )
    deciding = deciding_cells(cells, Recipe(backend="aot_eager"))
    assert [cell.recipe.backend for cell in deciding] == ["eager", "aot_eager"]


def test_another_failure_is_no_ground_to_infer(case: Case) -> None:
    runner = cells_of(case, lambda recipe: Verdict(Status.FAIL, OTHER), infer=True)
    assert not any(cell.inferred or cell.same for cell in runner.run(PLANS))


def test_dynamic_false_follows_where_nothing_was_symbolic(case: Case) -> None:
    plans = Matrix("full").cells(Recipe())[:13]
    runner = cells_of(case, from_("inductor"), static=True)
    found = {cell.name: cell for cell in runner.run(plans)}
    inferred = {name for name, cell in found.items() if cell.inferred}
    assert inferred == {f"{backend} dynamic=False" for backend in LADDER}
    assert found["inductor dynamic=False"].same
    assert found["eager dynamic=False"].verdict.status is Status.PASS
    assert not inferred & set(runner.asked)


def test_it_stops_early_only_when_told_to(case: Case) -> None:
    plans = Matrix("full").cells(Recipe())
    runner = cells_of(case, from_("inductor"))
    found = runner.run(plans, until=lambda cells: is_decided(cells, Recipe()))
    assert len(runner.asked) == 5
    assert {cell.verdict.note for cell in found[5:] if not cell.no_effect} == {STOPPED}


def test_a_failure_that_comes_and_goes_is_waited_for(case: Case) -> None:
    outcomes = iter([Verdict(Status.PASS), Verdict(Status.PASS), Verdict(Status.FAIL, FAILURE)])
    runner = cells_of(case, lambda recipe: next(outcomes), AblateOptions(repeat=5))
    (cell,) = runner.run(PLANS[4:])
    assert (cell.same, cell.runs) == (True, 3)


def test_what_runs_is_killed_when_it_is_left_early(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, killed = Event(), Event()

    def run_overridden(_case: Case, run: SubjectRun, _override: Override) -> Run:
        assert run.on_tick is not None
        run.on_tick(0.0)
        if run.directory.name != hanging or killed.is_set():
            return Run(0, None, False, 1.0, 0)
        hangs.set()
        try:
            while True:
                run.on_tick(0.0)
                sleep(0.01)
        except Abandoned:
            killed.set()
            raise

    def interrupt(_: object) -> bool:
        assert hangs.wait(10)
        raise KeyboardInterrupt

    plans = PLANS[2:4]
    hanging = slug(plans[1].name)
    monkeypatch.setattr(script_cells, "run_overridden", run_overridden)
    runner = OnScript(case, AblateOptions(jobs=2), SilentUi())
    with pytest.raises(KeyboardInterrupt):
        runner.run(plans, until=interrupt)
    assert killed.is_set()
    again = runner.run(plans)  # the runner is not left abandoned
    assert [cell.verdict.status for cell in again] == [Status.PASS, Status.PASS]


def test_a_run_in_which_the_probe_failed_is_no_verdict(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_overridden(_case: Case, run: SubjectRun, _override: Override) -> Run:
        (run.directory / "probe").mkdir(parents=True)
        (run.directory / "probe" / "probe-error-7.txt").write_text("Traceback …\nAttributeError: no such setting\n")
        return Run(0, None, False, 1.0, 0)

    monkeypatch.setattr(script_cells, "run_overridden", run_overridden)
    (cell,) = OnScript(case, AblateOptions(), SilentUi()).run(PLANS[2:3])
    assert (cell.verdict.status, cell.same) == (Status.CANNOT_TELL, False)
    assert cell.verdict.note == "the probe failed: AttributeError: no such setting"


class Noted(SilentUi):
    """Keeps its notes."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_the_time_of_a_flaky_failure_counts_the_runs_of_each_cell(case: Case) -> None:
    plans = [CellPlan(name, Recipe(backend=name)) for name in ("eager", "aot_eager", "inductor")]
    once, often = (cells_of(case, from_("inductor"), AblateOptions(repeat=repeat)) for repeat in (1, 20))
    assert plan_sentence(plans, once) == "3 ways to compile the script: 3 to run, about 3 s."
    told = plan_sentence(plans, often)
    assert told == "3 ways to compile the script: 3 to run, up to 20 times each, about 60 s where none fails."


def test_the_plan_is_told_once_the_failure_is_known_to_be_flaky(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = cycle([Verdict(Status.FAIL, FAILURE), Verdict(Status.PASS)])

    def planned(case: Case, options: AblateOptions, ui: Ui, *, captured: bool) -> stage.Work:
        matrix = Matrix(preset="quick")
        return stage.Work(matrix, Recipe(), matrix.cells(Recipe()), cells_of(case, lambda _: next(verdicts), options))

    monkeypatch.setattr(stage, "planned", planned)
    ui = Noted()
    judged = stage.judge(case, AblateOptions(), ui)
    assert judged.tally.flaky
    (again,) = (note for note in ui.notes if "to run" in note)
    assert "up to" in again and "--repeat N" in again


def test_what_the_script_sets_is_known_from_its_runs_and_its_text(case: Case) -> None:
    script = Path(case.file.subject.cwd) / "a.py"
    script.write_text("import torch\nfreezing = 1\n")
    config = {"inductor.freezing": True, "inductor.use_fast_math": True}
    variables = {"TORCHINDUCTOR_FREEZING": "1"}
    case.write("env.json", Environment("3.11", "python", "linux", "2.13.0", config=config, variables=variables))
    options = {"freezing": True, "assume_aligned_inputs": True}
    settings = {"backend": "inductor", "mode": None, "dynamic": None, "fullgraph": None, "options": options}
    event = {"event": "compile-call", "graph": None, "time": 1.0, "settings": settings}
    events = case.path / "observe" / "probe" / finding(EVENTS, 7, "jsonl")
    events.parent.mkdir(parents=True)
    events.write_text(json.dumps(event) + "\n", encoding="utf-8")
    own = OnScript(case, AblateOptions(), SilentUi()).own_settings()
    assert (own.config, own.options, own.variables) == (config, options, variables)
    assert own.texts == [script.read_text()]
    reduced = object.__new__(OnReducedScript)
    reduced.case, reduced.text = case, script.read_text()
    of_reduced = reduced.own_settings()
    assert (of_reduced.config, of_reduced.options) == ({"inductor.freezing": True}, {"freezing": True})
    assert of_reduced.texts == [reduced.text]
