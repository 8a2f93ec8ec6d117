"""Write one form of `repro.py` with its files, run it as a stranger would, and find what it needs of this machine."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.vocabulary import is_allowed, is_secret
from repro_kit.case.case import Case
from repro_kit.failure.failure import Status
from repro_kit.failure.signature import RunOutcome, Strength, outcome_of
from repro_kit.options.stages import BundleOptions
from repro_kit.reduce.boundary import needed
from repro_kit.reduce.flaky import NO_RUNS, RUNS_BEFORE_DETERMINISTIC, Tally
from repro_kit.repro_run.running import START_MARGIN, Check, check_repro, run_repro
from repro_kit.runner.supervised import PROBE
from repro_kit.stages.bundle.answers import TorchReply, ask
from repro_kit.stages.bundle.claims import CASTS, SCRIPT_RUNS, casts_may_explain, check_claims, earlier
from repro_kit.stages.bundle.form_files import fill, named_files, sources_of
from repro_kit.stages.bundle.forms import CaseResults, ReproForm
from repro_kit.ui import Ui

HOME, DIRECTORY = "HOME", "PWD"  # the home and the working directory, each restored as a whole

#: Variables that each run sets itself, and variables that would make it write to the user's files.
_NEVER = re.compile(
    r"_|SHLVL|OLDPWD|TMP|TEMP|TMPDIR|\w+_CACHE_DIR|PYTHONDONTWRITEBYTECODE|PYTHONPYCACHEPREFIX|REPRO_\w+|"
    r"TORCH_D?TRACE|TORCH_LOGS_OUT|TORCH_COMPILE_DEBUG(_DIR)?|TORCH_COMPILE_DISABLE"
)
#: Variables that have no effect once Python has started, or that belong to the machine.
_TOO_LATE = re.compile(r"PYTHON\w+|MALLOC_\w+|CC|CXX|RANK|WORLD_SIZE|LOCAL_RANK|CUDA_VISIBLE_DEVICES")
#: Variables that choose the compiler of generated code, and where it looks.
OF_COMPILERS = ("CC", "CXX", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")
_CONFIRMED = 3  # runs that must fail with the needs that were found
_PACKAGE = Path(__file__).resolve().parents[3]  # the directory on the path for `import repro_kit`


@dataclass(frozen=True)
class Needs:
    """Names of the variables that `repro.py` needs. `HOME` and `DIRECTORY` mean files in these directories."""

    names: tuple[str, ...]
    sure: bool = True  # whether each name is needed; if not, only some may be

    def words(self, carried: Mapping[str, str]) -> tuple[str, ...]:
        """The needs in words, without the `carried` variables."""
        not_carried = [name for name in self.names if name not in carried]
        if not self.sure and len(not_carried) > 1:
            return (f"some of the environment variables {', '.join(not_carried)}",)
        return tuple(map(_word, not_carried))


def _word(name: str) -> str:
    if name == HOME:
        return "a file in the home directory"
    if name == DIRECTORY:
        return "a further file in the working directory"
    return f"the environment variable {name}"


def find_needs(
    fails: Callable[[Mapping[str, str], Path | None], bool], variables: Mapping[str, str], directory: Path
) -> Needs | None:
    """Which of `variables` and `directory` `repro.py` needs to fail; None if it passes even with all of them.

    `fails` runs `repro.py` with variables restored, and with the files of a directory (or None) beside it. The search
    asks about four times the logarithm of the number of variables, and a few times more to exclude chance. A result
    without names means that `repro.py` fails with nothing restored, since its failure is flaky.
    """
    items = [*(name for name in sorted(variables) if _can_matter(name, variables)), DIRECTORY]

    def ask(sets: Sequence[Sequence[int]]) -> list[bool]:
        return [fails(*_put_back([items[at] for at in each], variables, directory)) for each in sets]

    def outcomes(sets: Sequence[Sequence[int]]) -> list[RunOutcome]:
        return [RunOutcome.FAILS_ALIKE if failed else RunOutcome.PASSES for failed in ask(sets)]

    (all_of_it,) = ask([range(len(items))])
    if not all_of_it:
        return None
    if any(ask([()])[0] for _ in range(RUNS_BEFORE_DETERMINISTIC)):
        return Needs(())
    for group in (_torchs(items), [items.index(name) for name in (HOME, DIRECTORY) if name in items]):
        if group and ask([group])[0]:
            break
    else:
        group = list(range(len(items)))
    needed_numbers, sure = needed(group, outcomes, budget=4 * math.ceil(math.log2(len(group) + 2)))
    return Needs(tuple(items[at] for at in needed_numbers), sure) if all(ask([needed_numbers] * _CONFIRMED)) else None


def carried(needs: Needs, variables: Mapping[str, str], redact: Callable[[str], str], *, late: bool) -> dict[str, str]:
    """The needed variables that `repro.py` may set itself: they concern the compiler, and hold nothing private.

    `late`: `repro.py` sets them in the process that compiles, after Python has started.
    """
    return {
        name: variables[name]
        for name in needs.names
        if is_allowed(name)
        and not is_secret(name)
        and not (late and _TOO_LATE.fullmatch(name))
        and redact(variables[name]) == variables[name]
        and os.sep not in variables[name]
    }


def _torchs(items: Sequence[str]) -> list[int]:
    return [at for at, name in enumerate(items) if is_allowed(name)]


def _can_matter(name: str, variables: Mapping[str, str]) -> bool:
    return name != DIRECTORY and not _NEVER.fullmatch(name) and bool(_value(name, variables[name]))


def _put_back(
    names: Sequence[str], variables: Mapping[str, str], directory: Path
) -> tuple[dict[str, str], Path | None]:
    settled = {name: _value(name, variables[name]) for name in names if name != DIRECTORY}
    return settled, directory if DIRECTORY in names else None


def _value(name: str, value: str) -> str:
    """The value of a variable, without the directories of repro-kit in PYTHONPATH."""
    if name != "PYTHONPATH":
        return value
    own_paths = (_PACKAGE, PROBE.resolve())
    return os.pathsep.join(word for word in value.split(os.pathsep) if word and Path(word).resolve() not in own_paths)


_MOST_TRIES = 5  # runs of a flaky failure for one question of `find_needs`


@dataclass(frozen=True)
class CheckedForm:
    """A candidate with its files and its check."""

    candidate: ReproForm
    contents: Contents
    check: Check
    left_out: list[str]
    dropped: tuple[str, ...] = ()  # claims of earlier stages that do not hold for it
    lacking: int = 0  # runs that each cell of the ablation must pass, if too few are the reason
    against: str = ""  # why no claim of an earlier stage holds for it
    checked: Contents | None = None  # what was checked, if the user's source files are not in `contents`

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


@dataclass(frozen=True)
class Checking:
    """Writes and checks `repro.py` in its forms."""

    case: Case
    results: CaseResults
    redactor: Redactor
    options: BundleOptions
    ui: Ui

    def with_needs(self, form: ReproForm) -> CheckedForm:
        """`form`, checked. If it passes, find what it needs, and let `repro.py` set the needed variables."""
        attempt = self.attempt(form)
        if attempt.check.same:
            return attempt
        with self._written(attempt.contents) as directory:
            needs = find_needs(
                self._fails(form, directory, "looking for what repro.py needs from this machine"),
                os.environ,
                Path(self.case.file.subject.cwd),
            )
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

    def with_any_compiler(self, attempt: CheckedForm) -> CheckedForm:
        """`attempt`; not verified if `repro.py` passes once the user's choice of a C++ compiler is left out.

        Another machine has its own values of these variables.
        """
        chosen = [name for name in OF_COMPILERS if os.environ.get(name)]
        if not chosen or not attempt.check.verified:
            return attempt
        if not self._passes(attempt, f"running repro.py without {', '.join(chosen)}", without=chosen):
            return attempt
        words = tuple(f"the environment variable {name}" for name in chosen)
        passes = f"repro.py passes without {' and '.join(words)}"
        reason = f"{passes}: the compiler or the headers there are the cause"
        return replace(attempt, check=replace(attempt.check, reasons=(reason,), needs=words), against=passes)

    def with_narrow_casts(self, attempt: CheckedForm) -> CheckedForm:
        """`attempt`; not verified if its wrong result is right once Inductor rounds to narrow dtypes as eager does.

        A fused kernel leaves these roundings out, which torch documents and does not call a bug. Where the user has
        rounding count as a failure, it is no reason.
        """
        signature, observed = attempt.candidate.facts.signature, self.case.file.signature
        files = [entry.data.decode() for name, entry in attempt.contents.entries.items() if name.endswith(".py")]
        is_asked_for = observed is not None and observed.rounding
        if is_asked_for or not attempt.check.verified or not casts_may_explain(signature, files):
            return attempt
        if not self._passes(attempt, f"running repro.py with {CASTS}=1", variables={CASTS: "1"}):
            return attempt
        reason = f"repro.py passes with {CASTS}=1: the wrong result is a rounding that a fused kernel leaves out"
        return replace(attempt, check=replace(attempt.check, reasons=(reason,)))

    def _passes(
        self,
        attempt: CheckedForm,
        words: str,
        *,
        variables: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
    ) -> bool:
        """Whether `repro.py` passes with some variables set, or left out. `words`: what the user sees meanwhile."""
        self.ui.progress(words)
        limit = attempt.candidate.limit + START_MARGIN
        with self._written(attempt.contents) as directory:
            run = run_repro(self._python, directory, timeout=limit, variables=variables, without=without)
        return run.verdict.status is Status.PASS

    def attempt(self, form: ReproForm, before: Tally = NO_RUNS) -> CheckedForm:
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
                eager_runs=1 if form.program else SCRIPT_RUNS,
                at_once=form.program is not None and not form.facts.signature.kind.policy.alone,
                on_tick=self.ui.progress,
            )
        if form.program and form.program.stored and not self.options.include_values:
            reason = "repro.py needs stored tensor values, which are not in the bundle (--include-values includes them)"
            check = replace(check, reasons=(reason,))
        return CheckedForm(form, contents, check, left_out)

    def with_proven_claims(self, attempt: CheckedForm) -> CheckedForm:
        """`attempt` with the claims of earlier stages that hold for its `repro.py`."""

        def fails_with(backend: str) -> bool:
            with self._written(attempt.contents) as directory:
                fails = self._fails(
                    attempt.candidate, directory, f"running repro.py with backend {backend}", attempt.check.repeats
                )
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

    def told(self, attempt: CheckedForm) -> TorchReply:
        """Further facts about the program of `attempt`, from torch, for its maintainers."""
        with self._written(attempt.contents) as directory:
            words = "running repro.py with the line that replays the failure"
            fails = self._fails(attempt.candidate, directory, words, attempt.check.repeats)
            verified = attempt.check.verified
            return ask(self.case, attempt.candidate, (lambda set_: fails(set_, None)) if verified else None, self.ui)

    def without_source(self, attempt: CheckedForm) -> CheckedForm:
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
        self, form: ReproForm, directory: Path, words: str, repeats: int = 1
    ) -> Callable[[Mapping[str, str], Path | None], bool]:
        """A function that runs `repro.py` with variables and a directory, and returns whether it fails as expected.

        `words`: what the user sees meanwhile.
        """
        runs = max(repeats, min(_MOST_TRIES, earlier(form, self.results).repeats))

        def fails(variables: Mapping[str, str], beside: Path | None) -> bool:
            for _ in range(runs):
                self.ui.progress(words)
                run = run_repro(
                    self._python, directory, timeout=form.limit + START_MARGIN, variables=variables, beside=beside
                )
                if outcome_of(run.verdict, form.facts.signature, Strength.REBASED) is RunOutcome.FAILS_ALIKE:
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
