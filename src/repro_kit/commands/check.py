"""Check: does compiled do what eager does, for each target? What is wrong, and was not before, ends it with exit 1.

A target is observed under a symptom (`--check accuracy`), which is the first stage of `collect`; a failure that the
baseline does not know then goes through the rest of the pipeline.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.builds.interpreters import find_python
from repro_kit.case.case import STAGES, Case
from repro_kit.case.stage_results import BUNDLE, ENVIRONMENT, OBSERVATION, ObservedFailure
from repro_kit.commands import check_reports
from repro_kit.commands.check_findings import (
    Comparison,
    Ending,
    Finding,
    Known,
    Results,
    accepted,
    beside,
    compare,
    merged,
    read_baseline,
    updated,
    write_baseline,
)
from repro_kit.commands.check_targets import REFUSED, Target, is_own_script, target_of
from repro_kit.commands.intake.open_case import Asked, open_case
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.failure.compiled_calls import validation_lost, wrong_result
from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import in_words, signature_of
from repro_kit.files import read_text, write_atomic
from repro_kit.options.stages import Options
from repro_kit.pipeline.run import StageEnding, collect
from repro_kit.runner.read_findings import read_findings
from repro_kit.stages.bundle.code_places import places_in
from repro_kit.subject.subject_check import check_interpreter
from repro_kit.trace.insights.causes import causes
from repro_kit.ui import SilentUi, Ui

COMMAND = "repro-kit check"
BASELINE = Path("repro-kit-baseline.toml")
_ACCURACY = "accuracy"
_RUNS = "runs"  # the check of an exported program: a script of repro-kit's compares it with itself
_ROUNDING = "the results differ by rounding alone"
_IN = re.compile(r"in (?P<name>.+?)(?: at (?P<file>[^:]+):(?P<line>\d+))?")
_LONGEST = 100  # bytes of the name of a case
#: Each more of these is a new failure: they are counts without noise.
_COUNTED = (Kind.RECOMPILES, Kind.GRAPH_BREAKS)


@dataclass(frozen=True)
class CheckRequest:
    """What is checked, and what is written."""

    targets: tuple[str, ...]
    options: Options
    python: str | None = None
    checks: tuple[str, ...] = (_ACCURACY,)
    baseline: Path | None = None  # None: `BASELINE`, if it is there
    update: bool = False
    strict: bool = False  # a mended failure ends it with exit 1, too
    reduce: bool = True
    directory: Path = Path("repro-kit-check")
    junit: Path | None = None
    sarif: Path | None = None


def check(request: CheckRequest, ui: Ui) -> Exit:
    """Check every target, write the reports, and return whether something is new.

    Raises ReproKitError before anything runs for a target or a baseline that cannot be used.
    """
    try:
        targets, path, known = _asked_for(request)
    except ReproKitError as error:
        check_reports.tell_refusal(str(error), error.exit_code, ui)
        raise
    taken: set[str] = set()
    results = merged([part for target in targets for part in _results(target, request, taken, ui)])
    found = compare(results, known)
    if request.reduce:
        results = _with_repros(results, found, request, ui)
        found = compare(results, known)
    _tidied(results, request.directory)
    if request.update:
        write_baseline(path, updated(known, found, results.torch))
        found = accepted(found, results.torch)
    ends = _ends(found, request)
    notes = beside(results, path) if path.suffix == ".json" else ()
    report = check_reports.Report(results, found, path, request.update, ends, request.strict, notes)
    check_reports.write(report, request.junit, request.sarif, ui)
    return ends


def _asked_for(request: CheckRequest) -> tuple[list[Target], Path, list[Known]]:
    """The targets, and the baseline with its entries. Raises ReproKitError for one that cannot be used."""
    targets = [target_of(name) for name in dict.fromkeys(request.targets)]
    path = request.baseline or BASELINE
    is_there = path.is_file()
    if request.baseline is not None and not is_there and not request.update:
        raise UsageError(f"There is no baseline {path}; --update-baseline writes it.")
    if request.update and path.suffix == ".json":
        raise UsageError(f"{path} holds results; --update-baseline writes a file of its own: --baseline {BASELINE}.")
    if request.update and not path.absolute().parent.is_dir():
        raise UsageError(f"There is no directory {path.parent} for the baseline; make it first.")
    run = [target for target in targets if target.saved is None]
    python = find_python(request.python, Path.cwd(), os.environ) if run else ""
    for module, where in dict.fromkeys((each.module, each.directory) for each in run):
        check_interpreter(python, Path(where or Path.cwd()), os.environ, module=module or None)
    return targets, path, read_baseline(path) if is_there else []


def _ends(found: Comparison, request: CheckRequest) -> Exit:
    if found.new or (found.mended and request.strict and not request.update):
        return Exit.FAILED
    return Exit.USAGE if found.unjudged else Exit.OK


def _results(target: Target, request: CheckRequest, taken: set[str], ui: Ui) -> Iterator[Results]:
    """The results of one target: one part for each check. `taken`: the names that cases of this run have."""
    if target.saved is not None:
        yield target.saved
        return
    for symptom in (_RUNS,) if target.exported else request.checks:
        about = "" if symptom in (_ACCURACY, _RUNS) else f"-{symptom}"
        stem = re.sub(r"[^\w.]+", "-", f"{target.name}{about}").strip("-.")
        if len(stem.encode()) > _LONGEST:  # a test's parameters are part of its name
            stem = f"{stem.encode()[:_LONGEST].decode(errors='ignore')}-{hashlib.sha256(stem.encode()).hexdigest()[:8]}"
        while stem in taken:
            stem += "-"
        taken.add(stem)
        yield _judged(target, symptom, request, request.directory / f"{stem}.repro", ui)


def _judged(target: Target, symptom: str, request: CheckRequest, case_path: Path, ui: Ui) -> Results:
    options = request.options.with_(check=None if symptom == _RUNS else symptom, output=str(case_path))
    environment = None
    with ui.stage("check"):
        ui.progress(f"{target.name}: {symptom}")
        try:
            words = (_written_script(target, case_path),) if target.script else target.words
            asked = Asked(target.form, words, options, {"output"}, request.python, True, COMMAND, ())
            with open_case(asked, ui) as job:
                findings = _observed(job.case, job.options, target, symptom, ui)
                environment = job.case.load(ENVIRONMENT) if job.case.holds(ENVIRONMENT) else None
        except ReproKitError as error:  # of this target alone: a syntax error, or a file that is not trusted
            unknown = Finding(target.name, symptom, Ending.UNKNOWN, "", file=target.file, line=target.line)
            findings = [replace(unknown, words=_first_line(str(error)))]
        said = f"{target.name}: {findings[0].ending}: {'; '.join(each.words for each in findings)}"
        if findings[0].ending is Ending.AGREES:
            ui.done(said)
        else:
            ui.failed(said)
        if findings[0].ending is not Ending.FAILS:
            _remove(case_path)
    if environment is None:
        return Results(tuple(findings), platform=platform.platform())
    return Results(
        tuple(findings), environment.torch, environment.python, environment.platform, environment.accelerator
    )


def _written_script(target: Target, case_path: Path) -> str:
    """Write the script that calls the function of `target`, beside the case. Raises UsageError."""
    script = case_path.with_suffix(".py")
    if script.is_file() and not is_own_script(script):
        raise UsageError(f"{script} is in the way; name another folder for the cases: --output DIR.")
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(script, target.script.encode())
    except OSError as error:
        raise UsageError(f"{script} cannot be written: {error.strerror}.") from error
    return str(script)


def _remove(case_path: Path) -> None:
    """Remove a case that shows no failure, and the script that was written for it."""
    shutil.rmtree(case_path, ignore_errors=True)
    script = case_path.with_suffix(".py")
    if is_own_script(script):
        script.unlink()


def _tidied(results: Results, directory: Path) -> None:
    """Leave nothing of a failure that the reduction has taken back, and no empty folder."""
    failing = {each.case for each in results.findings if each.ending is Ending.FAILS}
    for case in {each.case for each in results.findings} - failing - {""}:
        _remove(Path(case))
    with suppress(OSError):  # it holds something, or was never made
        directory.rmdir()


def _observed(case: Case, options: Options, target: Target, symptom: str, ui: Ui) -> list[Finding]:
    """Observe the case; where no call could be compared with eager, try each graph alone."""
    silent = SilentUi(yes=ui.yes)
    one = Finding(target.name, symptom, Ending.UNKNOWN, "", file=target.file, line=target.line)
    ending = _run(case, options, silent, "observe")
    observation = case.load(OBSERVATION) if case.holds(OBSERVATION) else None
    compared = observation.compared if observation else 0
    is_open = ending.exit_code is Exit.OK and case.file.signature is None  # nothing was compared
    if observation is not None and is_open and not compared and observation.graphs:
        ending = _run(case, options, silent, "capture")
    for note in silent.notes:
        ui.detail(note)
    one = replace(one, seconds=round(sum(stage.seconds for stage in case.file.stages), 1))
    refused = _refused(case) if target.script else ""
    if refused:
        return [replace(one, words=refused)]
    if ending.exit_code not in (Exit.OK, Exit.NOTHING_FAILED, Exit.ROUNDING):
        noted = [stage.note for stage in case.file.stages if stage.status != "done"]
        return [replace(one, words=_first_line(ending.sentence or "".join(noted[-1:])))]
    failing = _failing(case, one) if ending.exit_code is Exit.OK and case.file.signature is not None else []
    if failing:
        return failing
    if observation is not None and not observation.graphs and not target.exported:
        return [replace(one, words="nothing was compiled: no compiled function was called")]
    words = "the compiled program gives the exported one's results" if target.exported else "nothing failed"
    if ending.exit_code is Exit.ROUNDING:
        words = _ROUNDING
    elif compared:
        words = f"{compared} compiled calls agree with eager" if compared > 1 else "1 compiled call agrees with eager"
    calls = read_findings(case.path / "observe" / "probe").compiled if symptom == _ACCURACY else ()
    words = "; ".join([words, *(f"{call.name} {call.problem}" for call in calls if call.problem)])
    return [replace(one, ending=Ending.AGREES, words=words)]


def _run(case: Case, options: Options, ui: Ui, stage: str) -> StageEnding:
    try:
        return collect(case, options, ui, [stage])
    except ReproKitError as error:
        return StageEnding(error.exit_code, str(error))


def _refused(case: Case) -> str:
    """What the script that calls a function says where there is nothing that it can compile."""
    printed = case.path / "observe" / "stderr.txt"
    lines = read_text(printed).splitlines() if printed.is_file() else []
    return next((line.removeprefix(REFUSED) for line in lines if line.startswith(REFUSED)), "")


def _first_line(sentence: str) -> str:
    """The first line of what a stage says; of "it says:", with the last one, which is what is said."""
    lines = sentence.strip().splitlines() or ["it could not be run"]
    return f"{lines[0]} {lines[-1].strip()}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]


def _failing(case: Case, one: Finding) -> list[Finding]:
    """The failure that the case is about, and one for each other compiled function whose calls differ."""
    observation, signature = case.load(OBSERVATION), case.file.signature
    chosen = observation.failures[case.file.failure_index] if observation.failures else None
    assert signature is not None
    own = chosen or ObservedFailure(Failure(signature.kind), signature)
    found = [_finding(replace(own, signature=signature), case, one)]
    is_own_check = signature.kind is Kind.ACCURACY and not found[0].function  # it is about one of the calls
    calls = read_findings(case.path / "observe" / "probe").compiled
    for call in calls if one.check == _ACCURACY and not is_own_check else ():
        failure = wrong_result([call]) or validation_lost([call])
        if failure is not None:
            found.append(_finding(ObservedFailure(failure, signature_of(failure)), case, one))
    return list({each.function: each for each in reversed(found)}.values())[::-1]


def _finding(observed: ObservedFailure, case: Case, one: Finding) -> Finding:
    failure = observed.failure
    function = _IN.fullmatch(failure.text) if failure.difference or failure.kind is Kind.VALIDATION else None
    name = function["name"] if function else ""
    file, line = _place(failure, function, case, one)
    places = " and ".join(observed.signature.places)
    where = f"{places} of {name}" if places and name else f"in {name}" if name else places
    words = in_words(observed.signature, failure) + (f" ({where})" if where else "")
    value = failure.measured.value if failure.measured and failure.kind in _COUNTED else 0.0
    return replace(
        one,
        ending=Ending.FAILS,
        words=words,
        signature=observed.signature,
        function=name,
        value=value,
        causes=tuple(sorted(causes(failure.kind, case.path / "observe" / "trace"))),
        file=file,
        line=line,
        case=str(case.path),
    )


def _place(failure: Failure, function: re.Match[str] | None, case: Case, one: Finding) -> tuple[str, int]:
    """The file and line of the user's that the failure is about, else those that define the target."""
    here = Path.cwd().resolve()
    if function is not None and function["file"]:
        files = [case.file.subject.argv[0], *read_findings(case.path / "observe" / "probe").module_files.values()]
        named = [(file, int(function["line"])) for file in files if Path(file).name == function["file"]]
    else:
        named = list(places_in(failure))
    for file, line in named:
        path = (here / file).resolve()
        is_ours = path.is_relative_to(case.path.resolve()) or is_own_script(path)
        if path.is_relative_to(here) and path.is_file() and not is_ours:
            relative = path.relative_to(here)
            if "site-packages" not in relative.parts:
                return str(relative), line
    return one.file, one.line


