"""Consent: what a tool is about to run, in words, and a digest of it. Without consent nothing runs."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.bundle.archive.archive import FORMS
from repro_kit.case.case import Case
from repro_kit.errors import UsageError
from repro_kit.runner.subject_start import command
from repro_kit.session.case_paths import is_case
from repro_kit.session.strangers.runnable import REPRO
from repro_kit.session.strangers.untrusted import opened
from repro_kit.visible import visible

_SHOWN = 20_000  # characters of code in the question
_MOST_FILES = 2_000
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Planned:
    """A run that needs consent. The digest changes with the command and with every byte of the target."""

    question: str
    digest: str

    @property
    def refusal(self) -> str:
        """What a client reads that did not consent."""
        return (
            f"Nothing was run. {self.question}\n\nIf the user agrees to run exactly this, call the tool again with "
            f'the same arguments and "consent": "{self.digest}".'
        )


def planned(words: Sequence[str], target: Path) -> Planned:
    """What the command `words` would run of `target`. Raises UsageError when it cannot be read."""
    texts, digest = _content(target)
    digest.update("\0".join(words).encode())
    code = "\n".join(f"----- {name}\n{text}" for name, text in texts)
    more = f"\n… {len(code) - _SHOWN} more characters, in {target}" if len(code) > _SHOWN else ""
    what = "runs this code, and what it imports, on your machine, with your rights"
    question = f"repro-kit {' '.join(words)}\n{what}:\n\n{code[:_SHOWN]}{more}"
    return Planned(visible(question), digest.hexdigest()[:32])


def _content(target: Path) -> tuple[list[tuple[str, str]], hashlib._Hash]:
    """The texts to show, and a digest of all files. A bundle has those that run, as `verify` shows them."""
    digest = hashlib.sha256()
    if not target.exists():
        raise UsageError(f"{target} does not exist.")
    if not _is_bundle(target):
        paths = [target] if target.is_file() else sorted(path for path in target.rglob("*") if path.is_file())
        if len(paths) > _MOST_FILES or sum(path.stat().st_size for path in paths) > _MOST_BYTES:
            raise UsageError(f"{target} is too large to ask for consent; run the command in a terminal.")
        for path in paths:
            digest.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        shown = [path for path in paths if path.suffix == ".py"] or paths[:1]
        texts = [(str(path), path.read_text(encoding="utf-8", errors="replace")) for path in shown]
        if is_case(target):
            subject = Case.open(target).file.subject
            texts.insert(0, ("the command of the case", f"{shlex.join(command(subject))}\nin {subject.cwd}"))
        return texts, digest
    with opened(target) as bundle:
        for name in sorted((*bundle.runs.texts, *bundle.runs.values)):
            digest.update(f"{name}\0".encode() + hashlib.sha256((bundle.directory / name).read_bytes()).digest())
        texts = [(name, (bundle.directory / name).read_text(encoding="utf-8")) for name in bundle.runs.texts]
        return texts, digest


def _is_bundle(target: Path) -> bool:
    if target.is_dir():
        return any((target / name).is_file() for name in (REPRO, f"bundle/{REPRO}"))
    return target.name == REPRO or target.name.endswith(FORMS)
