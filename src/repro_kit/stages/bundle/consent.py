"""The user's consent to put trace, artifacts and logs, which hold model code, into the bundle. Nobody is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.trace_text import blank_payload_sums, without_model_code
from repro_kit.bundle.privacy.truncate import middle_cut, share
from repro_kit.case.case import Case
from repro_kit.session.options import BundleOptions

_DIRECTORIES = {"observe/trace": "trace", "observe/artifacts": "artifacts", "observe/logs": "logs"}
_EACH = 8 << 20  # bytes of one file
_ALL = 64 << 20  # bytes of all files; packed they are below the 25 MB that GitHub accepts


@dataclass(frozen=True)
class SharedText:
    """A file for the bundle: its name, its text, its role, and how many bytes were cut out."""

    name: str
    text: str
    role: str
    truncated: int


@dataclass(frozen=True)
class SharedTexts:
    """The files that the user agreed to share, and a sentence about the files that are left out."""

    texts: tuple[SharedText, ...] = field(default=())
    left_out: str = ""
    code: bool = False  # whether files that show the user's code may be shared

    def teach(self, redactor: Redactor) -> None:
        """Let `redactor` learn the secrets in the texts."""
        for text in self.texts:
            redactor.learn(blank_payload_sums(text.text) if text.role == "trace" else text.text, text.name)

    def add_to(self, contents: Contents) -> None:
        """Add the texts to `contents`."""
        for text in self.texts:
            contents.add_text(text.name, text.text, text.role, truncated=text.truncated)


def gate(case: Case, options: BundleOptions) -> SharedTexts:
    """The files that the user agreed to share with ``--trace``; ``--yes`` is no agreement."""
    files_of = {directory: _files(case.path / name) for name, directory in _DIRECTORIES.items()}
    if not any(files_of.values()):
        return SharedTexts()
    if options.trace in (None, "no"):
        return SharedTexts(
            left_out="Trace, artifacts and logs are left out, since they hold model code. `--trace yes` includes them; "
            "`--trace redacted` includes the trace without code."
        )
    if options.trace == "redacted":
        texts = [(f"trace/{name}", without_model_code(_read(path)), "trace") for name, path in files_of["trace"]]
        return SharedTexts(_cut(texts), "Artifacts, logs, and the code in the trace are left out (--trace redacted).")
    texts = [
        (f"{directory}/{name}", _read(path), directory.removesuffix("s"))
        for directory in files_of
        for name, path in files_of[directory]
    ]
    return SharedTexts(_cut(texts), code=True)


def _files(directory: Path) -> list[tuple[str, Path]]:
    paths = sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return [(path.relative_to(directory).as_posix(), path) for path in paths]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _cut(texts: list[tuple[str, str, str]]) -> tuple[SharedText, ...]:
    most = share([len(text) for _, text, _ in texts], _ALL, _EACH)

    def cut() -> Iterator[SharedText]:
        for name, text, role in texts:
            shown, truncated = middle_cut(text, most)
            yield SharedText(name, shown, role, truncated)

    return tuple(cut())
