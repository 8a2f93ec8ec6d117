"""Verify: does a bundle, a case or a repro.py still fail here, or on other builds, and in the same way?"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from repro_kit.builds.build_source import UnusableError
from repro_kit.builds.interpreters import default_python
from repro_kit.builds.several import BuildChoice, BuildLine, lines_of, newest_nightly, version_of
from repro_kit.case.case import Case
from repro_kit.case.stage_results import RELEASES, BuildsTried
from repro_kit.diagnosis.answers import TriedVariant
from repro_kit.errors import CannotRunError, Exit, ReproKitError, UsageError
from repro_kit.failure.failure import Status
from repro_kit.failure.signature import RunOutcome, Signature, Strength, outcome_of, signature_of
from repro_kit.options.builds import VerifyOptions
from repro_kit.reduce.flaky import NO_RUNS, Tally
from repro_kit.regressions.build import Build
from repro_kit.regressions.lifecycle import ReleaseTable, passes_needed, release_table
from repro_kit.regressions.plan import RATE_RUNS
from repro_kit.regressions.unit import UnitOrder, UnitResult, UnitRules
from repro_kit.repro_run.run_unit import run_unit
from repro_kit.repro_run.running import START_MARGIN, ReproRun, limits_of, run_repro
from repro_kit.repro_run.untrusted import Claim, UntrustedBundle, ask, claim_of, opened
from repro_kit.runner.places import scratch
from repro_kit.serialize import to_data
from repro_kit.session.case_paths import is_case
from repro_kit.ui import Ui
from repro_kit.visible import visible

#: The answer for an outcome, and the exit code; of several outcomes the first in this order decides.
ANSWERS = {
    RunOutcome.INVALID: ("REFUSED", Exit.USAGE),  # no bundle, damaged, hostile, or not to be run
    RunOutcome.FAILS_OTHERWISE: ("OTHER", Exit.FAILED),
    RunOutcome.CANNOT_TELL: ("CANNOT RUN HERE", Exit.CANNOT_RUN),
    RunOutcome.PASSES: ("FIXED", Exit.NOTHING_FAILED),
    RunOutcome.FAILS_ALIKE: ("SAME", Exit.OK),
}


def exit_of(outcome: RunOutcome, expect: str | None) -> Exit:
    """The exit code for `outcome`; with `expect` ("fails" or "passes"), whether that is what happened.

    What could not be run or was refused is neither.
    """
    ends = ANSWERS[outcome][1]
    if expect is None or ends in (Exit.USAGE, Exit.CANNOT_RUN):
        return ends
    return Exit.OK if ends is {"fails": Exit.OK, "passes": Exit.NOTHING_FAILED}[expect] else Exit.FAILED


@dataclass(frozen=True)
class Interpreter:
    """The interpreter that runs `repro.py`."""

    python: str
    torch: str | None
    platform: str
    accelerator: str | None
    problem: str = ""  # why it cannot import torch


@dataclass(frozen=True)
class Verification:
    """The answer and its evidence; `verify --json` prints it."""

    outcome: RunOutcome
    sentence: str
    seconds: float = 0.0
    expected: str | None = None  # signature, in words
    found: str | None = None
    unlike: tuple[str, ...] = field(default=())  # how the two signatures differ, field by field
    differences: tuple[str, ...] = field(default=())  # between the machine of the bundle and this one
    target: str = ""

    @property
    def answer(self) -> str:
        """The outcome in the words of verify."""
        return ANSWERS[self.outcome][0]

    def as_json(self) -> dict[str, Any]:
        """The fields of ``--json``."""
        fields = asdict(self)
        del fields["outcome"]
        return {"answer": self.answer, **fields}


def verify(targets: Sequence[Path], options: VerifyOptions, ui: Ui) -> Exit:
    """Run each target (a bundle, a case, a `repro.py`), and say whether it still fails.

    Untrusted code is shown first, and the user is asked, unless ``ui.yes``. A single target that is none of the
    three, is damaged, or may not be run raises ReproKitError. Of several targets, such a one is a row of the table.
    """
    with newest_nightly(options.python, ui) if options.against_nightly else nullcontext(options.python) as python:
        if len(targets) == 1:
            result = _one(targets[0], python, options, ui)
            ends = exit_of(result.outcome, options.expect)
            ui.result({**result.as_json(), "exit": int(ends)})
            return ends
        results = [_one_of_many(target, python, options, ui) for target in targets]
    rows = [[result.target, result.answer, result.sentence, f"{result.seconds:.1f}"] for result in results]
    ui.table("", ["bundle", "answer", "what was seen", "seconds"], rows)
    codes = {exit_of(result.outcome, options.expect) for result in results}
    worst = next(ends for _, ends in ANSWERS.values() if ends in codes)
    ui.result({"results": [result.as_json() for result in results], "exit": int(worst)})
    return worst


def _one_of_many(target: Path, python: str | None, options: VerifyOptions, ui: Ui) -> Verification:
    try:
        return _one(target, python, options, ui)
    except ReproKitError as error:
        ui.warn(str(error))
        outcome = RunOutcome.CANNOT_TELL if error.exit_code is Exit.CANNOT_RUN else RunOutcome.INVALID
        return Verification(outcome, str(error), target=str(target))


def _one(target: Path, python: str | None, options: VerifyOptions, ui: Ui) -> Verification:
    if not target.exists():
        raise UsageError(f"{target} does not exist; give a bundle, a case or a repro.py.")
    interpreter = python or _python_for(target, ui)
    with opened(target) as bundle:
        claim = claim_of(bundle.whole, target)
        ask(bundle, interpreter, ui)
        with ui.stage("verify"):
            ui.progress(f"running repro.py of {target.name}")
            timeout = options.timeout or (claim.limit or options.usual) + START_MARGIN
            limits = limits_of(options.memory)
            for number in range(claim.repeats):  # one passing run of a flaky failure proves nothing
                if number:
                    ui.progress(f"running repro.py of {target.name}, time {number + 1} of up to {claim.repeats}")
                run = run_repro(interpreter, bundle.directory, timeout=timeout, limits=limits)
                if run.verdict.status is not Status.PASS:
                    break
            result = _judge(run, claim, facts_of(interpreter), str(target))
            ui.done(f"{result.answer}: {result.sentence}")
    for difference in (*result.unlike, *result.differences):
        ui.note(difference)
    if result.outcome is not RunOutcome.FAILS_ALIKE:
        ui.detail(visible(run.output[-4000:]))
    return result


def _python_for(target: Path, ui: Ui) -> str:
    """The interpreter of the user's own case; an untrusted case does not choose its interpreter."""
    here = default_python(os.environ)
    case = Case.open(target) if is_case(target) else None
    if case is None or case.file.subject.python == here:
        return here
    if case.is_own:
        return case.file.subject.python
    ui.note(f"You did not make {target} on this machine, so it runs with {here}, not with {case.file.subject.python}.")
    return here


