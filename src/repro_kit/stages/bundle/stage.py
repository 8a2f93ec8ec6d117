"""Bundle: render `repro.py`, check it in a clean process, redact, describe and pack."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.bundle.archive.archive import pack
from repro_kit.bundle.archive.contents import Contents, write_files
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.story.title_facts import headline_of
from repro_kit.case.case import Case
from repro_kit.case.handles import BUNDLE
from repro_kit.case.stage_results import BundleResult
from repro_kit.errors import Exit
from repro_kit.model.failure.failure import Kind, Status
from repro_kit.model.failure.signature import Strength
from repro_kit.model.recipe import Recipe
from repro_kit.model.run_outcome import RunOutcome, outcome_of
from repro_kit.model.serialize import to_data
from repro_kit.reduce.flaky import NO_RUNS, Tally
from repro_kit.session.case_paths import CHECKED
from repro_kit.session.options import BundleOptions
from repro_kit.session.stop import Stop
from repro_kit.session.strangers.repro_run import START_MARGIN, Check, check_repro, run_repro
from repro_kit.stages.bundle.answers import Told, ask
from repro_kit.stages.bundle.case_redactor import redactor_of
from repro_kit.stages.bundle.claims import check_claims, earlier
from repro_kit.stages.bundle.consent import gate
from repro_kit.stages.bundle.describe_bundle import BundleRemarks, describe
from repro_kit.stages.bundle.dry_run import preview
from repro_kit.stages.bundle.forms import (
    CaseResults,
    ReproForm,
    candidates,
    fill,
    named_files,
    results_of,
    sources_of,
    with_source,
)
from repro_kit.stages.bundle.needs import OF_COMPILERS, carried, find_needs
from repro_kit.stages.bundle.proof import CASTS, casts_may_explain, proof_of
from repro_kit.stages.bundle.trace_pages import add_pages
from repro_kit.ui import Ui

_PLACE = "bundle"
_ROUNDS = 2  # a secret that is learned late may be in files that were made before
_EAGER_RUNS = 2  # of a script, in which chance may decide; of a program earlier stages know whether it does
_MOST_TRIES = 5  # runs of a flaky failure for one question of `find_needs`
_MOST_KEPT = 5  # values in one sentence
#: Kinds of failures of which neither time nor memory decides, so that two runs may go on at once.
_UNTIMED = (Kind.COMPILE_ERROR, Kind.DYNAMO_ERROR, Kind.RUNTIME_ERROR, Kind.ACCURACY, Kind.VALIDATION)


@dataclass(frozen=True)
class _Attempt:
    """A candidate with its files and its check."""

    candidate: ReproForm
    contents: Contents
    check: Check
    left_out: list[str]
    dropped: tuple[str, ...] = ()  # claims of earlier stages that do not hold for it
    lacking: int = 0  # runs that each cell of the ablation must pass, where too few are the reason
    against: str = ""  # why no claim of an earlier stage holds for it
    stays_with_casts: bool = False  # a wrong result that fails alike with the roundings of eager
    checked: Contents | None = None  # what was checked, where the user's source files are not in `contents`

    @property
    def source(self) -> tuple[tuple[str, int], ...]:
        """The user's own files, unchanged, in the bundle: name and number of lines."""
        return self._source_in(self.contents)

    @property
    def kept_back(self) -> tuple[tuple[str, int], ...]:
        """Those that `repro.py` runs, and that are not in the bundle."""
        return self._source_in(self.checked) if self.checked else ()

    def _source_in(self, contents: Contents) -> tuple[tuple[str, int], ...]:
        listed = [(name, entry) for name, entry in contents.entries.items() if entry.role == "source"]
        return tuple((name, len(entry.data.splitlines())) for name, entry in listed if self.candidate.is_users_script)


def run(case: Case, options: BundleOptions, ui: Ui) -> None:
    """Write `bundle/`, the archive and `bundle.json`. Raises ReproKitError when the archive cannot be written."""
    results = results_of(case)
    passed = gate(case, options)
    recipe = results.capture.recipe if results.capture else Recipe()
    redactor = redactor_of(case, recipe, every_argument=not options.include_values)
    passed.teach(redactor)
    for _ in range(_ROUNDS):
        work = _Checking(case, results, redactor, options, ui)
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
                proof_of(chosen.candidate, stays_with_casts=chosen.stays_with_casts) if chosen.check.verified else "",
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


def _keep(case: Case, chosen: _Attempt, files: Mapping[str, bytes]) -> None:
    """Keep in the case what was checked and is not in the bundle, so that `verify` and `bisect` can run it here."""
    directory = case.path / CHECKED
    shutil.rmtree(directory, ignore_errors=True)
    if chosen.checked is not None:
        chosen.checked.write(directory)
        write_files({MANIFEST: files[MANIFEST]}, directory)


