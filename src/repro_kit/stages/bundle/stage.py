"""Bundle: render `repro.py`, check it in a clean process, redact, describe and pack."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from repro_kit.bundle.archive.archive import CHECKSUMS, pack
from repro_kit.bundle.archive.contents import Contents, write_files
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.bundle.story.title import headline_of
from repro_kit.case.case import Case
from repro_kit.case.stage_results import BUNDLE, BundleResult
from repro_kit.errors import Exit, Stop
from repro_kit.options.stages import BundleOptions
from repro_kit.recipe import Recipe
from repro_kit.serialize import to_data
from repro_kit.session.case_paths import CHECKED
from repro_kit.stages.bundle.checking import CheckedForm, Checking
from repro_kit.stages.bundle.claims import proof_of
from repro_kit.stages.bundle.describe_bundle import BundleRemarks, describe
from repro_kit.stages.bundle.form_files import with_source
from repro_kit.stages.bundle.forms import candidates, results_of
from repro_kit.stages.bundle.sharing import add_pages, gate, redactor_of
from repro_kit.ui import Ui

_WHY = {
    "repro": "shows the failure",
    "check": "runs repro.py; its exit status shows whether that fails as expected",
    "source": "your own file, which repro.py runs: --include-source",
    "values": "tensor values that repro.py loads: --include-values",
    "trace": "torch's structured trace: --trace",
    "artifact": "a graph from the trace: --trace yes",
    "log": "torch's log: --trace yes",
    "explanation": "what the trace shows about the user's code: --trace yes",
    "tlparse": "the trace as tlparse shows it: --trace yes",
    "issue": "the text for the bug form",
    "report": "the whole story as a page",
    "story": "the story, for programs",
    "test": "repro.py as a test",
    "readme": "describes the bundle",
    "recipe": "how the program is compiled and run",
    "environment": "versions, packages and settings",
    "ablation": "which settings pass and which fail",
    "redactions": "what was replaced by which token",
}


def preview(contents: Contents, files: Mapping[str, bytes], ui: Ui) -> None:
    """Show a table of the sealed `files`, and tables of the values that were replaced and kept."""
    rows = []
    for name, data in sorted(files.items()):
        entry = contents.entries.get(name)
        why = _WHY.get(entry.role, entry.role) if entry else _SEALS.get(name, _WHY["redactions"])
        cut = f", {entry.truncated} bytes cut out" if entry and entry.truncated else ""
        rows.append([name, f"{len(data):,}", str(entry.redactions) if entry else "0", why + cut])
    ui.table("", ["file", "bytes", "replaced", "why it goes in"], rows)
    replaced = [
        [replacement.token, replacement.what, str(replacement.places), ", ".join(replacement.files)]
        for replacement in contents.replaced()
    ]
    if replaced:
        ui.table("", ["token", "stands for", "places", "files"], replaced)
    kept_rows = [
        [kept_value.value, kept_value.kind, kept_value.origin, kept_value.reason]
        for kept_value in contents.kept_values()
    ]
    if kept_rows:
        ui.table("", ["kept as it is", "what it is", "where from", "why it goes in"], kept_rows)


_SEALS = {MANIFEST: "lists the files, and describes the failure", CHECKSUMS: "for sha256sum -c"}


_PLACE = "bundle"
_ROUNDS = 2  # a secret that is learned late may be in files that were made before
_MOST_KEPT = 5  # values in one sentence


def run(case: Case, options: BundleOptions, ui: Ui) -> None:
    """Write `bundle/`, the archive and `bundle.json`. Raises ReproKitError when the archive cannot be written."""
    results = results_of(case)
    passed = gate(case, options)
    recipe = results.capture.recipe if results.capture else Recipe()
    redactor = redactor_of(case, recipe, every_argument=not options.include_values)
    passed.teach(redactor)
    for _ in range(_ROUNDS):
        work = Checking(case, results, redactor, options, ui)
        chosen, reason = _choose(work)
        chosen.left_out.extend(filter(None, [passed.left_out]))
        passed.add_to(chosen.contents)
        if passed.code:
            ui.progress("writing pages about the trace")
            chosen.left_out.extend(add_pages(case, chosen.contents))
        story = describe(
            case,
            results,
            chosen.candidate,
            chosen.check,
            chosen.contents,
            BundleRemarks(
                tuple(chosen.left_out),
                reason,
                chosen.dropped,
                proof_of(chosen.candidate) if chosen.check.verified else "",
            ),
            work.told(chosen),
            code=passed.code,
        )
        if not chosen.contents.settle():
            break
    contents = chosen.contents
    output = Path(options.output) if options.output else case.path.with_name(f"{case.path.name}.zip")
    files = contents.seal(_about(case, chosen, reason))
    if options.dry_run:
        preview(contents, files, ui)
        ui.note(f"The bundle would be {_standing(chosen)}.")
        raise Stop(Exit.OK, f"Nothing was written: --dry-run. The bundle would be {output}.")
    directory = case.path / _PLACE
    shutil.rmtree(directory, ignore_errors=True)
    write_files(files, directory)
    _keep(case, chosen, files)
    ui.progress(f"packing {output.name}")
    pack(output, files)
    verified = chosen.check.verified
    case.store(
        BUNDLE,
        BundleResult(
            path=str(output),
            level="program" if chosen.candidate.program else "script",
            verified=verified,
            fails_with_signature=chosen.check.same > 0,
            passes_in_eager=chosen.check.passes_in_eager,
            layer=chosen.candidate.facts.layer,
            reason=reason,
            files=tuple(sorted(files)),
            flaky=chosen.check.rate,
            needs=chosen.check.needs,
            dropped=chosen.dropped,
            lacking=chosen.lacking,
            answers=story.answers,
            title=contents.redact(headline_of(story)),
        ),
    )
    _conclude(case, chosen, output, reason, ui)


def _keep(case: Case, chosen: CheckedForm, files: Mapping[str, bytes]) -> None:
    """Keep in the case what was checked and is not in the bundle, so that `verify` and `bisect` can run it here."""
    directory = case.path / CHECKED
    shutil.rmtree(directory, ignore_errors=True)
    if chosen.checked is not None:
        chosen.checked.write(directory)
        write_files({MANIFEST: files[MANIFEST]}, directory)


def _choose(work: Checking) -> tuple[CheckedForm, str]:
    """The first verified candidate, else the first one; and why it is not smaller, or not verified.

    Without ``--include-source`` it has no source files of the user's, and is not verified.
    """
    chosen, reasons = _best(work)
    if chosen.source and not work.options.include_source:
        chosen = work.without_source(chosen)
        reasons = [*chosen.check.reasons, *reasons]
    return chosen, "; ".join(dict.fromkeys(reasons))


def _best(work: Checking) -> tuple[CheckedForm, list[str]]:
    unverified: list[CheckedForm] = []
    reasons: list[str] = []
    for candidate in candidates(work.case, work.results):
        needs_known = any(attempt.check.needs for attempt in unverified) or not candidate.whole
        attempt = work.with_any_compiler(work.attempt(candidate) if needs_known else work.with_needs(candidate))
        attempt = work.with_narrow_casts(attempt)
        if attempt.check.verified:
            return work.with_proven_claims(attempt), [*filter(None, [candidate.note]), *reasons]
        if not candidate.whole:
            continue  # the longer text of the same program comes next
        reasons += attempt.check.reasons
        unverified.append(attempt)
    # A candidate that fails with what it needs, else the smallest; the user's script is always a candidate.
    chosen = next((attempt for attempt in unverified if attempt.check.needs), unverified[0])
    return work.with_proven_claims(chosen), [*filter(None, [chosen.candidate.note]), *chosen.check.reasons]


def _about(case: Case, chosen: CheckedForm, reason: str) -> dict[str, object]:
    """The fields of the manifest, redacted."""
    form = chosen.candidate
    env = form.facts.environment
    contents = chosen.contents
    return {
        "created": case.file.created,
        "level": form.level,
        "verified": chosen.check.verified,
        "reason": contents.redact(reason),
        "runs": {"made": len(chosen.check.runs), "same": chosen.check.same},
        "layer": form.facts.layer,
        "torch": env.torch,
        "python": env.python,
        "platform": contents.redact(env.platform),
        "accelerator": env.accelerator,
        "limit": form.limit,
        "values": any(entry.role == "values" for entry in contents.entries.values()),
        "signature": to_data(contents.redact(form.facts.signature)),
        "flaky": chosen.check.rate,
        "repeats": chosen.check.repeats if chosen.check.flaky else 1,
        "needs": [contents.redact(need) for need in chosen.check.needs],
    }


def _conclude(case: Case, chosen: CheckedForm, output: Path, reason: str, ui: Ui) -> None:
    """Print the remarks of the stage and its last line."""
    check, form = chosen.check, chosen.candidate
    listed = chosen.source or chosen.kept_back
    files = ", ".join(f"{name} ({lines} line{'s' * (lines != 1)})" for name, lines in listed)
    if chosen.source:
        ui.warn(f"Your source files are in it: {files}.")
    elif files:
        ui.note(f"Your source files are not in it: {files}. `{with_source(case)}` adds them.")
    for sentence in chosen.left_out:
        ui.detail(sentence)
    for sentence in chosen.dropped:
        ui.warn(f"Left out: {sentence}.")
    kept_values = chosen.contents.kept_values()
    if kept_values:
        shown = ", ".join(
            dict.fromkeys(f"{value.value} ({value.origin or value.kind})" for value in kept_values[:_MOST_KEPT])
        )
        more = f" and {len(kept_values) - _MOST_KEPT} more" if len(kept_values) > _MOST_KEPT else ""
        ui.note(f"Kept, because the report itself uses these words: {shown}{more}; --dry-run lists all.")
    if check.flaky:
        ui.warn(
            f"The failure is not deterministic: {check.rate}; {check.repeats} runs must pass before it counts as gone."
        )
    if not check.verified:
        ui.warn(f"The bundle is NOT VERIFIED: {reason}.")
    elif form.is_users_script:
        ui.warn(f"The bundle is not minimized: {reason}.")
    ui.done(f"{output.name}, {_standing(chosen)}")


def _standing(chosen: CheckedForm) -> str:
    script = "" if chosen.candidate.program else ", runs the script"
    return f"{'verified' if chosen.check.verified else 'NOT VERIFIED'}{script}"