#: Runs in the interpreter; the last line of its output is JSON.
_LOOK = """
import json, platform, sys
facts = {"python": platform.python_version(), "platform": platform.platform(), "torch": None, "accelerator": None}
try:
    import torch
    facts["torch"] = str(torch.__version__)
    facts["accelerator"] = "cuda" if torch.cuda.is_available() else None
except Exception as error:
    facts["problem"] = f"{type(error).__name__}: {error}"
print(json.dumps(facts))
"""


@cache
def facts_of(python: str) -> Interpreter:
    """The facts about `python` on this machine. Raises CannotRunError if it does not work."""
    with scratch() as directory:
        (directory / "repro.py").write_text(_LOOK, encoding="utf-8")
        run = run_repro(python, directory, timeout=2 * START_MARGIN)
    try:
        line = next(line for line in run.output.splitlines() if line.startswith("{"))
        return Interpreter(**json.loads(line))
    except (StopIteration, ValueError, TypeError):
        raise CannotRunError(f"{python} does not work as a Python interpreter; give --python PATH.") from None


def _judge(run: ReproRun, claim: Claim, here: Interpreter, target: str) -> Verification:
    strength = Strength.REBASED if claim.torch in (None, here.torch) else Strength.CROSS_VERSION
    differences = tuple(map(visible, _differences(claim, here)))
    expected = visible(claim.signature.summary()) if claim.signature else None
    signature = signature_of(run.verdict.failure) if run.verdict.failure else None
    found = visible(signature.summary()) if signature else None
    outcome = outcome_of(run.verdict, claim.signature, strength)
    unlike: tuple[str, ...] = ()
    match outcome:
        case RunOutcome.PASSES:
            often = f" in {claim.repeats} of {claim.repeats} runs" if claim.repeats > 1 else ""
            sentence = f"it passes with torch {here.torch}{often}"
        case RunOutcome.FAILS_ALIKE if claim.signature is None:
            sentence = f"it fails ({run.summary}); a bare repro.py does not say how it should"
        case RunOutcome.FAILS_ALIKE:
            shown = _as_shown(claim.signature, signature)
            sentence = f"it fails with torch {here.torch} as the bundle says: {shown}"
        case RunOutcome.FAILS_OTHERWISE:
            sentence = f"it fails, but differently: {run.summary}"
            unlike = tuple(map(visible, _unlike(claim.signature, signature)))
        case _:
            sentence = here.problem or run.verdict.note
    seconds = round(run.verdict.seconds, 1)
    return Verification(outcome, visible(sentence), seconds, expected, found, unlike, differences, target)


def _as_shown(expected: Signature | None, seen: Signature | None) -> str:
    """`expected` in words, with a difference as large as this run's: the bundle's is that of the whole program."""
    return visible(replace(expected, magnitude=seen.magnitude if seen else 0.0).summary()) if expected else ""


