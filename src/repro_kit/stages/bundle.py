"""Bundle: render `repro.py`, prove it in a clean process, redact, describe and pack."""

from __future__ import annotations

import getpass
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from repro_kit.bundle.archive import pack
from repro_kit.bundle.contents import Contents, write_files
from repro_kit.bundle.redact import Redactor
from repro_kit.case import Case
from repro_kit.model.results import BundleResult, Environment
from repro_kit.model.serialize import to_data
from repro_kit.stages.bisect_report import bisected, commits_in
from repro_kit.stages.candidates import Candidate, Known, candidates, fill, known
from repro_kit.stages.check import Check, check_repro
from repro_kit.stages.describe import describe
from repro_kit.stages.options import Options
from repro_kit.ui import Ui

_PLACE = "bundle"
_MARGIN = 60.0  # seconds for the start of an interpreter with torch
_TRACE_DIRECTORIES = {"observe/trace": "trace", "observe/artifacts": "artifacts", "observe/logs": "logs"}


@dataclass(frozen=True)
class _Attempt:
    """A candidate with its files and what its check said."""

    candidate: Candidate
    contents: Contents
    check: Check
    left_out: list[str]


def run(case: Case, options: Options, ui: Ui) -> None:
    """Write `bundle/`, the archive and `bundle.json`. Raises ReproKitError when the archive cannot be written."""
    told = known(case)
    chosen, reasons = _choose(case, told, options, ui)
    reason = "; ".join(dict.fromkeys(reasons))
    contents = chosen.contents
    chosen.left_out.extend(_add_trace(case, options, ui, contents))
    describe(case, told, chosen.candidate, chosen.check, contents, chosen.left_out, reason)
    output = Path(options.output) if options.output else case.path.with_name(f"{case.path.name}.zip")
    files = contents.seal(_about(case, chosen, reason))
    place = case.path / _PLACE
    shutil.rmtree(place, ignore_errors=True)
    write_files(files, place)
    ui.progress(f"packing {output.name}")
    pack(output, files)
    verified = chosen.check.verified
    case.write(
        "bundle.json",
        BundleResult(
            path=str(output),
            level="program" if chosen.candidate.program else "script",
            verified=verified,
            fails_with_signature=chosen.check.same > 0,
            passes_in_eager=chosen.check.passes_in_eager,
            layer=told.facts.layer,
            reason=reason,
            files=tuple(sorted(files)),
        ),
    )
    _conclude(chosen, output, reason, ui)


def _choose(case: Case, told: Known, options: Options, ui: Ui) -> tuple[_Attempt, list[str]]:
    """The first candidate that is verified, else the first one; and why it is not a smaller or a verified one."""
    first: _Attempt | None = None
    reasons: list[str] = []
    for candidate in candidates(case, told):
        attempt = _attempt(case, told, candidate, options, ui)
        if attempt.check.verified:
            return attempt, [*filter(None, [candidate.note]), *reasons]
        reasons += attempt.check.reasons
        first = first or attempt
    assert first is not None  # the user's script always is a candidate
    return first, [*filter(None, [first.candidate.note]), *first.check.reasons]


def _attempt(case: Case, told: Known, candidate: Candidate, options: Options, ui: Ui) -> _Attempt:
    contents = Contents(_redactor(case, told.facts.environment))
    left_out = fill(candidate, case, told, contents, include_values=options.include_values)
    place = case.path / "bundle.part"
    shutil.rmtree(place, ignore_errors=True)
    try:
        contents.write(place)
        check = check_repro(
            told.observation.python or case.file.subject.python,
            place,
            candidate.facts.signature,
            timeout=candidate.limit + _MARGIN,
            project=Path(case.file.subject.cwd),
            tries=told.reduction.repeats if told.reduction else 1,
            on_tick=ui.progress,
        )
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if candidate.program and candidate.program.stored and not options.include_values:
        reason = "repro.py needs stored tensor values, which are not in the bundle (--include-values puts them in)"
        check = replace(check, reasons=(reason,))
    return _Attempt(candidate, contents, check, left_out)


def _redactor(case: Case, env: Environment) -> Redactor:
    """What is private on this machine and in this case."""
    subject = case.file.subject
    prefix = Path(env.executable).parent.parent if env.executable else None
    paths = [
        (str(case.path.resolve()), "<case>"),
        (subject.cwd, "<cwd>"),
        (str(Path.home()), "<home>"),
        *([(env.git.root, "<repo>")] if env.git else []),
        *([(str(prefix), "<env>")] if prefix else []),
    ]
    names = [(getpass.getuser(), "<user>"), (Path.home().name, "<user>"), (socket.gethostname(), "<host>")]
    allowed = [env.torch_git or "", (env.git.commit if env.git else None) or "", *commits_in(bisected(case))]
    return Redactor(paths, names, allowed)


def _add_trace(case: Case, options: Options, ui: Ui, contents: Contents) -> Iterator[str]:
    """Add trace, artifacts and logs where that is allowed; else say that they are left out."""
    found = {name: place for name, place in _TRACE_DIRECTORIES.items() if any((case.path / name).glob("**/*.*"))}
    if not found:
        return
    wanted = options.trace
    if wanted is None:
        wanted = ui.confirm("Put torch's trace, graphs and logs into the bundle? They hold your model's code.")
    if not wanted:
        yield "Trace, artifacts and logs are left out, since they hold model code; `--trace yes` puts them in."
        return
    for name, place in found.items():
        for path in sorted((case.path / name).rglob("*")):
            if path.is_file():
                inside = path.relative_to(case.path / name).as_posix()
                contents.add_text(
                    f"{place}/{inside}", path.read_text(encoding="utf-8", errors="replace"), place.rstrip("s")
                )


def _about(case: Case, chosen: _Attempt, reason: str) -> dict[str, object]:
    """The manifest's own fields, redacted."""
    candidate = chosen.candidate
    env = candidate.facts.environment
    about = {
        "created": case.file.created,
        "level": candidate.level,
        "verified": chosen.check.verified,
        "reason": reason,
        "runs": {"made": len(chosen.check.runs), "same": chosen.check.same},
        "layer": candidate.facts.layer,
        "torch": env.torch,
        "python": env.python,
        "platform": env.platform,
        "accelerator": env.accelerator,
        "limit": candidate.limit,
        "signature": to_data(candidate.facts.signature),
    }
    redacted: dict[str, object] = orjson.loads(chosen.contents.redactor(orjson.dumps(about).decode()))
    return redacted


def _conclude(chosen: _Attempt, output: Path, reason: str, ui: Ui) -> None:
    """The stage's last words."""
    check, candidate = chosen.check, chosen.candidate
    for sentence in chosen.left_out:
        ui.note(sentence)
    if check.flaky:
        ui.warn(
            f"The failure is not deterministic: {check.same} of {len(check.runs)} runs of repro.py failed as expected."
        )
    if not check.verified:
        ui.warn(f"The bundle is NOT VERIFIED: {reason}.")
    elif candidate.program is None:
        ui.warn(f"The bundle is not minimized, it holds the user's own script: {reason}.")
    what = "verified" if check.verified else "NOT VERIFIED"
    ui.done(f"{output.name}, {what}, {candidate.level}-level")
