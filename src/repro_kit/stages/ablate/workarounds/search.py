"""Find what makes the script work now: each way out is tried on the script, and its run time measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, cast

from repro_kit.case.case import Case
from repro_kit.case.handles import CAPTURE, OBSERVATION
from repro_kit.model.ablation.cell import Ablation
from repro_kit.model.ablation.evidence import Chain
from repro_kit.model.ablation.workaround import Intrusion, Workaround, ordered, with_baseline
from repro_kit.model.failure.failure import Failure, Measured, Status
from repro_kit.model.failure.signature import signature_of
from repro_kit.model.measure.timing import slowdown
from repro_kit.model.recipe import LADDER
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.model.torch_config import assigned, module_of
from repro_kit.probe.repro_probe.protocol.orders import FunctionData, Measure, Override
from repro_kit.runner.read_findings import read_findings
from repro_kit.session.options import AblateOptions
from repro_kit.session.verdicts.symptoms import override_of
from repro_kit.stages.ablate.cells.script_cells import OnScript
from repro_kit.stages.ablate.workarounds.culprits import UserFunction, suspects
from repro_kit.trace import read
from repro_kit.trace.user_code import UserCode, user_code
from repro_kit.ui import Ui

#: Of each kind, how many are tried until one works.
_MOST_TRIES = {
    Intrusion.DISABLE: 3,
    Intrusion.FRAME: 2,
    Intrusion.CONFIG: 3,
    Intrusion.MODE: 1,
    Intrusion.BACKEND: 2,
    Intrusion.DYNAMIC: 2,
}
_TIMED: tuple[Measure, ...] = ("time",)


def find(case: Case, options: AblateOptions, ui: Ui, ablation: Ablation) -> tuple[Workaround, ...]:
    """What the ablation's cells and flips suggest, and what the failure does; tried, least intrusive first."""
    observation = case.load(OBSERVATION)
    at = case.file.failure_index
    if at >= len(observation.failures):
        return ()
    failure = _with_origins(case, observation.failures[at].failure, ablation.chain)
    trial = _Trial(case, options, ui)
    found = list(trial.of_all(_proposed(case, ablation, failure)))
    compiled = trial.compiled_run() if observation.exit_status == 0 else None
    if observation.eager is Status.PASS:
        found.append(_eager())
    return ordered(with_baseline(found, compiled))


def _with_origins(case: Case, failure: Failure, chain: Chain | None) -> Failure:
    """`failure` with what is known of it by now: the operator and the values of its graph that it is about."""
    capture = case.current(CAPTURE)
    verdict = capture.verdict if capture else None
    alone = (verdict.failure if verdict else None) or failure
    named = [word for link in (chain.links if chain else ()) if link.step == "op" for word in link.culprit.split()]
    ops = [failure.op, alone.op, *(word for word in named if "." in word)]
    return replace(failure, op=next(filter(None, ops), None), origins=(*failure.origins, *alone.origins))


class _Trial:
    """Tries workarounds on the script, one run each, nothing else beside it: it is timed as well."""

    def __init__(self, case: Case, options: AblateOptions, ui: Ui) -> None:
        self.case, self.ui = case, ui
        self.script = OnScript(case, options, ui)
        self.count = 0

    def of_all(self, proposed: Iterator[Workaround]) -> Iterator[Workaround]:
        """Of each kind, until one works."""
        tries: dict[Intrusion, int] = {}
        settled: set[Intrusion] = set()
        for it in proposed:
            if it.intrusion in settled or tries.get(it.intrusion, 0) >= _MOST_TRIES[it.intrusion]:
                continue
            tries[it.intrusion] = tries.get(it.intrusion, 0) + 1
            tried = self.of(it)
            if tried.works:  # with a part of a frame in eager, the whole of it need not be
                settled |= {it.intrusion, Intrusion.FRAME} if it.intrusion is Intrusion.DISABLE else {it.intrusion}
            yield tried

    def of(self, it: Workaround) -> Workaround:
        """`it`, once tried."""
        self.ui.progress(f"trying a workaround: {it.name}")
        name = self._name()
        for _ in range(self.script.options.repeat):
            verdict = self.script.verdict(cast(Override, it.override), name, measure=_TIMED)
            if verdict.status is not Status.PASS:
                break
        if verdict.status is not Status.PASS:
            outcome = verdict.note or (signature_of(verdict.failure).summary() if verdict.failure else "")
            return replace(it, status=verdict.status, outcome=outcome)
        return replace(it, status=verdict.status, to_eager=self._time(name))

    def compiled_run(self) -> Measured | None:
        """The time of the script's compiled calls as they are, as a ratio to eager's; None where they have none."""
        self.ui.progress("timing the compiled calls as they are")
        name = self._name()
        self.script.verdict({}, name, measure=_TIMED)
        return self._time(name)

    def _name(self) -> str:
        self.count += 1
        return f"workaround-{self.count}"

    def _time(self, name: str) -> Measured | None:
        return slowdown(read_findings(self.case.path / "ablate" / name / "probe").compiled)


