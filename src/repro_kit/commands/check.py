"""Check: does compiled do what eager does, for each target? What is wrong, and was not before, ends it with exit 1.

A target is observed under a symptom (`--check accuracy`), which is the first stage of `collect`; a failure that the
baseline does not know then goes through the rest of the pipeline.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.case.case import STAGES, Case
from repro_kit.case.stage_results import BUNDLE, ENVIRONMENT, OBSERVATION, ObservedFailure
from repro_kit.commands import check_reports
from repro_kit.commands.check_findings import (
    Comparison,
    Ending,
    Finding,
    Results,
    compare,
    merged,
    read_baseline,
    read_results,
    updated,
    write_baseline,
)
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
from repro_kit.ui import SilentUi, Ui

COMMAND = "repro-kit check"
BASELINE = Path("repro-kit-baseline.toml")
_ACCURACY = "accuracy"
_RUNS = "runs"  # the check of an exported program: a script of repro-kit's compares it with itself
_FUNCTION = re.compile(r"(?P<module>[\w./-]+\.py|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")
_ROUNDING = "the results differ by rounding alone"
_IN = re.compile(r"in (?P<name>.+?)(?: at (?P<file>[^:]+):(?P<line>\d+))?")
#: Each more of these is a new failure: they are counts without noise.
_COUNTED = (Kind.RECOMPILES, Kind.GRAPH_BREAKS)
_FORMS = "module:function, a script, tests/test_x.py::test_y, a .pt2 file, or the .json of an earlier check"

_SCRIPT = '''\
"""Runs {target} compiled, as `repro-kit check` does."""

import sys

sys.path.insert(0, {directory!r})

import torch

torch.manual_seed(0)
from {module} import {name} as target

torch.manual_seed(0)
counters = torch._dynamo.utils.counters["frames"]
compiled_before = sum(counters.values())
made = target()
if isinstance(made, tuple) and made and callable(made[0]):  # a factory: (callable, arguments[, named arguments])
    function, arguments, named = (*made, (), {{}})[:3] if len(made) == 1 else (*made, {{}})[:3]
    arguments = arguments if isinstance(arguments, (tuple, list)) else (arguments,)
else:
    function, arguments, named = target, (), {{}}
    if sum(counters.values()) > compiled_before:
        sys.exit()  # it compiles by itself, and has done so
is_compiled = hasattr(function, "_torchdynamo_orig_callable") or hasattr(function, "_orig_mod")
compiled = function if is_compiled else torch.compile(function)
for _ in range(2):  # a missing guard shows at the second call
    compiled(*arguments, **named)
'''


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


@dataclass(frozen=True)
class Target:
    """A target, as the words that `collect` would get."""

    name: str
    form: str = "script"
    words: tuple[str, ...] = ()
    file: str = ""  # where it is defined, if that is known
    line: int = 0
    script: str = ""  # the text of the script that repro-kit writes for it
    exported: bool = False
    saved: Results | None = None  # it was run before


def check(request: CheckRequest, ui: Ui) -> Exit:
    """Check every target, write the reports, and return whether something is new.

    Raises ReproKitError before anything runs for a target or a baseline that cannot be used.
    """
    targets = [target_of(name) for name in dict.fromkeys(request.targets)]
    path = request.baseline or BASELINE
    is_there = path.is_file()
    if request.baseline is not None and not is_there and not request.update:
        raise UsageError(f"There is no baseline {path}; --update-baseline writes it.")
    known = read_baseline(path) if is_there else []
    taken: set[str] = set()
    results = merged([part for target in targets for part in _results(target, request, taken, ui)])
    found = compare(results, known)
    if request.reduce:
        results = _with_repros(results, found, request, ui)
        found = compare(results, known)
    if request.update:
        write_baseline(path, updated(known, found, results.torch))
    ends = _ends(found, request)
    report = check_reports.Report(results, found, path, request.update, ends)
    check_reports.write(report, request.junit, request.sarif, ui)
    return ends


def _ends(found: Comparison, request: CheckRequest) -> Exit:
    if (found.new and not request.update) or (found.mended and request.strict and not request.update):
        return Exit.FAILED
    return Exit.USAGE if found.unjudged else Exit.OK


def target_of(name: str) -> Target:
    """The target that a word of the command line means. Raises UsageError for what is none."""
    path, function = Path(name), _FUNCTION.fullmatch(name)
    if name.endswith(".json") and path.is_file():
        saved = read_results(path)  # another machine may have made the cases: nothing of them is run
        return Target(name, saved=replace(saved, findings=tuple(replace(each, case="") for each in saved.findings)))
    if name.endswith(".pt2") and path.is_file():
        return Target(name, words=(name,), file=name, exported=True)
    if "::" in name and Path(name.partition("::")[0]).is_file():
        return Target(name, "module", ("pytest", name), name.partition("::")[0])
    if function is not None:
        return _of_function(name, function["module"], function["name"])
    if path.is_file():
        return Target(name, words=(name,), file=name)
    raise UsageError(f"{name} is no target of check: give {_FORMS}.")


def _of_function(target: str, module: str, name: str) -> Target:
    if module.endswith(".py"):
        file = Path(module)
        if not file.is_file():
            raise UsageError(f"There is no file {module}; give {_FORMS}.")
        directory, module = file.absolute().parent, file.stem
    else:
        directory, parts = Path.cwd(), Path(*module.split("."))
        file = next((path for path in (parts.with_suffix(".py"), parts / "__init__.py") if path.is_file()), Path())
    line = _line_of(file, name) if file.is_file() else 0
    script = _SCRIPT.format(target=target, directory=str(directory), module=module, name=name)
    return Target(target, file=str(file) if file.is_file() else "", line=line, script=script)


def _line_of(file: Path, name: str) -> int:
    """The line that defines `name`; 0 if none does."""
    defines = re.compile(rf"\s*(async\s+)?(def|class)\s+{name}\b|{name}\s*=")
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((number for number, line in enumerate(lines, 1) if defines.match(line)), 0)


def _results(target: Target, request: CheckRequest, taken: set[str], ui: Ui) -> Iterator[Results]:
    """The results of one target: one part for each check. `taken`: the names that cases of this run have."""
    if target.saved is not None:
        yield target.saved
        return
    for symptom in (_RUNS,) if target.exported else request.checks:
        about = "" if symptom in (_ACCURACY, _RUNS) else f"-{symptom}"
        stem = re.sub(r"[^\w.]+", "-", f"{target.name}{about}").strip("-.")
        while stem in taken:
            stem += "-"
        taken.add(stem)
        yield _judged(target, symptom, request, request.directory / f"{stem}.repro", ui)


def _judged(target: Target, symptom: str, request: CheckRequest, case_path: Path, ui: Ui) -> Results:
    words = target.words
    if target.script:
        script = case_path.with_suffix(".py")
        case_path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(script, target.script.encode())
        words = (str(script),)
    options = request.options.with_(check=None if symptom == _RUNS else symptom, output=str(case_path))
    asked = Asked(target.form, words, options, {"output"}, request.python, True, COMMAND, ())
    with ui.stage("check"):
        ui.progress(f"{target.name}: {symptom}")
        with open_case(asked, ui) as job:
            findings = _observed(job.case, job.options, target, symptom, ui)
            environment = job.case.load(ENVIRONMENT) if job.case.holds(ENVIRONMENT) else None
        said = f"{target.name}: {findings[0].ending}: {'; '.join(each.words for each in findings)}"
        if findings[0].ending is Ending.AGREES:
            ui.done(said)
        else:
            ui.failed(said)
        if findings[0].ending is not Ending.FAILS:
            shutil.rmtree(case_path, ignore_errors=True)
    if environment is None:
        return Results(tuple(findings), platform=platform.platform())
    return Results(
        tuple(findings), environment.torch, environment.python, environment.platform, environment.accelerator
    )


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
    if ending.exit_code not in (Exit.OK, Exit.NOTHING_FAILED, Exit.ROUNDING):
        noted = [stage.note for stage in case.file.stages if stage.status != "done"]
        return [replace(one, words=_first_line(ending.sentence or "".join(noted[-1:])))]
    failing = _failing(case, one) if ending.exit_code is Exit.OK and case.file.signature is not None else []
    if failing:
        return failing
    if observation is not None and not observation.graphs and not target.exported:
        return [replace(one, words="nothing was compiled: no compiled function was called")]
    words = "nothing failed"
    if ending.exit_code is Exit.ROUNDING:
        words = _ROUNDING
    elif compared:
        words = f"{compared} compiled calls agree with eager" if compared > 1 else "1 compiled call agrees with eager"
    return [replace(one, ending=Ending.AGREES, words=words)]


def _run(case: Case, options: Options, ui: Ui, stage: str) -> StageEnding:
    try:
        return collect(case, options, ui, [stage])
    except ReproKitError as error:
        return StageEnding(error.exit_code, str(error))


def _first_line(sentence: str) -> str:
    return sentence.partition("\n")[0] or "it could not be run"


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
    words = in_words(observed.signature, failure) + (f" (in {name})" if name else "")
    value = failure.measured.value if failure.measured and failure.kind in _COUNTED else 0.0
    return replace(
        one,
        ending=Ending.FAILS,
        words=words,
        signature=observed.signature,
        function=name,
        value=value,
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
        if path.is_relative_to(here) and path.is_file() and path.parent != case.path.resolve().parent:
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
        words=bundle.title or finding.words,
    )
