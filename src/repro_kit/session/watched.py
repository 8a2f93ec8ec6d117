"""Make a case of what `repro_kit.watch` left: the failure as it was seen, without running the program again."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from repro_kit.case.case import Case, StageRecord
from repro_kit.case.results import Observation
from repro_kit.errors import Exit, ReproKitError
from repro_kit.model.serialize import from_data, loads
from repro_kit.model.variables import allowed_variables
from repro_kit.owner import is_marked
from repro_kit.plain_file import check_tree, read_plain
from repro_kit.runner.findings import Findings, read_findings
from repro_kit.runner.launch import Run
from repro_kit.session import failures
from repro_kit.session.blame import as_wrong_result
from repro_kit.session.environment import environment
from repro_kit.session.options import Options
from repro_kit.session.stop import Stop
from repro_kit.session.subject import program_subject
from repro_kit.stages.observe.stage import write_artifacts
from repro_kit.trace import summarise
from repro_kit.ui import Ui

SCHEMA = 1
_LARGEST = 8 << 20  # bytes of the file
WATCHED = "watched.json"
RECORD = "watched"  # directory of the probe's files


@dataclass(frozen=True)
class Watched:
    """`watched.json` (probe/repro_probe/entry/watch.py)."""

    schema: int
    python: str
    torch: str
    command: tuple[str, ...]
    cwd: str
    created: str
    graphs: int = 0
    dropped: int = 0  # graphs that were forgotten, since there were many
    variables: dict[str, str] = field(default_factory=dict)


def is_watched(path: Path) -> bool:
    """Whether `repro_kit.watch` has written `path`."""
    return (path / WATCHED).is_file()


def read_watched(path: Path) -> Watched:
    """What it wrote. Raises ReproKitError when that is damaged, or newer than this repro-kit."""
    try:
        data = loads(_text(path))
        if isinstance(data.get("schema"), int) and data["schema"] > SCHEMA:
            raise ReproKitError(f"{path} was written by a newer repro-kit (schema {data['schema']}); upgrade.")
        return from_data(data, Watched)
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ReproKitError(f"{path}/{WATCHED} cannot be read; let repro_kit.watch write it anew.") from error


def _text(path: Path) -> str:
    return read_plain(path / WATCHED, _LARGEST).decode("utf-8", "replace")


def take_up(path: Path, python: str | None, options: Options, ui: Ui) -> Case:
    """The case at `path`, observed: failure, trace and environment are those that were kept.

    `python`: the interpreter to go on with, where not the one that it was seen in. Raises ReproKitError when there is
    no failure in it, or no such interpreter.
    """
    check_tree(path)
    seen = read_watched(path)
    if not is_marked(path, _text(path)) and not ui.confirm(
        f"{path} was not made by you on this machine. Run the programs in it with {python or seen.python}?"
    ):
        raise ReproKitError(
            f"{path} was not made by you on this machine, and its programs would run with {python or seen.python}; "
            "look at it, and give --yes if you trust it."
        )
    subject = program_subject(path, Path.cwd(), python or seen.python, os.environ)
    case = Case.create(path, subject, seen.created)
    with ui.stage("watched"):
        shutil.copytree(path / RECORD / "trace", path / "observe" / "trace", dirs_exist_ok=True)
        findings = read_findings(path / RECORD)
        summary = summarise(path / "observe" / "trace")
        ended = Run(1, None, timed_out=False, seconds=0.0, peak_memory=0)
        found = [as_wrong_result(seen) for seen in failures.found_in(path, ended, findings, summary)]
        index = failures.index_of(options, found)
        env = environment(subject.python)
        if env.torch != seen.torch:
            ui.warn(f"It failed with torch {seen.torch}; {subject.python} has {env.torch} now.")
        case.write(
            "env.json",
            replace(
                env,
                config=findings.config,
                threads=findings.threads or env.threads,
                variables=allowed_variables(seen.variables),
            ),
        )
        observation = Observation(
            argv=seen.command,
            exit_status=1,
            signal=None,
            timed_out=False,
            seconds=0.0,
            peak_memory=0,
            python=seen.python,
            torch=seen.torch,
            failures=tuple(found),
            artifacts=write_artifacts(case, summary),
            graphs=seen.graphs,
            warnings=tuple(_warnings(seen)),
        )
        case.write("observe/run.json", observation)
        chosen = found[index]
        case.update(signature=chosen.signature, failure_index=index)
        note = f"{chosen.failure.kind}: {chosen.signature.summary()}"
        case.record(StageRecord("observe", "done", note))
        ui.done(note)
    return case


def _warnings(seen: Watched) -> list[str]:
    return [f"The first {seen.dropped} of {seen.graphs} graphs were forgotten."] if seen.dropped else []


def lay_out(case: Case, place: Path) -> Findings:
    """Put the kept recording where capture looks for its own; what the probe found beside it."""
    shutil.copytree(case.path / RECORD, place, ignore=shutil.ignore_patterns("trace"))
    return read_findings(place)


def nothing_alone(case: Case, note: str) -> Stop:
    """The end for a case whose program cannot be run again, when no graph fails alone."""
    seen = read_watched(case.path)
    return Stop(
        Exit.FAILED,
        f"{note}, and values of inputs are not kept; to look further, run the program itself: "
        f"repro-kit collect {shlex.join(seen.command[1:])} (in {seen.cwd})",
    )