def _unlike(expected: Signature | None, seen: Signature | None) -> Iterator[str]:
    """The fields in which two signatures differ."""
    if expected is None or seen is None:
        return
    mine, others = to_data(expected), to_data(seen)
    for name in dict.fromkeys([*mine, *others]):
        if name != "magnitude" and mine.get(name) != others.get(name):
            yield f"{name}: {_shown(mine.get(name))} expected, {_shown(others.get(name))} found"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return " > ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _differences(claim: Claim, here: Interpreter) -> Iterator[str]:
    for name in ("torch", "python", "accelerator"):
        there, now = getattr(claim, name), getattr(here, name)
        if claim.torch is not None and there != now:
            yield f"{name} here: {now or 'none'}; the bundle was made with {there or 'none'}"


@dataclass(frozen=True)
class TableRequest:
    """The builds, and how the bundle is run and shown."""

    choice: BuildChoice
    timeout: float | None = None  # seconds for one run; None: the bundle's own
    usual: float = 600.0  # seconds for a bundle that asks for none
    memory: float | None = None  # GiB for one run; None: most of the machine's
    markdown: bool = False
    expect: str | None = None


def verify_on_builds(targets: Sequence[Path], request: TableRequest, ui: Ui) -> Exit:
    """Run the bundle on each build, and show the table; the answer of the newest build decides the exit code.

    Untrusted code is shown first, and the user is asked. Raises ReproKitError when nothing can be run.
    """
    if len(targets) != 1:
        raise UsageError("Give one bundle with --on or --releases; `repro-kit farm` runs many bundles on many builds.")
    target = targets[0]
    if not target.exists():
        raise UsageError(f"{target} does not exist; give a bundle, a case or a repro.py.")
    with opened(target) as bundle, scratch() as environments:
        claim = claim_of(bundle.whole, target)
        with ui.stage("builds"):
            lines = lines_of(request.choice, environments)
            ui.done("; ".join(f"{line.name}: {len(line.chosen)} builds" for line in lines))
        try:
            ask(bundle, "each build", ui)
            tables = [(line, _table(line, bundle, claim, request, ui)) for line in lines]
        finally:
            for line in lines:
                line.source.close()
    for line, table in tables:
        if request.markdown:
            ui.print(table.as_markdown())
        else:
            ui.table(f"{target.name}: {line.name}", table.columns, table.rows)
            ui.print(table.sentence)
    _keep(target, claim, [table for _, table in tables])
    newest = max(tables, key=lambda each: version_of(each[0].chosen[-1]))[1].verdicts[-1].outcome
    ends = exit_of(newest, request.expect)
    shown = [{"line": line.name, **table.as_json()} for line, table in tables]
    ui.result({"target": str(target), "answer": ANSWERS[newest][0], "lines": shown, "exit": int(ends)})
    return ends


def _keep(target: Path, claim: Claim, tables: Sequence[ReleaseTable]) -> None:
    """Keep the verdicts in the user's own case, so that a bundle made of it later names them."""
    case = Case.open(target) if is_case(target) else None
    if case is not None and case.is_own and claim.signature is not None:
        rows = [(name, verdict.partition(" ")[2]) for table in tables for name, verdict, *_ in table.rows]
        case.store(RELEASES, BuildsTried(claim.signature, tuple(TriedVariant(*row) for row in rows)))


def _table(line: BuildLine, bundle: UntrustedBundle, claim: Claim, request: TableRequest, ui: Ui) -> ReleaseTable:
    verdicts: list[UnitResult] = []
    for build in line.chosen:
        with ui.stage("verify"):
            ui.progress(f"{line.name} {build.shown}: getting it ready")
            tally = sum((verdict.tally for verdict in verdicts if verdict.fails), NO_RUNS)
            verdicts.append(_verdict(line, build, tally, bundle, claim, request))
            ui.done(f"{line.name} {build.shown}: {ANSWERS[verdicts[-1].outcome][0]}")
    names = {
        build.name: f"{request.choice.package} {build.version}" if build.python else build.shown  # no private path
        for build in line.chosen
    }
    return release_table(verdicts, claim.repeats, names)


def _verdict(
    line: BuildLine, build: Build, tally: Tally, bundle: UntrustedBundle, claim: Claim, request: TableRequest
) -> UnitResult:
    """Run the bundle on one build. A failure that was flaky on earlier builds is run more often."""
    try:
        with line.source.ready(build) as ready:
            order = UnitOrder(
                "",
                line.name,
                build.name,
                0,
                str(bundle.directory),
                ready.python,
                dict(ready.variables),
                request.timeout or (claim.limit or request.usual) + START_MARGIN,
                UnitRules(claim.signature, passes_needed(tally, claim.repeats), 1 if tally.failed else RATE_RUNS),
                request.memory,
            )
            return run_unit(order)
    except UnusableError as error:
        return UnitResult(build.name, RunOutcome.CANNOT_TELL, note=f"it does not install: {error}")
