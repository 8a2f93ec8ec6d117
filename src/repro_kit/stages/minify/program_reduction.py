"""Reduce the captured program to a smaller one that fails alike, and check it in a fresh interpreter."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.artefact.plain import runnable
from repro_kit.case.case import Case
from repro_kit.case.stage_results import Capture
from repro_kit.errors import ReproKitError, StageError
from repro_kit.failure.failure import Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature, Strength, failure_alike, signature_of
from repro_kit.files import link_or_copy, read_text
from repro_kit.graph import Program, parse, render, size
from repro_kit.graph.names import plainly_named, with_plain_names
from repro_kit.graph.placement import swapped
from repro_kit.graph.python_code import joined
from repro_kit.graph.reading.from_runnable import from_runnable
from repro_kit.graph.reducer import minify
from repro_kit.graph.search import measure
from repro_kit.options.stages import MinifyOptions
from repro_kit.probe.repro_probe.protocol.recipe_data import CALLS, ENTRIES, PACKAGED
from repro_kit.recipe import judged_as
from repro_kit.reduce import CannotReduce, Event, Journal, Result
from repro_kit.reduce.reduction import Twin
from repro_kit.reduce.search import Accepted
from repro_kit.runner.compiler import give_probes
from repro_kit.runner.places import scratch, temporary_variables
from repro_kit.runner.program_oracle import Divergence, ProgramOracle
from repro_kit.runner.supervised import launch
from repro_kit.session.oracles import fresh_oracle, fresh_timeout, open_oracle, query_timeout, with_tolerance
from repro_kit.stages.minify.progress import deadline_of_program, events_to, shown
from repro_kit.stages.minify.reducer_oracle import ReducerOracle, until, without_slip
from repro_kit.trace.reader import read
from repro_kit.trace.runnables import artifacts
from repro_kit.ui import Ui


def aten_programs(program: Program, inputs: Path, python: str, kind: Kind, timeout: float) -> Iterator[Program]:
    """The `fx_graph_runnable` artifacts in the trace of a run of `program`; unusable artifacts are left out.

    A backward graph becomes a forward graph. A trace has no values, so floats are random. `inputs`: the directory of
    the stored values. `timeout`: seconds for the run.
    """
    with scratch() as directory:
        (directory / "program.py").write_text(runnable(program), encoding="utf-8")
        (directory / "inputs").symlink_to(inputs.resolve())
        plain = {key: value for key, value in os.environ.items() if not key.startswith("TORCH")}
        give_probes(python, directory / "cache")
        launch(
            [python, str(directory / "program.py")],
            cwd=directory,
            env={
                **plain,
                **temporary_variables(),
                "TORCH_TRACE": str(directory / "trace"),
                "TORCHINDUCTOR_CACHE_DIR": str(directory / "cache"),
            },
            timeout=timeout,
            stdout=directory / "stdout.txt",
            stderr=directory / "stderr.txt",
        )
        runnables = artifacts(read(directory / "trace")) if (directory / "trace").is_dir() else []
    recipe = program.recipe
    for artifact in runnables:
        try:
            aten = from_runnable(artifact.text)
        except ReproKitError:
            continue
        carried = {**judged_as(kind), "threads": recipe.threads, "env": recipe.env, "memory": recipe.memory}
        imports = tuple(dict.fromkeys((*program.imports, *aten.imports)))
        yield aten.with_(
            recipe=aten.recipe.with_(**carried), imports=imports, preamble=joined((aten.preamble, program.preamble))
        )


#: A result, and its failure in a fresh interpreter if it fails alike there.
Reduced = tuple[Result[Program], Failure | None]

_TURNS = 4  # reductions of the code of one set of ranks after that of the others
_CHECKS = 3  # most checks of the result, if it does not fail at once


def reduced(case: Case, options: MinifyOptions, ui: Ui, capture: Capture) -> Reduced:
    """Reduce the captured program; returns the result, and its failure in a fresh interpreter, if it fails alike there.

    The stored values that candidates load are in `minify/inputs`.
    """
    if capture.signature is None or capture.verdict is None or not case.has("capture/program.py"):
        raise StageError("There is no captured program to reduce; run capture first.")
    signature = capture.signature
    program = parse(read_text(case.path / "capture" / "program.py"))
    directory = case.path / "minify"
    _stock_inputs(case.path / "capture" / "inputs", directory / "inputs")
    with ExitStack() as stack:
        deadline = options.deadline or deadline_of_program(signature, capture.verdict.seconds)
        on_event = stack.enter_context(events_to(options.events, shown(ui, "operator")))
        afresh = stack.enter_context(fresh_oracle(case))
        oracle = stack.enter_context(open_oracle(case, options.jobs))
        afresh.prepare(program.recipe)
        limit = query_timeout(case, options, signature.kind)
        limit_afresh = fresh_timeout(case, options, signature.kind)
        work = _Work(oracle, afresh, directory, options, ui, on_event, signature, limit, limit_afresh, deadline)
        seen = Divergence(tuple(wrong.name for wrong in capture.wrong), harmless=capture.harmless)
        found = work.by_inductor(program) or work.reduced(program, signature, capture.verdict, seen=seen)
        found = work.with_peer(*found)
        whole = program.peer is None and program.recipe.backend not in ENTRIES
        if options.border != "dynamo" and capture.border == "dynamo" and whole:
            found = work.at_aten(case, *found)
    return found


@dataclass(frozen=True)
class _Work:
    """What a reduction needs. `timeout` and `timeout_afresh`: seconds for one query, in a fork or a fresh interpreter.

    `signature`: of the captured program. `deadline`: seconds for one reduction.
    """

    oracle: ProgramOracle
    afresh: ProgramOracle
    directory: Path
    options: MinifyOptions
    ui: Ui
    on_event: Callable[[Event], None]
    signature: Signature
    timeout: float
    timeout_afresh: float
    deadline: float

    @property
    def inputs(self) -> Path:
        """The directory of the stored values."""
        return self.directory / "inputs"

    def _asked(self, program: Program) -> tuple[Verdict, Failure | None]:
        """The verdict on `program`, and its failure if that is the one of the captured program."""
        (verdict,) = self.oracle.check([render(program)], self.inputs, timeout=self.timeout)
        return verdict, failure_alike(verdict, self.signature)

    def reduced(
        self,
        program: Program,
        signature: Signature,
        verdict: Verdict,
        journal: str = "journal.jsonl",
        seen: Divergence | None = None,
    ) -> Reduced:
        """Reduce `program`, which fails with `signature` in `verdict`.

        `seen`: where it begins to be wrong; None: nobody has looked for that.
        """
        early = until(verdict, signature, program)
        before = [verdict]
        if early is not None:
            (stopped,) = self.oracle.check([render(program)], self.inputs, timeout=self.timeout, until=early)
            if failure_alike(stopped, signature, Strength.STRICT) is not None:
                before.append(stopped)
            else:  # the failure comes after that step
                early = None
        judge = ReducerOracle(self.oracle, signature, self.inputs, self.timeout, self.ui, early)
        if seen is None or signature.kind is not Kind.ACCURACY:
            seen = judge.hints(program, verdict.failure)
        judge.begins_at(program, seen)

        def begin_check(result: Program) -> None:
            if self.oracle.jobs == 1 or signature.kind.policy.hangs:  # a run beside others would make them slower
                return
            text = render(plainly_named(result, program.graph.params))
            self.afresh.check_ahead(text, self.inputs, timeout=self.timeout_afresh)

        def search() -> Result[Program]:
            return minify(
                program,
                judge,
                hints=seen.names,
                before=[judge.answer(each) for each in before],
                journal=Journal(self.directory / journal, about=judge.about),
                budget=self.options.budget,
                deadline=self.deadline,
                on_event=self.on_event,
                at_result=begin_check,
            )

        result = without_slip(judge, search)
        self.ui.progress("checking the result in a fresh interpreter")
        runs = max(result.repeats, _CHECKS if signature.kind.policy.varies else 1)
        named = with_plain_names(result, program.graph.params)
        for each in (named, result) if named is not result else (result,):  # a message may hold a name
            smallest, failure = verified(self.afresh, each.program, signature, self.inputs, self.timeout_afresh, runs)
            if failure is not None:
                return replace(each, program=smallest), failure
        return result, None

    def with_peer(self, result: Result[Program], failure: Failure | None) -> Reduced:
        """`result`, with the code that the other ranks run reduced in the same way, and each again while that helps."""
        if result.program.peer is None:
            return result, failure
        for turn in range(_TURNS):
            turned = swapped(result.program)
            verdict, alike = self._asked(turned)
            if result.stopped != "fixpoint" or alike is None:
                break
            try:
                second, second_failure = self.reduced(turned, self.signature, verdict, f"journal-peer-{turn}.jsonl")
            except CannotReduce as error:
                self.ui.detail(f"The code of the other ranks stays as it is. {error}")
                break
            if second_failure is None:
                break
            around = (result.neighbours, second.neighbours)
            settled = size(second.program) == size(result.program)
            result, failure = _joined(result, second, turned, "peer"), second_failure
            if settled:
                removals = tuple(removal for each in around for removal in each.removals)
                complete = all(each.complete for each in around)
                return replace(result, neighbours=replace(around[1], removals=removals, complete=complete)), failure
        return replace(result, neighbours=replace(result.neighbours, complete=False)), failure

    def by_inductor(self, program: Program) -> Reduced | None:
        """The result of a program of AOTInductor or precompilation that fails alike under torch.compile, reduced there.

        A query of torch.compile takes a fraction of the time. None if torch.compile does not fail alike, or the reduced
        program does not fail alike by its own way to compile.
        """
        own = program.recipe.backend
        if own not in PACKAGED:
            return None
        self.ui.progress("trying torch.compile, which is faster")
        cheaper = program.with_(recipe=program.recipe.with_(backend="inductor", fullgraph=True))
        verdict, alike = self._asked(cheaper)
        if alike is None:
            return None
        result, _ = self.reduced(cheaper, signature_of(alike), verdict, "journal-inductor.jsonl")
        smallest, failure = verified(
            self.afresh, _by(own, result.program), self.signature, self.inputs, self.timeout_afresh, 1
        )
        if failure is None:
            return None
        twin = self._twin_by(own, result.neighbours.twin)
        number = result.neighbours.number if twin else None
        # torch.compile compiled the other variants.
        neighbours = replace(result.neighbours, twin=twin, number=number, variants=())
        return replace(result, program=smallest, neighbours=neighbours), failure

    def _twin_by(self, entry: str, twin: Twin[Program] | None) -> Twin[Program] | None:
        """A variant that passes under torch.compile, compiled by `entry`; None if that does not pass."""
        if twin is None:
            return None
        self.ui.progress(f"trying the nearest variant that passes with {CALLS[entry]}")
        program = _by(entry, twin.program)
        (verdict,) = self.afresh.check([render(program)], self.inputs, timeout=self.timeout_afresh)
        return replace(twin, program=program) if verdict.status is Status.PASS else None

    def at_aten(self, case: Case, result: Result[Program], failure: Failure | None) -> Reduced:
        """`result`, reduced further as an aten graph, if a graph of Inductor's fails alike and ends smaller.

        With the option ``--border aot``, the aten graph is taken even if it is not smaller.
        """
        python, kind = case.file.subject.python, self.signature.kind
        self.ui.progress("looking for the aten graph that fails")
        for number, aten in enumerate(aten_programs(result.program, self.inputs, python, kind, self.options.timeout)):
            verdict, alike = self._asked(aten)
            if alike is None:
                continue
            try:
                journal = f"journal-aten-{number}.jsonl"
                lower, lower_failure = self.reduced(aten, signature_of(alike), verdict, journal)
            except CannotReduce:
                continue
            smaller = _measured(lower.program) < _measured(result.program)
            if lower_failure and (smaller or self.options.border == "aot"):
                self.ui.note(
                    f"Continuing with the aten graph, reduced from {size(aten)} to {size(lower.program)} operators."
                )
                return _joined(result, lower, aten, "aten_border"), lower_failure
        self.ui.note(
            "No aten graph of the result is smaller and fails alike alone, so the result stays Dynamo's graph."
        )
        return result, failure


def _by(entry: str, program: Program) -> Program:
    """A program of torch.compile, compiled by `entry` (protocol/recipe_data.py)."""
    return program.with_(recipe=program.recipe.with_(backend=entry, fullgraph=False))


def _measured(program: Program) -> tuple[int, ...]:
    return measure(program, {}, render(program))


def _joined(first: Result[Program], second: Result[Program], start: Program, step: str) -> Result[Program]:
    """Two reductions as one: the second starts from `start`, which `step` made of the first result."""
    border = Accepted(step, start, size(start), first.queries, first.seconds)
    later = [
        replace(step, queries=step.queries + first.queries, seconds=step.seconds + first.seconds)
        for step in second.history
    ]
    return replace(
        second,
        statements_before=first.statements_before,
        queries=first.queries + second.queries,
        steps=first.steps + 1 + second.steps,
        seconds=first.seconds + second.seconds,
        history=(*first.history, border, *later),
        others=(*first.others, *second.others),
    )


def _stock_inputs(source: Path, target: Path) -> None:
    """Link (or copy) the captured values to the directory where candidates look for them; delete other values."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in source.glob("*.pt"):
        link_or_copy(file, target / file.name)


def verified(
    oracle: ProgramOracle, program: Program, signature: Signature, inputs: Path, timeout: float, runs: int
) -> tuple[Program, Failure | None]:
    """Check `program` in a fresh interpreter; returns it, with a tolerance if it needs one, and its failure."""
    failure = _fails_afresh(oracle, program, signature, inputs, timeout, runs)
    if failure is None:
        return program, None
    with_stated_tolerance = with_tolerance(program, failure)
    fails_with_tolerance = (
        with_stated_tolerance is program
        or _fails_afresh(oracle, with_stated_tolerance, signature, inputs, timeout, runs) is not None
    )
    return with_stated_tolerance if fails_with_tolerance else program, failure


def _fails_afresh(
    oracle: ProgramOracle, program: Program, signature: Signature, inputs: Path, timeout: float, runs: int
) -> Failure | None:
    """The first failure that is alike, in up to `runs` runs of a fresh interpreter with an empty cache."""
    for _ in range(runs):
        (verdict,) = oracle.check([render(program)], inputs, timeout=timeout)
        failure = failure_alike(verdict, signature)
        if failure is not None:
            return failure
    return None
