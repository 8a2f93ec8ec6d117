"""What a tool may use and run: the client's directories, the code in words with a digest, and the user's consent."""

from __future__ import annotations

import hashlib
import os
import shlex
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import mcp_types as types

from repro_kit.bundle.archive.archive import FORMS
from repro_kit.case.case import Case, Subject
from repro_kit.commands.intake.exported_file import exported_file
from repro_kit.commands.intake.programs import is_trace
from repro_kit.errors import UsageError
from repro_kit.files import no_file
from repro_kit.repro_run.trust import loaded_code
from repro_kit.repro_run.untrusted import REPRO, opened
from repro_kit.runner.subject_start import command
from repro_kit.session.case_paths import is_case
from repro_kit.session.system import shown_name
from repro_kit.subject.subject_check import check_script, is_python
from repro_kit.subject.watched_recording import is_watched
from repro_kit.trace import summarise
from repro_kit.visible import visible

#: From this revision of the protocol on, a server answers a call with a question, and the client calls again.
ANSWERS_WITH_QUESTIONS = "2026-07-28"
KEY = "roots"
QUESTION = types.ListRootsRequest()


async def roots_of(ctx: Any, params: Any) -> tuple[Path, ...] | None:
    """The roots of the client; None if it has to be asked first, with `QUESTION`."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.roots is None:
        return (Path.cwd().resolve(),)
    if ctx.protocol_version < ANSWERS_WITH_QUESTIONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer revisions of the protocol call roots deprecated
            return _paths((await ctx.session.list_roots()).roots)
    answer = (getattr(params, "input_responses", None) or {}).get(KEY)
    return _paths(answer.roots) if isinstance(answer, types.ListRootsResult) else None


def _paths(roots: Sequence[types.Root]) -> tuple[Path, ...]:
    parts = [urlsplit(str(root.uri)) for root in roots]
    return tuple(Path(unquote(part.path)).resolve() for part in parts if part.netloc in ("", "localhost"))


def inside(path: Path, roots: Sequence[Path]) -> Path:
    """The path `path` without links. Raises UsageError if it lies outside of `roots`, or is neither a file nor
    a directory. The message does not reveal what is there.
    """
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a path"
        raise UsageError(f"{shown_name(path)} cannot be used: {reason}.") from None
    if not any(resolved.is_relative_to(root) for root in roots):
        named = ", ".join(map(str, roots)) or "none"
        raise UsageError(f"{shown_name(path)} lies outside of the directories that this server may use: {named}.")
    kind = no_file(resolved)
    if kind and kind != "a directory":
        raise UsageError(f"{shown_name(path)} is {kind}; give a file or a directory.")
    return resolved


def check_links(directory: Path, roots: Sequence[Path]) -> None:
    """Raise UsageError if a link below `directory` leads out of `roots`, or something there is not a plain file."""
    for path in _below(directory):
        if path.is_symlink() or no_file(path):
            inside(path, roots)


def check_output(output: str | None, target: Path, roots: Sequence[Path]) -> None:
    """Raise UsageError if what a tool writes for `target`, a case and its bundle, would lie outside of `roots`."""
    place, name = Path(output or "."), target.name
    if not place.is_dir():
        place, name = place.parent, place.name
    inside(place, roots)
    if is_case(place):
        check_links(place, roots)
    for path in place.iterdir() if place.is_dir() else ():
        if path.name.startswith(name.partition(".")[0]) and ".repro" in path.name:
            inside(path, roots)
            check_links(path, roots)


def _below(directory: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        yield from (Path(folder, name) for name in (*folders, *files))


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


def planned(words: Sequence[str], target: Path, roots: Sequence[Path], code: str | None = None) -> Planned:
    """What the command `words` would run of `target`, or of `code`, which is written there after the consent.

    Raises UsageError when it cannot be read, is nothing that runs, or has links out of `roots`.
    """
    if code is not None:
        texts, digest = [(str(target), code)], hashlib.sha256(code.encode())
    else:
        reads_logs = words[0] == "explain"
        _check_kind(target, roots, reads_logs=reads_logs)
        texts, digest = _of_bundle(target) if _is_bundle(target) else _content(target, roots, reads_logs=reads_logs)
    digest.update("\0".join(words).encode())
    shown = "\n".join(f"----- {name}\n{text}" for name, text in texts)
    more = f"\n… {len(shown) - _SHOWN} more characters, in {target}" if len(shown) > _SHOWN else ""
    what = "runs this code, and what it imports, on your machine, with your rights"
    question = f"repro-kit {' '.join(words)}\n{what}:\n\n{shown[:_SHOWN]}{more}"
    return Planned(visible(question), digest.hexdigest()[:32])


def _check_kind(target: Path, roots: Sequence[Path], *, reads_logs: bool) -> None:
    """Raise UsageError for a target that no command runs or reads: its content is not shown then."""
    if not target.exists():
        raise UsageError(f"{target} does not exist.")
    if target.is_dir():
        if not (is_case(target) or is_watched(target) or _is_bundle(target) or is_trace(target)):
            raise UsageError(f"{target} is a directory, but no case, no bundle and no trace.")
        check_links(target, roots)
    elif not (_is_bundle(target) or is_trace(target) or exported_file(target) or reads_logs):
        check_script(target, str(target))


def _of_bundle(target: Path) -> tuple[list[tuple[str, str]], hashlib._Hash]:
    """The texts of a bundle that run, as `verify` shows them, and a digest of all that runs."""
    digest = hashlib.sha256()
    with opened(target) as bundle:
        for name in sorted((*bundle.runs.texts, *bundle.runs.values)):
            digest.update(f"{name}\0".encode() + hashlib.sha256((bundle.directory / name).read_bytes()).digest())
        texts = [(name, (bundle.directory / name).read_text(encoding="utf-8")) for name in bundle.runs.texts]
        return texts, digest


def _content(target: Path, roots: Sequence[Path], *, reads_logs: bool) -> tuple[list[tuple[str, str]], hashlib._Hash]:
    """The code to show, and a digest of all files. Of a log that `reads_logs` alone nothing is shown."""
    digest = hashlib.sha256()
    paths = [target] if target.is_file() else sorted(path for path in target.rglob("*") if path.is_file())
    exported = exported_file(target)
    if exported is not None and exported.path != target:
        paths.append(inside(exported.path, roots))
    if is_case(target):
        paths += _scripts_of(Case.open(target).file.subject, roots)
    if len(paths) > _MOST_FILES or sum(path.stat().st_size for path in paths) > _MOST_BYTES:
        raise UsageError(f"{target} is too large to ask for consent; run the command in a terminal.")
    for path in paths:
        digest.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    is_read = reads_logs and not (is_case(target) or is_watched(target) or is_python(target))
    texts = [] if is_read else [text for path in paths for text in _code_in(path, target)]
    if is_case(target):
        subject = Case.open(target).file.subject
        texts.insert(0, ("the command of the case", f"{shlex.join(command(subject))}\nin {subject.cwd}"))
    if exported is not None:
        texts.append((f"{exported.path}, which torch loads", "\n".join(loaded_code(exported.path).lines)))
    return texts or [(str(target), "a log, which is read; nothing of it runs")], digest


def _scripts_of(subject: Subject, roots: Sequence[Path]) -> list[Path]:
    """The files of code that the command of a case names. Raises UsageError if it runs outside of `roots`."""
    directory = inside(Path(subject.cwd), roots)
    named = [directory / word for word in subject.argv if subject.form != "module"]
    return [inside(path, roots) for path in named if path.suffix in (".py", ".pyw") and path.is_file()]


def _code_in(path: Path, target: Path) -> Iterator[tuple[str, str]]:
    """The code in a file: a script, or the graphs in the log of a trace, of which nothing else can run."""
    if is_trace(path):
        yield from ((f"{path}, graph {graph.compile_id}", graph.text) for graph in summarise(path).runnables)
    elif path.suffix in ("", ".py", ".pyw") and not is_trace(target):
        yield str(path), path.read_text(encoding="utf-8", errors="replace")


def _is_bundle(target: Path) -> bool:
    if target.is_dir():
        return any((target / name).is_file() for name in (REPRO, f"bundle/{REPRO}"))
    return target.name == REPRO or target.name.endswith(FORMS)
