"""Explain a trace: from a log, a case, or a new run of the script."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from repro_kit.case.case import Case, locked
from repro_kit.commands.explain.suggestion_trials import try_all, why_untried
from repro_kit.errors import Exit, ReproKitError, StageError, UsageError
from repro_kit.explain.advice import suggestions
from repro_kit.explain.sections import advice_section
from repro_kit.explain.sentences import sentences
from repro_kit.explain.suggestion import Suggestion
from repro_kit.explain.trials import Ruling, Trial, Tried
from repro_kit.failure.missing import missing_device
from repro_kit.files import write_atomic
from repro_kit.options.stages import ObserveOptions
from repro_kit.pipeline.run import REGISTRY, Stage, settings_of
from repro_kit.repro_run.trust import agree
from repro_kit.runner.subject_start import command
from repro_kit.runner.supervised import exit_name
from repro_kit.session.explained import Explained, context_of, read_before, read_text
from repro_kit.subject import users_environment
from repro_kit.subject.script_run import SubjectRun, run_subject
from repro_kit.trace import read
from repro_kit.trace.extraction import chrome_trace, extracted, listed
from repro_kit.trace.insights import Insights, gather
from repro_kit.trace.insights.collectives import is_dump
from repro_kit.trace.reader import no_log
from repro_kit.trace.text_log import TextLines
from repro_kit.ui import Ui
from repro_kit.verdicts.not_the_compiler import lacks_device, printed_lack

_RUN = Path("explain") / "run"
_SETTINGS = "settings.txt"  # what the run depended on; the run is stale when this text changes
_STAGE = Stage("explain", __name__, settings=("timeout",))


@dataclass(frozen=True)
class TraceSource:
    """A trace, its name and its case. `state`: the settings and files that the traced run depended on."""

    trace: Path
    name: str
    case: Case | None = None
    state: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the trace is of a run of the user's own."""
        return self.case is not None and self.case.is_own


def source_of_case(case: Case, options: ObserveOptions, ui: Ui, *, as_it_is: bool = False) -> TraceSource:
    """The trace of the case's script.

    The script is run if it has no trace, or changed since; with `as_it_is`, an outdated trace is good enough.
    Raises ReproKitError if nothing was compiled.
    """
    name = " ".join(command(case.file.subject)[1:])
    current = _trace_of(case, options, as_it_is)
    if current is not None:
        return TraceSource(current[0], name, case, current[1])
    agree(case, ui)
    with ui.stage("run"):
        return TraceSource(_run(case, options, ui), name, case, settings_of(_STAGE, case, options))


def insights_of(source: TraceSource) -> Insights:
    """The insights of the trace. Raises ReproKitError if the trace is empty."""
    insights = gather(source.trace)
    if not insights.events and not insights.collectives.ranks:
        if is_dump(source.trace):
            raise UsageError(
                f"{source.trace} is the flight recorder's dump of one rank; give the directory with those of all ranks."
            )
        raise UsageError(_none_understood(source.trace, insights.lines) or no_log(source.trace))
    return insights


def _none_understood(trace: Path, lines: TextLines) -> str:
    if not lines.total:
        return ""
    kinds = f", of kinds that explain does not read ({', '.join(lines.other)})" if lines.other else ""
    first = f"; the first: {lines.first}" if lines.first else ""
    return f"{trace} holds {lines.total} lines of torch, and none says what was compiled{kinds}{first}"


def explain(source: TraceSource, cwd: Path) -> Explained:
    """Explain the trace. Raises ReproKitError if the trace is empty."""
    insights = insights_of(source)
    context = context_of(insights, cwd, own=source.is_own)
    trials = tuple(_untried(suggestion) for suggestion in suggestions(context))
    explained = Explained(source.name, sentences(context, trials), trials, insights, state=source.state)
    if source.case is None:
        return explained
    before = read_before(source.case)
    tried = before.tried if before and before.insights == insights else None
    return _kept(source.case, _with(explained, tried, cwd, own=source.is_own) if tried else explained)


def try_advice(source: TraceSource, case: Case, timeout: float, ui: Ui, cwd: Path) -> Explained:
    """Explain the trace, and run the case's script once with each suggestion."""
    explained = explain(source, cwd)
    suggested = suggestions(context_of(explained.insights, cwd, own=source.is_own))
    with ui.stage("try"):
        tried = try_all(suggested, explained.insights, case, timeout, ui)
        ui.done(advice_section.advice_section(tried.trials).summary)
    return _kept(case, _with(explained, tried, cwd, own=source.is_own))


def _kept(case: Case, explained: Explained) -> Explained:
    with locked(case.path):
        case.write("insights.json", explained)
    return explained


def _untried(suggestion: Suggestion) -> Trial:
    return Trial((suggestion,), Ruling.UNTRIED, why_untried(suggestion))