def _with_repros(results: Results, found: Comparison, request: CheckRequest, ui: Ui) -> Results:
    """The results with a reduced repro for each new failure; of several in one case, for the one that it is about."""
    done: set[str] = set()
    changed: dict[int, Finding] = {}
    for finding in found.new:
        if not finding.case or not Path(finding.case).is_dir():
            continue
        first = next(each for each in results.findings if each.case == finding.case)
        if finding is not first or finding.case in done:
            why = f"the case is about {first.function or first.words}; when that is mended, check again"
            changed[id(finding)] = replace(finding, no_repro=why)
            continue
        done.add(finding.case)
        changed[id(finding)] = _reduced(finding, request, ui)
    return replace(results, findings=tuple(changed.get(id(each), each) for each in results.findings))


def _reduced(finding: Finding, request: CheckRequest, ui: Ui) -> Finding:
    """Go on with the case of a failure, as `collect` would."""
    ui.print(f"{finding.target} is new: {finding.words}. Reducing it:")
    options = request.options
    asked = Asked("script", (finding.case,), options, (), None, False, COMMAND, ())
    try:
        with open_case(asked, ui) as job:
            ending = collect(job.case, job.options, ui, STAGES)
            bundle = job.case.current(BUNDLE)
    except ReproKitError as error:
        return replace(finding, no_repro=_first_line(str(error)))
    if ending.exit_code is Exit.ROUNDING:
        return replace(finding, ending=Ending.AGREES, words=_ROUNDING, signature=None)
    if bundle is None:
        return replace(finding, no_repro=_first_line(ending.sentence) if ending.sentence else "a stage failed")
    repro = Path(finding.case) / "bundle" / "repro.py"
    return replace(
        finding,
        bundle=bundle.path,
        repro=read_text(repro) if repro.is_file() else "",
        no_repro="" if bundle.verified else f"not verified: {bundle.reason}",
        # The reduced program may show something else than the target does: both are said.
        words=f"{finding.words}; repro.py: {bundle.title}" if bundle.title else finding.words,
    )