def _proposed(case: Case, ablation: Ablation, failure: Failure) -> Iterator[Workaround]:
    trace = case.path / "observe" / "trace"
    code = user_code(read(trace)) if trace.is_dir() else UserCode()
    yield from map(_disabled, suspects(failure, code))
    flips = ablation.chain.flips if ablation.chain else ()
    yield from (config(flip.name, flip.value) for flip in flips if not flip.limits)
    passing = [it for it in ablation.cells if it.compiled and it.outcome is RunOutcome.PASSES and not it.no_effect]
    yield from _settings([cell.changed for cell in passing if cell.changed])
    backends = {cell.recipe.backend for cell in passing if set(cell.changed) == {"backend"}}
    yield from map(_backend, sorted(backends & set(LADDER), key=LADDER.index, reverse=True))


def _settings(changes: Sequence[dict[str, Any]]) -> Iterator[Workaround]:
    """Of the cells that pass, those that differ from the script in one setting."""
    single = [next(iter(changed.items())) for changed in changes if len(changed) == 1]
    for name, value in dict.fromkeys((name, value) for name, value in single if "." in name):
        yield config(name, value)
    for kind, wanted in ((Intrusion.MODE, "mode"), (Intrusion.DYNAMIC, "dynamic")):
        for value in dict.fromkeys(value for name, value in single if name == wanted):
            line = f"torch.compile(…, {wanted}={value!r})"
            yield Workaround(f"{wanted}={value!r}", kind, (line,), "where it is compiled", {wanted: value})


def config(name: str, value: Any) -> Workaround:
    """A setting of one of torch's config modules (``inductor.pattern_matcher``)."""
    lines = (f"import {module_of(name)}", assigned(name, value))
    override = dict(override_of({name: value}))
    return Workaround(f"{name}={value!r}", Intrusion.CONFIG, lines, "before anything is compiled", override)


def _backend(name: str) -> Workaround:
    line = f'torch.compile(…, backend="{name}")'
    return Workaround(f"backend {name}", Intrusion.BACKEND, (line,), "where it is compiled", {"backend": name})


def _disabled(it: UserFunction) -> Workaround:
    file = PurePath(it.file).name
    function: FunctionData = {"name": it.name, "file": it.file, "line": it.line}
    lines: tuple[str, ...] = ("@torch.compiler.disable", f"def {it.name}(…):")
    place = f"at {file}:{it.line}"
    if it.whole and it.name != "forward":  # torch.compile looks through the decorator of what it is given
        lines, place = (f"torch.compile({it.name}, disable=True)",), "where it is compiled"
    kind = Intrusion.FRAME if it.whole else Intrusion.DISABLE
    return Workaround(f"leave {it.name} ({file}:{it.line}) to eager", kind, lines, place, {"disable": [function]})


def _eager() -> Workaround:
    """Observed already; its time is what the others' is compared with."""
    return Workaround(
        "no torch.compile",
        Intrusion.EAGER,
        ("TORCH_COMPILE_DISABLE=1",),
        "in the environment",
        status=Status.PASS,
        to_eager=Measured.exact(1.0),
    )