def _choose(work: _Checking) -> tuple[_Attempt, str]:
    """The first verified candidate, else the first one; and why it is not smaller, or not verified.

    Without ``--include-source`` it has no source files of the user's, and is not verified.
    """
    chosen, reasons = _best(work)
    if chosen.source and not work.options.include_source:
        chosen = work.without_source(chosen)
        reasons = [*chosen.check.reasons, *reasons]
    return chosen, "; ".join(dict.fromkeys(reasons))


def _best(work: _Checking) -> tuple[_Attempt, list[str]]:
    unverified: list[_Attempt] = []
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


@dataclass(frozen=True)
class _Checking:
    """Writes and checks `repro.py` in its forms."""

    case: Case
    results: CaseResults
    redactor: Redactor
    options: BundleOptions
    ui: Ui

    def with_needs(self, form: ReproForm) -> _Attempt:
        """`form`, checked. If it passes, find what it needs, and let `repro.py` set the needed variables."""
        attempt = self.attempt(form)
        if attempt.check.same:
            return attempt
        with self._written(attempt.contents) as directory:
            needs = find_needs(self._fails(form, directory), os.environ, Path(self.case.file.subject.cwd))
        if needs is None:
            return attempt
        if not needs.names:
            return self.attempt(form, Tally(1, len(attempt.check.runs) + 1))
        variables = carried(needs, os.environ, self.redactor, late=form.program is not None)
        if variables:
            attempt = self.attempt(form.carrying(variables))
        words = needs.words(variables)
        if attempt.check.verified or not words:
            return attempt
        reason = f"repro.py fails as expected only with {' and '.join(words)} of this machine, which the bundle lacks"
        return replace(attempt, check=replace(attempt.check, reasons=(reason,), needs=words))

    def with_any_compiler(self, attempt: _Attempt) -> _Attempt:
        """`attempt`; not verified where `repro.py` passes once the user's choice of a C++ compiler is left out.

        A stranger gets these variables of his own machine, and so does the check.
        """
        form, chosen = attempt.candidate, [name for name in OF_COMPILERS if os.environ.get(name)]
        if not chosen or not attempt.check.verified:
            return attempt
        self.ui.progress(f"running repro.py without {', '.join(chosen)}")
        with self._written(attempt.contents) as directory:
            run = run_repro(self._python, directory, timeout=form.limit + START_MARGIN, without=chosen)
        if run.verdict.status is not Status.PASS:
            return attempt
        words = tuple(f"the environment variable {name}" for name in chosen)
        passes = f"repro.py passes without {' and '.join(words)}"
        reason = f"{passes}: the compiler or the headers there are the cause"
        return replace(attempt, check=replace(attempt.check, reasons=(reason,), needs=words), against=passes)

    def with_narrow_casts(self, attempt: _Attempt) -> _Attempt:
        """`attempt`; not verified where its wrong result is right once Inductor rounds to narrow dtypes as eager does.

        A fused kernel leaves these roundings out, which torch documents and does not call a bug. Where the user has
        rounding count as a failure, it is no reason.
        """
        signature, observed = attempt.candidate.facts.signature, self.case.file.signature
        files = [entry.data.decode() for name, entry in attempt.contents.entries.items() if name.endswith(".py")]
        is_asked_for = observed is not None and observed.rounding
        if is_asked_for or not attempt.check.verified or not casts_may_explain(signature, files):
            return attempt
        self.ui.progress(f"running repro.py with {CASTS}=1")
        with self._written(attempt.contents) as directory:
            limit = attempt.candidate.limit + START_MARGIN
            run = run_repro(self._python, directory, timeout=limit, variables={CASTS: "1"})
        if run.verdict.status is not Status.PASS:
            alike = outcome_of(run.verdict, signature, Strength.REBASED) is RunOutcome.FAILS_ALIKE
            return replace(attempt, stays_with_casts=alike)
        reason = f"repro.py passes with {CASTS}=1: the wrong result is a rounding that a fused kernel leaves out"
        return replace(attempt, check=replace(attempt.check, reasons=(reason,)))

    def attempt(self, form: ReproForm, before: Tally = NO_RUNS) -> _Attempt:
        """`form` with its files, run as a stranger would. `before`: earlier runs of the same form."""
        contents, left_out = self._filled(form)
        with self._written(contents) as directory:
            check = check_repro(
                self._python,
                directory,
                form.facts.signature,
                timeout=form.limit + START_MARGIN,
                earlier=earlier(form, self.results) + before,
                in_eager=form.facts.in_eager,
                eager_runs=1 if form.program else _EAGER_RUNS,
                at_once=form.program is not None and form.facts.signature.kind in _UNTIMED,
                on_tick=self.ui.progress,
            )
        if form.program and form.program.stored and not self.options.include_values:
            reason = "repro.py needs stored tensor values, which are not in the bundle (--include-values includes them)"
            check = replace(check, reasons=(reason,))
        return _Attempt(form, contents, check, left_out)

    def with_proven_claims(self, attempt: _Attempt) -> _Attempt:
        """`attempt` with the claims of earlier stages that hold for its `repro.py`."""

        def fails_with(backend: str) -> bool:
            self.ui.progress(f"running repro.py with backend {backend}")
            with self._written(attempt.contents) as directory:
                fails = self._fails(attempt.candidate, directory, attempt.check.repeats)
                return fails({"TORCH_BISECT_BACKEND": backend}, None)

        checked_claims = check_claims(
            attempt.candidate, self.results, attempt.check, fails_with, against=attempt.against
        )
        if not checked_claims.dropped:
            return attempt
        contents, left_out = self._filled(checked_claims.form)  # without the claims in the docstring of repro.py
        return replace(
            attempt,
            candidate=checked_claims.form,
            contents=contents,
            left_out=left_out,
            dropped=checked_claims.dropped,
            lacking=checked_claims.lacking,
        )

    def told(self, attempt: _Attempt) -> Told:
        """What torch tells of the program of `attempt`, for those who maintain it."""
        with self._written(attempt.contents) as directory:
            fails = self._fails(attempt.candidate, directory, attempt.check.repeats)
            verified = attempt.check.verified
            return ask(self.case, attempt.candidate, (lambda set_: fails(set_, None)) if verified else None, self.ui)

    def without_source(self, attempt: _Attempt) -> _Attempt:
        """`attempt` without the user's source files. It is not verified by files that it lacks."""
        named = f"the {named_files(sources_of(self.case, attempt.candidate))}"
        check = attempt.check
        in_eager = "failed alike" if attempt.candidate.facts.in_eager else "passed"
        seen = f"; with them, on this machine, it failed as expected in {check.same} of {len(check.runs)} runs"
        proof = f"{seen}, and {in_eager} without torch.compile" if check.verified else ""
        reason = f"the bundle lacks {named}, which repro.py runs{proof}"
        contents, left_out = self._filled(attempt.candidate, include_source=False)
        return replace(
            attempt,
            contents=contents,
            left_out=left_out,
            check=replace(check, reasons=(reason, *check.reasons), needs=(*check.needs, named)),
            checked=attempt.contents,
        )

    def _filled(self, form: ReproForm, *, include_source: bool = True) -> tuple[Contents, list[str]]:
        values = self.options.include_values
        contents = Contents(self.redactor, every_word=values)
        left_out = fill(form, self.case, self.results, contents, include_values=values, include_source=include_source)
        return contents, left_out

    def _fails(
        self, form: ReproForm, directory: Path, repeats: int = 1
    ) -> Callable[[Mapping[str, str], Path | None], bool]:
        """A function that runs `repro.py` with variables and a directory, and says whether it fails as expected."""
        runs = max(repeats, min(_MOST_TRIES, earlier(form, self.results).repeats))

        def fails(variables: Mapping[str, str], beside: Path | None) -> bool:
            for _ in range(runs):
                self.ui.progress("looking for what repro.py needs from this machine")
                run = run_repro(
                    self._python, directory, timeout=form.limit + START_MARGIN, variables=variables, beside=beside
                )
                outcome = outcome_of(run.verdict, form.facts.signature, Strength.REBASED)
                if outcome is RunOutcome.FAILS_ALIKE:
                    return True
            return False

        return fails

    @property
    def _python(self) -> str:
        return self.results.observation.python or self.case.file.subject.python

    @contextmanager
    def _written(self, contents: Contents) -> Iterator[Path]:
        """Write the files to a directory, which is removed afterwards."""
        directory = self.case.path / "bundle.part"
        shutil.rmtree(directory, ignore_errors=True)
        try:
            contents.write(directory)
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _about(case: Case, chosen: _Attempt, reason: str) -> dict[str, object]:
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


def _conclude(case: Case, chosen: _Attempt, output: Path, reason: str, ui: Ui) -> None:
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
        ui.note(f"Not redacted, since they are also words of the report: {shown}{more}; --dry-run lists all.")
    if check.flaky:
        ui.warn(
            f"The failure is not deterministic: {check.rate}; {check.repeats} runs must pass before it counts as gone."
        )
    if not check.verified:
        ui.warn(f"The bundle is NOT VERIFIED: {reason}.")
    elif form.is_users_script:
        ui.warn(f"The bundle is not minimized: {reason}.")
    ui.done(f"{output.name}, {_standing(chosen)}")


def _standing(chosen: _Attempt) -> str:
    script = "" if chosen.candidate.program else ", runs the script"
    return f"{'verified' if chosen.check.verified else 'NOT VERIFIED'}{script}"
