"""Make a case from what `repro_kit.watch` left: the failure as it happened, without running the program again."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case, StageRecord
from repro_kit.case.handles import ENVIRONMENT, OBSERVATION
from repro_kit.case.stage_results import Observation
from repro_kit.errors import UsageError
from repro_kit.model.variables import allowed_variables
from repro_kit.ownership import is_marked
from repro_kit.plain_file import check_tree
from repro_kit.probe.repro_probe.protocol.watched_data import WATCHED_DIRECTORY
from repro_kit.runner.launch import Run
from repro_kit.runner.read_findings import read_findings
from repro_kit.session.script.interpreter_environment import environment
from repro_kit.session.script.script_run import write_artifacts
from repro_kit.session.script.subject_check import program_subject
from repro_kit.session.script.watched_recording import Watched, read_watched, watched_text
from repro_kit.session.verdicts import observed_failures
from repro_kit.session.verdicts.blame import as_wrong_result
from repro_kit.trace import summarise
from repro_kit.ui import Ui


def case_from_watch(path: Path, python: str | None, failure: int, ui: Ui) -> Case:
    """Return the case at `path` as observed, with the failure, trace and environment that `repro_kit.watch` stored.

    `python` is the interpreter to continue with; None: the interpreter in which the failure happened. `failure` is
    the number of the failure that the case is about. Raises ReproKitError when there is no such failure or interpreter.
    """
    check_tree(path)
    watched = read_watched(path)
    if not is_marked(path, watched_text(path)) and not ui.confirm(
        f"{path} was not made by you on this machine. Run the programs in it with {python or watched.python}?"
    ):
        raise UsageError(
            f"{path} was not made by you on this machine, and its programs would run with {python or watched.python}; "
            "look at the case, and give --yes if you trust it."
        )
    subject = program_subject(path, Path.cwd(), python or watched.python, os.environ)
    case = Case.create(path, subject, watched.created)
    with ui.stage("watched"):
        shutil.copytree(path / WATCHED_DIRECTORY / "trace", path / "observe" / "trace", dirs_exist_ok=True)
        findings = read_findings(path / WATCHED_DIRECTORY)
        summary = summarise(path / "observe" / "trace")
        ended = Run(1, None, timed_out=False, seconds=0.0, peak_memory=0)
        observed = [as_wrong_result(watched) for watched in observed_failures.found_in(path, ended, findings, summary)]
        index = observed_failures.index_of(failure, observed)
        env = environment(subject.python)
        if env.torch != watched.torch:
            ui.warn(f"The failure was seen with torch {watched.torch}; {subject.python} has torch {env.torch} now.")
        case.store(
            ENVIRONMENT,
            replace(
                env,
                config=findings.config,
                threads=findings.threads or env.threads,
                variables=allowed_variables(watched.variables),
            ),
        )
        observation = Observation(
            argv=watched.command,
            exit_status=1,
            signal=None,
            timed_out=False,
            seconds=0.0,
            peak_memory=0,
            python=watched.python,
            torch=watched.torch,
            failures=tuple(observed),
            artifacts=write_artifacts(case, summary),
            graphs=watched.graphs,
            warnings=tuple(_warnings(watched)),
        )
        case.store(OBSERVATION, observation)
        chosen = observed[index]
        case.update(signature=chosen.signature, failure_index=index)
        note = f"{chosen.failure.kind}: {chosen.signature.summary()}"
        case.record(StageRecord("observe", "done", note))
        ui.done(note)
    return case


def _warnings(watched: Watched) -> list[str]:
    return [f"The first {watched.dropped} of {watched.graphs} graphs were forgotten."] if watched.dropped else []