def _with(explained: Explained, tried: Tried, cwd: Path, *, own: bool) -> Explained:
    retold = sentences(context_of(explained.insights, cwd, own=own), tried.trials)
    return replace(explained, sentences=retold, advice=tried.trials, tried=tried)


def _trace_of(case: Case, options: ObserveOptions, as_it_is: bool) -> tuple[Path, str] | None:
    """The trace of the script's own run and its settings, if `case` has a current one."""
    ours, observed = case.path / _RUN, case.stage("observe")
    places = (
        (ours, read_text(str(ours / _SETTINGS)) or "", _STAGE),
        (case.path / "observe", observed.settings if observed else "", REGISTRY["observe"]),
    )
    for directory, settings, stage in places:
        has_trace = any((directory / "trace").glob("*.log")) if (directory / "trace").is_dir() else False
        if has_trace and (as_it_is or settings == settings_of(stage, case, options)):
            return directory / "trace", settings
    return None


def _run(case: Case, options: ObserveOptions, ui: Ui) -> Path:
    """Run the script once, unchanged, with empty caches."""
    users_environment.check_users_logs()
    directory = case.path / _RUN
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "trace").mkdir(parents=True)
    ui.progress(f"running {case.file.subject}")
    run = SubjectRun(
        directory,
        why="explain: a trace of it as it is",
        timeout=options.timeout,
        env={"TORCH_TRACE": str((directory / "trace").absolute())},
        ui=ui,
    )
    ran = run_subject(case, run)
    lack = None if ran.ok else printed_lack(directory / "stderr.txt")
    if not any((directory / "trace").iterdir()):
        if lack is not None:
            raise ReproKitError(f"{lacks_device(lack)} Its output is in {directory}.", Exit.CANNOT_RUN)
        raise StageError(
            f"Nothing was compiled: {exit_name(ran)} after {ran.seconds:.0f} s; its output is in {directory}."
        )
    users_environment.give_back_users_logs(directory, ui)
    write_atomic(directory / _SETTINGS, settings_of(_STAGE, case, options).encode())
    ui.done(f"{exit_name(ran)} after {ran.seconds:.0f} s")
    if not ran.ok:
        why = f", since this machine lacks {missing_device(lack)}" if lack else ""
        ui.warn(f"The script failed ({exit_name(ran)}){why}. Its output is in {directory}.")
    return directory / "trace"


_HEAD = 3  # pieces of a Chrome trace with at least one event: head, event, tail


@dataclass(frozen=True)
class ArtifactKind:
    """The artifacts of one kind."""

    kind: str
    count: int
    size: int
    compiles: tuple[str, ...]


@dataclass(frozen=True)
class Written:
    """An artifact that was written. `note` says what was repaired in it, or what is wrong with it."""

    path: str
    compile_id: str
    note: str = ""


def kinds_in(trace: Path) -> tuple[ArtifactKind, ...]:
    """The kinds of artifacts in `trace`, in the order of their first occurrence."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    compiles: dict[str, dict[str, None]] = {}
    for info in listed(read(trace)):
        counts[info.kind] += 1
        sizes[info.kind] += info.size
        seen = compiles.setdefault(info.kind, {})
        if info.compile is not None:
            seen.setdefault(str(info.compile))
    return tuple(ArtifactKind(kind, counts[kind], sizes[kind], tuple(compiles[kind])) for kind in compiles)


def write_artifacts(
    trace: Path, kinds: Collection[str], compile_ids: Collection[str], directory: Path
) -> tuple[Written, ...]:
    """Write the artifacts of these kinds and compiles below `directory`.

    Raises ReproKitError if there are none, or a file cannot be written.
    """
    written = []
    for artifact in extracted(read(trace), kinds, compile_ids):
        path = directory / artifact.info.path
        _write(path, [artifact.text.encode("utf-8", "replace")])
        written.append(Written(str(path), str(artifact.info.compile or ""), artifact.note))
    if not written:
        wanted = (" or ".join(kinds) or "artifact") + (f" of {', '.join(compile_ids)}" if compile_ids else "")
        raise UsageError(f"The trace {trace} holds no {wanted}; --list shows what it holds.")
    return tuple(written)


def write_perfetto(trace: Path, file: Path) -> None:
    """Write the phases of all compiles for ui.perfetto.dev.

    Raises ReproKitError if there are none, or the file cannot be written.
    """
    pieces = chrome_trace(read(trace))
    start = [*islice(pieces, _HEAD)]
    if len(start) < _HEAD:
        raise UsageError(f"The trace {trace} records no phases, so there is nothing to show in Perfetto.")
    _write(file, chain(start, pieces))


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(pieces)
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror}.") from error
