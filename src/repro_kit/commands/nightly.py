"""Run a folder of cases on the newest build, report what has changed, and bisect the changes."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import orjson

from repro_kit.bisect import Build, Mark
from repro_kit.bisect.news import (
    ALARMS,
    SCHEMA,
    TURNS,
    WORDS,
    CaseRun,
    Group,
    LastSeen,
    News,
    NewsEvent,
    NightlyMemory,
    compare,
    grouped,
    remembered,
)
from repro_kit.builds.build_source import Ready, UnusableError
from repro_kit.builds.catalog import BuildSelection, PackageEnds
from repro_kit.builds.interpreters import find_python
from repro_kit.builds.target import Target, target_of
from repro_kit.builds.wheels.install import file_name
from repro_kit.builds.wheels.web import without_credentials
from repro_kit.bundle.pages.templates import render
from repro_kit.case.lock import alone
from repro_kit.commands.bisect.answer import as_markdown, make_report, named_sides
from repro_kit.commands.bisect.bisect_subject import BuildSubject, build_subject
from repro_kit.commands.bisect.classify_build import Rules
from repro_kit.commands.bisect.loop import Bisection, make_directory
from repro_kit.commands.bisect.plan import SearchRequest, plan
from repro_kit.commands.bisect.run_build import BuildRun
from repro_kit.commands.bisect.suspect_commits import with_commits
from repro_kit.errors import CannotRunError, Exit, ReproKitError, UsageError
from repro_kit.files import write_atomic
from repro_kit.model.failure.failure import Failure, Kind
from repro_kit.model.failure.signature import Signature, Strength, signature_of
from repro_kit.model.run_outcome import RunOutcome, outcome_of
from repro_kit.model.serialize import dumps, from_data
from repro_kit.plain_file import read_plain
from repro_kit.session.case_paths import is_case
from repro_kit.ui import Ui

_EXTRA_RUNS = 2  # further runs of a case before its result counts as changed
_MEMORY = "state.json"
_MOST_BYTES = 64 << 20  # size limit of the state file


@dataclass(frozen=True)
class NightlyRequest:
    """The folder of cases, the builds to run them on, and how."""

    folder: Path
    directory: Path  # for the state and the summaries
    selection: BuildSelection
    package: str = "torch"
    build: str | None = None  # the build to run; None: the newest
    python: str | None = None
    timeout: float = 600.0
    bisect: bool = True


@dataclass(frozen=True)
class NightlySummary:
    """The result of one run over the folder."""

    build: Build
    before: str | None  # the build of the run before
    groups: tuple[Group, ...]
    made: str  # when, ISO 8601

    @property
    def alarms(self) -> list[Group]:
        """The groups that a person must look at."""
        return [group for group in self.groups if group.event in ALARMS]

    @property
    def sentence(self) -> str:
        """The run in one sentence."""
        counts = {event: sum(len(group.news) for group in self.groups if group.event is event) for event in NewsEvent}
        parts = [f"{event}: {count}" for event, count in counts.items() if count]
        return f"{self.build.shown}; {', '.join(parts)}."


def nightly(request: NightlyRequest, ui: Ui) -> Exit:
    """Run the folder's cases on the newest build, write the summaries, and return FAILED when a case newly fails.

    Raises ReproKitError when there is nothing to run, or the build cannot be installed.
    """
    names = list(subjects_in(request.folder))
    if not names:
        raise UsageError(f"{request.folder} holds no case, bundle or unpacked bundle.")
    question = f"Run the repro.py of these {len(names)} on each new build, with your rights: {', '.join(names)}?"
    if not ui.confirm(question):
        raise UsageError("Nothing was run; give --yes if you trust the contents of the folder.")
    make_directory(request.directory)
    with alone(request.directory), ExitStack() as stack:
        memory = read_memory(request.directory)
        subjects, damaged = _opened(names, request, stack, ui)
        target = target_of(find_python(request.python, Path.cwd(), os.environ))
        build, runs = _run_all(request, subjects, target, memory, ui)
        runs += damaged
        groups = grouped(compare(memory, runs))
        if request.bisect:
            groups = [_bisected(group, build, subjects, request, target, ui) for group in groups]
        made = datetime.now(UTC).isoformat(timespec="minutes")
        summary = NightlySummary(build, memory.build, tuple(groups), made)
        _write(summary, request.directory)
        write_atomic(request.directory / _MEMORY, dumps(remembered(memory, runs, build.name)))
    _show(summary, request, ui)
    return Exit.FAILED if summary.alarms else Exit.OK


def subjects_in(folder: Path) -> Iterator[str]:
    """Yield the cases with a bundle, the bundles and the unpacked bundles in `folder`.

    The bundle archive of a case that is in the folder is left out.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a directory; give one that holds cases or bundles.")
    for path in sorted(folder.iterdir()):
        unpacked = any((path / name).is_file() for name in ("repro.py", "bundle/repro.py"))
        if unpacked or (path.suffix == ".zip" and not is_case(path.with_suffix(""))):
            yield path.name


