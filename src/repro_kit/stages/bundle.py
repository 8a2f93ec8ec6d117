"""Bundle: render `repro.py`, prove it in a clean process, redact, describe and pack."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.bundle.archive import pack
from repro_kit.bundle.contents import Contents, write_files
from repro_kit.bundle.redact import Redactor
from repro_kit.case import Case
from repro_kit.errors import Exit
from repro_kit.model.recipe import Recipe
from repro_kit.model.results import BundleResult
from repro_kit.model.serialize import to_data
from repro_kit.stages.candidates import Candidate, Known, candidates, fill, known
from repro_kit.stages.check import Check, check_repro
from repro_kit.stages.describe import describe
from repro_kit.stages.model_code import gate
from repro_kit.stages.options import Options
from repro_kit.stages.pages import add_pages
from repro_kit.stages.preview import preview
from repro_kit.stages.private import redactor_of
from repro_kit.stages.stop import Stop
from repro_kit.ui import Ui

_PLACE = "bundle"
_ROUNDS = 2  # a secret that shows only in the end may be in what was checked
_MOST_KEPT = 5  # values that are named in one sentence
_MARGIN = 60.0  # seconds for the start of an interpreter with torch


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
    passed = gate(case, options, ui)
    recipe = told.capture.recipe if told.capture else Recipe()
    redactor = redactor_of(case, recipe, every_argument=not options.include_values)
    passed.teach(redactor)
    for _ in range(_ROUNDS):
        chosen, reason = _choose(case, told, redactor, options, ui)
        chosen.left_out.extend(filter(None, [passed.left_out]))
        passed.add_to(chosen.contents)
        if passed.code:
            ui.progress("pages about the trace")
            chosen.left_out.extend(add_pages(case, chosen.contents))
        describe(case, told, chosen.candidate, chosen.check, chosen.contents, chosen.left_out, reason, code=passed.code)
        if not chosen.contents.settle():
            break
    contents = chosen.contents
    output = Path(options.output) if options.output else case.path.with_name(f"{case.path.name}.zip")
    files = contents.seal(_about(case, chosen, reason))
    if options.dry_run:
        preview(contents, files, ui)
        ui.note(f"It would be {_standing(chosen)}.")
        raise Stop(Exit.OK, f"Nothing was written: --dry-run. The bundle would be {output}.")
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


def _choose(case: Case, told: Known, redactor: Redactor, options: Options, ui: Ui) -> tuple[_Attempt, str]:
    """The first candidate that is verified, else the first one; and why it is not a smaller or a verified one."""
    chosen, reasons = _best(case, told, redactor, options, ui)
    return chosen, "; ".join(dict.fromkeys(reasons))


def _best(case: Case, told: Known, redactor: Redactor, options: Options, ui: Ui) -> tuple[_Attempt, list[str]]:
    first: _Attempt | None = None
    reasons: list[str] = []
    for candidate in candidates(case, told):
        attempt = _attempt(case, told, candidate, redactor, options, ui)
        if attempt.check.verified:
            return attempt, [*filter(None, [candidate.note]), *reasons]
        reasons += attempt.check.reasons
        first = first or attempt
    assert first is not None  # the user's script always is a candidate
    return first, [*filter(None, [first.candidate.note]), *first.check.reasons]


def _attempt(case: Case, told: Known, candidate: Candidate, redactor: Redactor, options: Options, ui: Ui) -> _Attempt:
    contents = Contents(redactor, every_word=options.include_values)
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


def _about(case: Case, chosen: _Attempt, reason: str) -> dict[str, object]:
    """The manifest's own fields, redacted."""
    candidate = chosen.candidate
    env = candidate.facts.environment
    contents = chosen.contents
    return {
        "created": case.file.created,
        "level": candidate.level,
        "verified": chosen.check.verified,
        "reason": contents.redact(reason),
        "runs": {"made": len(chosen.check.runs), "same": chosen.check.same},
        "layer": candidate.facts.layer,
        "torch": env.torch,
        "python": env.python,
        "platform": contents.redact(env.platform),
        "accelerator": env.accelerator,
        "limit": candidate.limit,
        "values": any(it.role == "values" for it in contents.entries.values()),
        "signature": to_data(contents.redact(candidate.facts.signature)),
    }


def _conclude(chosen: _Attempt, output: Path, reason: str, ui: Ui) -> None:
    """The stage's last words."""
    check, candidate = chosen.check, chosen.candidate
    for sentence in chosen.left_out:
        ui.note(sentence)
    kept = chosen.contents.kept_values()
    if kept:
        shown = ", ".join(dict.fromkeys(f"{it.value} ({it.origin or it.kind})" for it in kept[:_MOST_KEPT]))
        more = f" and {len(kept) - _MOST_KEPT} more" if len(kept) > _MOST_KEPT else ""
        ui.note(f"Kept as they are, since they are words of the report too: {shown}{more}; --dry-run lists them.")
    if check.flaky:
        ui.warn(
            f"The failure is not deterministic: {check.same} of {len(check.runs)} runs of repro.py failed as expected."
        )
    if not check.verified:
        ui.warn(f"The bundle is NOT VERIFIED: {reason}.")
    elif candidate.program is None:
        ui.warn(f"The bundle is not minimized, it holds the user's own script: {reason}.")
    ui.done(f"{output.name}, {_standing(chosen)}")


def _standing(chosen: _Attempt) -> str:
    return f"{'verified' if chosen.check.verified else 'NOT VERIFIED'}, {chosen.candidate.level}-level"
