"""Find workarounds: guess which of the user's functions to leave to eager, try each on the script, and time it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, cast

from repro_kit.case.case import Case
from repro_kit.case.stage_results import CAPTURE, OBSERVATION
from repro_kit.diagnosis.cell import Ablation, CellPlan
from repro_kit.diagnosis.evidence import Chain
from repro_kit.diagnosis.workaround import Intrusion, Workaround, ordered, with_baseline
from repro_kit.failure.compiled_calls import slowdown
from repro_kit.failure.failure import Failure, Measured, Status
from repro_kit.failure.frames import torch_path
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, signature_of
from repro_kit.options.stages import AblateOptions
from repro_kit.probe.repro_probe.protocol.orders import FunctionData, Measure, Override
from repro_kit.recipe import LADDER, assigned, module_of
from repro_kit.runner.read_findings import read_findings
from repro_kit.stages.ablate.cells.script_cells import OnScript
from repro_kit.stages.ablate.matrix import BASELINE
from repro_kit.trace import read
from repro_kit.trace.graph_text import UserCode, user_code
from repro_kit.ui import Ui
from repro_kit.verdicts.symptoms import override_of


@dataclass(frozen=True)
class UserFunction:
    """A function as its code object names it. `whole`: it is a whole frame that torch.compile got, not a part."""

    name: str
    file: str
    line: int
    whole: bool = False


def suspects(failure: Failure, code: UserCode) -> list[UserFunction]:
    """The functions whose compiled code may fail, innermost and likeliest first, then the frames around them."""
    inner = [*_of_breaks(failure, code), *_of_traceback(failure), *_of_graphs(failure, code)]
    frames = _frames(failure, code)
    functions: dict[tuple[str, str, int], UserFunction] = {}
    whole = {(frame.name, frame.file, frame.line) for frame in frames}
    for function in (*inner, *frames):
        key = (function.name, function.file, function.line)
        functions.setdefault(key, UserFunction(*key, whole=key in whole))
    users_own = [function for function in functions.values() if not torch_path(function.file)]
    return sorted(users_own, key=lambda function: function.whole)


def _of_breaks(failure: Failure, code: UserCode) -> Iterator[UserFunction]:
    if failure.kind is Kind.GRAPH_BREAKS:
        for file, line in code.breaks:
            yield from _around(file, line)


def _of_traceback(failure: Failure) -> Iterator[UserFunction]:
    """The functions that the exception messages name, innermost first."""
    for link in reversed(failure.exceptions):
        stated = re.findall(r'^\s*File "(.+)", line (\d+), in ', link.message, re.MULTILINE)
        for file, line in reversed(stated):
            yield from _around(file, int(line))


def _of_graphs(failure: Failure, code: UserCode) -> Iterator[UserFunction]:
    """The functions of the failing graph's statements; those with the operator of the failure come first."""
    if failure.measured is not None:
        return
    origins = [origin for origin in code.origins if failure.compile_id in (None, origin.compile_id)]
    words = [
        re.escape(word.split(".")[1] if "." in word else word) for word in (failure.op or "", *failure.origins) if word
    ]
    named_words = re.compile("|".join(rf"(?<![a-z]){word}(?![a-z])" for word in words)) if words else None
    named = [origin for origin in origins if named_words is not None and named_words.search(origin.statement)]
    for origin in (*named, *reversed(origins)):
        yield from _around(origin.file, origin.line)


def _frames(failure: Failure, code: UserCode) -> list[UserFunction]:
    """The frames that Dynamo compiled: the failing one, or those that recompile most or take longest."""
    frames = [frame for frame in code.frames if failure.compile_id in (None, frame.compile_id)]
    weights: Counter[UserFunction] = Counter()
    for frame in frames:
        weight = 1 if failure.kind is Kind.RECOMPILES else round(frame.seconds * 1e3)
        weights[UserFunction(frame.name, frame.file, frame.first_line)] += weight
    if failure.kind in (Kind.RECOMPILES, Kind.COMPILE_TIME):
        return [frame for frame, _ in weights.most_common()]
    return list(weights)