def read_memory(directory: Path) -> NightlyMemory:
    """Read the state that earlier runs saved in `directory`. Raises ReproKitError when it cannot be read."""
    path = directory / _MEMORY
    try:
        data = orjson.loads(read_plain(path, _MOST_BYTES))
        if data.get("schema", SCHEMA) > SCHEMA:
            raise UsageError(f"{path} was written by a newer repro-kit; upgrade.")
        return from_data(data, NightlyMemory)
    except FileNotFoundError:
        return NightlyMemory()
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is damaged; remove it to start anew.") from error


def _opened(
    names: Sequence[str], request: NightlyRequest, stack: ExitStack, ui: Ui
) -> tuple[dict[str, BuildSubject], list[CaseRun]]:
    """Open the subjects by name. A subject that cannot be opened gets a verdict, and does not stop the others."""
    trusting = replace(ui, yes=True)
    subjects, damaged = {}, []
    for name in names:
        words = [str(request.folder / name)]
        try:
            subject = build_subject(words, is_command=False, timeout=request.timeout, ui=trusting)
            subjects[name] = stack.enter_context(subject)
        except ReproKitError as error:
            ui.warn(f"{name} is left out: {error}")
            damaged.append(CaseRun(name, RunOutcome.CANNOT_TELL, detail=str(error)))
    if not subjects:
        raise UsageError(f"Nothing in {request.folder} can be run: {damaged[0].detail}")
    return subjects, damaged


def _run_all(
    request: NightlyRequest, subjects: dict[str, BuildSubject], target: Target, memory: NightlyMemory, ui: Ui
) -> tuple[Build, list[CaseRun]]:
    """Install the newest build (or the build of the request), and run every case on it."""
    search = SearchRequest("every case", command="")
    axis = PackageEnds(request.package, bad=request.build)
    shutil.rmtree(request.directory / "envs", ignore_errors=True)  # environments that a killed run left
    with ui.stage("build"), _no_alarm():
        state, source = plan(axis, search, request.selection, target, request.directory, None)
        build = state.range[-1]
        ui.progress(f"installing {build.shown}")
        try:
            with source.ready(build) as ready:
                ui.done(f"{request.package} {build.shown}")
                return build, [settled_run(name, subject, ready, memory, ui) for name, subject in subjects.items()]
        except UnusableError as error:
            raise CannotRunError(f"{request.package} {build.shown} does not install: {error}.") from error
        finally:
            source.close()


@contextmanager
def _no_alarm() -> Iterator[None]:
    """Turn an error with exit code 1 into CannotRunError: code 1 means that a case newly fails."""
    try:
        yield
    except ReproKitError as error:
        if error.exit_code is not Exit.FAILED:
            raise
        raise CannotRunError(str(error)) from error


def settled_run(name: str, subject: BuildSubject, ready: Ready, memory: NightlyMemory, ui: Ui) -> CaseRun:
    """Run a case on a build. A changed result is repeated, since a failure that comes and goes is no news."""
    last_seen = memory.cases.get(name)
    run = _run(name, subject, ready, last_seen, ui)
    for _ in range(_EXTRA_RUNS):
        if not _turned(memory, run):
            return run
        again = _run(name, subject, ready, last_seen, ui)
        if again.state is not RunOutcome.CANNOT_TELL and not _turned(memory, again):
            return replace(again, note=f"comes and goes: in another run it {WORDS[run.state]}")
    return run


def _turned(memory: NightlyMemory, run: CaseRun) -> bool:
    (news,) = compare(memory, [run])
    return news.event in TURNS


def _run(name: str, subject: BuildSubject, ready: Ready, last_seen: LastSeen | None, ui: Ui) -> CaseRun:
    with ui.stage("case"):
        ui.progress(name)
        build_run = subject.oracle.run(ready)
        state, signature = _judged(build_run, subject.signature, last_seen)
        run = CaseRun(name, state, signature, build_run.verdict.note, round(build_run.verdict.seconds, 1))
        ui.done(f"{name}: {WORDS[state]}{f' ({run.shown})' if run.shown else ''}")
    return run


