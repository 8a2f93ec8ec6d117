"""Turn the words of the command line into the oracle that a bisection runs on each build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from repro_kit.bisect.ranking import Clues
from repro_kit.bisect.store import DIRECTORY
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.case.case import Case
from repro_kit.commands.bisect.run_build import BuildOracle, CommandOracle, ReproOracle
from repro_kit.commands.bisect.suspect_commits import ManualRepro, clues_of
from repro_kit.errors import UsageError
from repro_kit.model.failure.signature import Signature
from repro_kit.model.measure.symptom import Symptom
from repro_kit.runner.subject_start import command
from repro_kit.session.case_paths import is_case
from repro_kit.session.script.subject_check import check_script
from repro_kit.session.strangers.repro_run import START_MARGIN, limits_of
from repro_kit.session.strangers.runnable import REPRO, entry_of
from repro_kit.session.strangers.trust import agree
from repro_kit.session.strangers.untrusted import UntrustedBundle, ask, claim_of, opened
from repro_kit.ui import Ui


@dataclass(frozen=True)
class BuildSubject:
    """What is run on each build, the default directory for the state, and what is known about the failure."""

    description: str
    oracle: BuildOracle
    state_directory: Path
    signature: Signature | None = None
    python: str | None = None
    clues: Clues = field(default_factory=Clues)
    manual_repro: ManualRepro = field(default_factory=lambda: ManualRepro((), Path()))
    untrusted: bool = False  # from a stranger: its runs get few environment variables


@contextmanager
def build_subject(
    words: Sequence[str], *, is_command: bool, timeout: float, ui: Ui | None, symptom: Symptom | None = None
) -> Iterator[BuildSubject]:
    """Open the subject that `words` name. With `symptom`, its runs are judged by that measurement.

    Code from a stranger is shown first, and the user is asked to agree; without a `ui` nobody is asked, and the caller
    runs nothing. Raises ReproKitError for words that cannot be run.
    """
    with _subject(words, is_command=is_command, timeout=timeout, ui=ui) as subject:
        yield subject if symptom is None else _measured(subject, symptom, timeout)


def _measured(subject: BuildSubject, symptom: Symptom, timeout: float) -> BuildSubject:
    """Return `subject` with its command judged by a symptom."""
    manual_repro = subject.manual_repro
    return replace(
        subject,
        description=f"{subject.description} ({symptom.text})",
        oracle=CommandOracle(manual_repro.words, manual_repro.directory, timeout, subject.untrusted, symptom),
        signature=Signature(symptom.kind),
    )


@contextmanager
def _subject(words: Sequence[str], *, is_command: bool, timeout: float, ui: Ui | None) -> Iterator[BuildSubject]:
    if not words:
        raise UsageError("Nothing to run: give a case, a bundle, a repro.py, a script, or -- COMMAND.")
    if is_command:
        yield _command(words, Path(Path(words[0]).name + ".bisect"), timeout)
        return
    if len(words) > 1:
        raise UsageError(f"A command with arguments goes after `--`: -- {' '.join(words)}")
    target = Path(words[0])
    if is_case(target) and not (target / "bundle" / "repro.py").is_file():
        case = Case.open(target)
        if ui is not None:
            agree(case, ui)
        yield _of_case(case, timeout)
    elif target.suffix == ".py" and target.name != "repro.py" and not target.with_name(MANIFEST).is_file():
        check_script(target, words[0])
        yield _command(["python", words[0]], Path(target.stem + ".bisect"), timeout)
    elif not target.exists():
        raise UsageError(f"{target} does not exist; give a case, a bundle, a repro.py, a script, or -- COMMAND.")
    else:
        with opened(target) as bundle:
            yield _of_repro(bundle, timeout, ui)


def _of_repro(bundle: UntrustedBundle, timeout: float, ui: Ui | None) -> BuildSubject:
    target, directory = bundle.target, bundle.directory
    claim = claim_of(bundle.whole, target)
    case = Case.open(target) if is_case(target) else None
    own = case if case is not None and case.is_own else None
    if own is None and ui is not None:
        ask(bundle, "each build", ui)
    limit = max(timeout, (claim.limit or 0) + START_MARGIN)
    signature = claim.signature or (case.file.signature if case else None)
    return BuildSubject(
        f"repro.py of {target.name}",
        ReproOracle(directory, limit, None if own else limits_of()),
        target / DIRECTORY if own else Path(target.name.removesuffix(".zip").removesuffix(".py") + ".bisect"),
        signature,
        own.file.subject.python if own else None,
        clues_of(signature, claim.layer, (directory / REPRO).read_text(encoding="utf-8", errors="replace")),
        ManualRepro(("python", entry_of(directory)), bundle.whole if own else directory, passing=own is None),
        untrusted=own is None,
    )


def _of_case(case: Case, timeout: float) -> BuildSubject:
    """Return the subject for a case without a bundle: the command of the case."""
    subject = case.file.subject
    words = ["python" if word == subject.python else word for word in command(subject)]
    description = f"{' '.join(words)} in {subject.cwd}"
    directory = case.path / DIRECTORY
    oracle = CommandOracle(tuple(words), Path(subject.cwd), timeout)
    manual_repro = ManualRepro(tuple(words), Path(subject.cwd))
    signature = case.file.signature
    return BuildSubject(
        description, oracle, directory, signature, subject.python, clues_of(signature, None, ""), manual_repro
    )


def _command(words: Sequence[str], directory: Path, timeout: float) -> BuildSubject:
    oracle, repro = CommandOracle(tuple(words), Path.cwd(), timeout), ManualRepro(tuple(words), Path.cwd())
    return BuildSubject(" ".join(words), oracle, directory, manual_repro=repro)