def _around(file: str, line: int) -> Iterator[UserFunction]:
    """The innermost function definition around a line; nothing if the file cannot be parsed."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    holding = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if holding:
        node = max(holding, key=lambda node: node.lineno)
        yield UserFunction(
            node.name, file, min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        )


#: The most tries of each kind of workaround; a kind ends with the first one that works.
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
    """Try the workarounds that the ablation and the failure suggest; the least intrusive come first."""
    observation = case.load(OBSERVATION)
    at = case.file.failure_index
    if at >= len(observation.failures):
        return ()
    failure = _with_origins(case, observation.failures[at].failure, ablation.chain)
    trial = _Trial(case, options, ui)
    tried = list(trial.of_all(_proposed(case, ablation, failure)))
    compiled = trial.compiled_run() if observation.exit_status == 0 else None
    if trial.passes_in_eager(ablation):
        tried.append(_eager())
    return ordered(with_baseline(tried, compiled))


def _with_origins(case: Case, failure: Failure, chain: Chain | None) -> Failure:
    """`failure` with the operator and the values of its graph that later stages found."""
    capture = case.current(CAPTURE)
    verdict = capture.verdict if capture else None
    alone = (verdict.failure if verdict else None) or failure
    named = [word for link in (chain.links if chain else ()) if link.step == "op" for word in link.culprit.split()]
    ops = [failure.op, alone.op, *(word for word in named if "." in word)]
    return replace(failure, op=next(filter(None, ops), None), origins=(*failure.origins, *alone.origins))


class _Trial:
    """Tries workarounds on the script, one after the other, since each run is timed."""

    def __init__(self, case: Case, options: AblateOptions, ui: Ui) -> None:
        self.case, self.ui = case, ui
        self.script = OnScript(case, options, ui)
        self.count = 0

    def of_all(self, proposed: Iterator[Workaround]) -> Iterator[Workaround]:
        """Try `proposed`, of each kind until one works; yields the results."""
        tries: Counter[Intrusion] = Counter()
        settled: set[Intrusion] = set()
        for workaround in proposed:
            kind = workaround.intrusion
            if kind in settled or tries[kind] >= _MOST_TRIES[kind]:
                continue
            tries[kind] += 1
            result = self.of(workaround)
            if result.works:  # if a part of a frame in eager helps, the whole frame is not tried
                settled |= {kind, Intrusion.FRAME} if kind is Intrusion.DISABLE else {kind}
            yield result

    def of(self, workaround: Workaround) -> Workaround:
        """Try `workaround`; returns it with its status and time."""
        self.ui.progress(f"trying a workaround: {workaround.name}")
        name = self._name()
        for _ in range(self.script.options.repeat):
            verdict = self.script.verdict(cast(Override, workaround.override), name, measure=_TIMED)
            if verdict.status is not Status.PASS:
                break
        if verdict.status is not Status.PASS:
            outcome = verdict.note or (signature_of(verdict.failure).summary() if verdict.failure else "")
            return replace(workaround, status=verdict.status, outcome=outcome)
        return replace(workaround, status=verdict.status, to_eager=self._time(name))

    def compiled_run(self) -> Measured | None:
        """The time of the script's compiled calls, as a ratio to eager's; None if it could not be measured."""
        self.ui.progress("timing the compiled calls without a workaround")
        name = self._name()
        self.script.verdict({}, name, measure=_TIMED)
        return self._time(name)

    def passes_in_eager(self, ablation: Ablation) -> bool:
        """Whether the script passes without torch.compile. It runs only if no earlier run shows that."""
        on_script = (cell for cell in ablation.cells if cell.is_baseline and cell.subject == "script")
        cell = next(on_script, None)
        if cell is not None:
            return cell.outcome is RunOutcome.PASSES
        verdict, _ = self.script.run_once(CellPlan(BASELINE, self.script.recipe(), compiled=False))
        return verdict.status is Status.PASS

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
    passing = [
        cell for cell in ablation.cells if cell.compiled and cell.outcome is RunOutcome.PASSES and not cell.no_effect
    ]
    yield from _settings([cell.changed for cell in passing if cell.changed])
    backends = {cell.recipe.backend for cell in passing if set(cell.changed) == {"backend"}}
    yield from map(_backend, sorted(backends & set(LADDER), key=LADDER.index, reverse=True))


def _settings(changes: Sequence[dict[str, Any]]) -> Iterator[Workaround]:
    """A workaround for each passing cell that differs from the script in a single setting."""
    single = [next(iter(changed.items())) for changed in changes if len(changed) == 1]
    for name, value in dict.fromkeys((name, value) for name, value in single if "." in name):
        yield config(name, value)
    for kind, field_name in ((Intrusion.MODE, "mode"), (Intrusion.DYNAMIC, "dynamic")):
        for value in dict.fromkeys(value for name, value in single if name == field_name):
            line = f"torch.compile(…, {field_name}={value!r})"
            yield Workaround(f"{field_name}={value!r}", kind, (line,), "where it is compiled", {field_name: value})


def config(name: str, value: Any) -> Workaround:
    """The workaround that sets ``inductor.pattern_matcher`` or another setting of torch's config modules."""
    lines = (f"import {module_of(name)}", assigned(name, value))
    override = dict(override_of({name: value}))
    return Workaround(f"{name}={value!r}", Intrusion.CONFIG, lines, "before anything is compiled", override)


def _backend(name: str) -> Workaround:
    line = f'torch.compile(…, backend="{name}")'
    return Workaround(f"backend {name}", Intrusion.BACKEND, (line,), "where it is compiled", {"backend": name})


def _disabled(function: UserFunction) -> Workaround:
    file = PurePath(function.file).name
    disabled: FunctionData = {"name": function.name, "file": function.file, "line": function.line}
    lines: tuple[str, ...] = ("@torch.compiler.disable", f"def {function.name}(…):")
    where = f"at {file}:{function.line}"
    # torch.compile ignores the decorator of the function that it gets.
    if function.whole and function.name != "forward":
        lines, where = (f"torch.compile({function.name}, disable=True)",), "where it is compiled"
    kind = Intrusion.FRAME if function.whole else Intrusion.DISABLE
    return Workaround(
        f"leave {function.name} ({file}:{function.line}) to eager", kind, lines, where, {"disable": [disabled]}
    )


def _eager() -> Workaround:
    """The workaround of not using torch.compile, which was observed to pass; the baseline of the times."""
    return Workaround(
        "no torch.compile",
        Intrusion.EAGER,
        ("TORCH_COMPILE_DISABLE=1",),
        "in the environment",
        status=Status.PASS,
        to_eager=Measured.exact(1.0),
    )