def _judged(
    build_run: BuildRun, expected: Signature | None, last_seen: LastSeen | None
) -> tuple[RunOutcome, Signature | None]:
    """Return the outcome of the case, and its failure.

    A time-out is a hang when the case is about a hang, or when an earlier build ended in time. A case that has never
    ended in time may only be slow.
    """
    verdict = build_run.verdict
    if build_run.timed_out:
        hangs = expected is not None and expected.kind is Kind.TIMEOUT
        if not hangs and last_seen is None:
            return RunOutcome.CANNOT_TELL, None
        verdict = replace(verdict, failure=verdict.failure or Failure(Kind.TIMEOUT))
    signature = signature_of(verdict.failure) if verdict.failure else None
    return outcome_of(verdict, expected, Strength.CROSS_VERSION), signature


def _bisected(
    group: Group, build: Build, subjects: dict[str, BuildSubject], request: NightlyRequest, target: Target, ui: Ui
) -> Group:
    """Bisect the first case of the group, from the last build that was judged to this build, and add the answer."""
    first = group.news[0]
    if group.event not in TURNS or first.since is None or first.since.build == build.name:
        return group
    fixed = group.event is NewsEvent.FIXED
    subject = subjects[first.run.name]
    ends = {"good": build.name, "bad": first.since.build} if fixed else {"good": first.since.build, "bad": build.name}
    directory = request.directory / "bisect" / file_name(f"{first.run.name}-{build.name}")
    signature = first.since.signature if fixed else first.run.signature
    again = bisect_command(request, first, good=ends["good"], bad=ends["bad"])
    search = SearchRequest(subject.description, find_fix=fixed, signature=signature, command=again)
    rules = Rules(others=Mark.GOOD if group.event is NewsEvent.CHANGED else Mark.SKIP)
    try:
        state, source = plan(PackageEnds(request.package, **ends), search, request.selection, target, directory, None)
        bisection = Bisection(directory, state, source, subject.oracle, rules, ui)
        outcome = bisection.run()
        report = make_report(bisection.state, outcome)
        report = with_commits(report, None, subject.clues, subject.manual_repro, directory)
    except ReproKitError as error:
        return replace(group, bisected=f"The change could not be bisected: {error}")
    finally:
        shutil.rmtree(directory / "envs", ignore_errors=True)
    facts = [(name, " ".join(filter(None, [side.build.shown, side.commit]))) for name, side in named_sides(report)]
    facts += [("commits between", report.compare)] if report.compare else []
    facts += [("to repeat it", again)] if again else []
    return replace(group, bisected=report.sentence, answer=as_markdown(report), facts=tuple(facts))


def bisect_command(request: NightlyRequest, news: News, *, good: str, bad: str) -> str:
    """Return the bisection as a command line; "" for a changed failure, which `bisect` cannot search for."""
    if news.event is NewsEvent.CHANGED:
        return ""
    selection = request.selection
    words = ["repro-kit", "bisect", str(request.folder / news.run.name), "--package", request.package]
    words += ["--nightly", selection.nightly] if selection.nightly else []
    words += ["--index-url", selection.index] if selection.index else []
    words += ["--wheels", str(selection.wheels)] if selection.wheels else []
    words += [word for package in selection.packages for word in ("--with", package)]
    words += ["--python", request.python] if request.python else []
    words += ["--timeout", f"{request.timeout:g}"] if request.timeout != NightlyRequest.timeout else []
    if RunOutcome.FAILS_OTHERWISE in (news.run.state, news.since.state if news.since else None):
        words.append("--any-failure")  # the failure is not the one that the case is about
    words += ["--find-fix"] if news.event is NewsEvent.FIXED else []
    return shlex.join([*map(without_credentials, words), "--good", good, "--bad", bad])


def _write(summary: NightlySummary, directory: Path) -> None:
    for name in ("nightly.md", "nightly.html"):
        text = render(f"{name}.j2", summary=summary, alarms=ALARMS, event=NewsEvent)
        write_atomic(directory / name, text.encode())


def _show(summary: NightlySummary, request: NightlyRequest, ui: Ui) -> None:
    rows = [(group.event, name, group.signature, group.bisected) for group in summary.groups for name in group.names]
    ui.table("", ("since the last run", "case", "failure", "bisected"), rows)
    ui.print(summary.sentence)
    ui.note(f"Written: {request.directory / 'nightly.md'} and {request.directory / 'nightly.html'}")
    ui.result(
        {
            "build": summary.build.name,
            "before": summary.before,
            "groups": [
                {
                    "event": group.event,
                    "cases": group.names,
                    "signature": group.signature,
                    "bisected": group.bisected or None,
                }
                for group in summary.groups
            ],
            "exit": int(Exit.FAILED if summary.alarms else Exit.OK),
        }
    )
