"""What of a case is private, and what of its trace the user agreed to share."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.privacy.private_values import arguments, directories, of_repository, teach, variables
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.redact_files import blank_payload_sums, middle_cut, share, without_model_code
from repro_kit.bundle.privacy.vocabulary import Vocabulary, shareable
from repro_kit.case.case import Case
from repro_kit.case.stage_results import ENVIRONMENT, OBSERVATION, Environment
from repro_kit.errors import ReproKitError
from repro_kit.explain.report import page
from repro_kit.options.stages import BundleOptions
from repro_kit.recipe import Recipe
from repro_kit.runner.places import scratch
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.tlparse import tlparse, write_html
from repro_kit.serialize import to_data
from repro_kit.session.explained import explained_before
from repro_kit.stages.bundle.further_runs import bisected
from repro_kit.verdicts.observed_failures import tail

#: The names in torch that a captured program calls: a newer torch has operators that the vocabulary lacks.
_CALLED = re.compile(r"\btorch(?:\.(?!ops\.(?!aten|prims|higher_order))\w+)+")


def redactor_of(case: Case, recipe: Recipe, *, every_argument: bool = True) -> Redactor:
    """The redactor for `case`: it knows the paths, names and variables of this machine, and the words of the command.

    `every_argument`: if False, it knows only those words of the command that are secret.
    """
    subject = case.file.subject
    described = case.load(ENVIRONMENT)
    prefix = Path(described.executable).parent.parent if described.executable else None
    paths = [
        (str(case.path.resolve()), "<case>"),
        (subject.cwd, "<cwd>"),
        (str(Path.home()), "<home>"),
        *([(described.git.root, "<repo>")] if described.git else []),
        *([(str(prefix), "<env>")] if prefix else []),
    ]
    paths += [(path, f"<code-{number}>") for number, path in enumerate(_code_elsewhere(case, paths), 1)]
    names = [(name, "<user>") for name in _users()] + [(name, "<host>") for name in _hosts()]
    commits = {described.torch_git or "", *commits_in(bisected(case))}
    redactor = Redactor(paths, names, {*commits, *_shown(recipe, described)}, Vocabulary(_called(case)))
    teach(redactor, variables(os.environ))
    teach(redactor, directories([subject.cwd, *([described.git.root] if described.git else [])]))
    teach(redactor, of_repository(described.git, _own_names(case)))
    observed = [case.load(OBSERVATION).argv[1:]] if case.holds(OBSERVATION) else []
    shown = {Path(file).name for file in _own_files(case)}  # the bundle has these files by their names
    for words in (subject.argv[1:], *observed):
        private = arguments(words, every=every_argument)
        teach(redactor, [value for value in private if value.secret or value.value not in shown])
    for name in ("stdout.txt", "stderr.txt"):
        redactor.learn(tail(case.path / "observe" / name)[-200_000:])
    return redactor


def _shown(recipe: Recipe, described: Environment) -> set[str]:
    """Values that the bundle shows in any case."""
    shown = shareable(described)
    platform = re.findall(r"\w+", shown.platform)
    versions = {shown.python, shown.platform, shown.torch or "", *shown.packages, *shown.packages.values()}
    return {*_strings(to_data(recipe)), *versions, *platform}


def _called(case: Case) -> set[str]:
    """The parts of the names in torch that the captured program calls."""
    path = case.path / "capture" / "program.py"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return {part for name in _CALLED.findall(text) for part in name.split(".")}


def _own_names(case: Case) -> set[str]:
    """Parts of the paths of Python files that the command runs, which the bundle shows."""
    return {part for file in _own_files(case) for part in Path(file).parts}


def _own_files(case: Case) -> list[str]:
    """The Python files that the command names or imports."""
    modules = read_findings(case.path / "observe" / "probe").modules
    words = [word.partition("::")[0] for word in case.file.subject.argv]
    return [file for file in (*words, *map(str, modules)) if file.endswith(".py")]


def _code_elsewhere(case: Case, known: Sequence[tuple[str, str]]) -> list[str]:
    """The directories of the user's own Python files that are in none of the `known` ones, such as one below /tmp."""
    files = [Path(case.file.subject.cwd, file) for file in _own_files(case)]
    roots = [Path(path) for path, _ in known]
    own = dict.fromkeys(file.parent for file in files)
    return [str(path) for path in own if not any(path.is_relative_to(root) for root in roots)]


def _users() -> Iterator[str]:
    with suppress(OSError, KeyError):  # a user id without a name
        yield getpass.getuser()
    yield Path.home().name


def _hosts() -> Iterator[str]:
    host = socket.gethostname()
    yield from (host, host.partition(".")[0])


def _strings(value: object) -> Iterator[str]:
    """All strings in the data of a recipe: modes, backends, settings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (str(key), *_strings(item))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def commits_in(text: str) -> list[str]:
    """The hashes of commits in `text`, which are not secret."""
    return re.findall(r"\b[0-9a-f]{12,40}\b", text)


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


_TRACE = "trace/"


def add_pages(case: Case, contents: Contents) -> Iterator[str]:
    """Add the pages to `contents`, which has the redacted trace; yields a sentence for pages that are left out."""
    explained = explained_before(case)
    if explained is not None:
        report = explained.report(Path(case.file.subject.cwd), own=case.is_own)
        contents.learn(report)
        contents.add_made("explain.html", "explanation", lambda: page(contents.redact(report)))
    program = tlparse()
    if program is None:
        yield "tlparse's pages are left out, since tlparse is not installed: pip install 'repro-kit[tlparse]'."
        return
    try:
        _add_tlparse(program, contents)
    except ReproKitError as error:
        yield f"tlparse's pages are left out: {error}"


def _add_tlparse(program: str, contents: Contents) -> None:
    """Add all files that tlparse writes. It reads the redacted trace, so that its pages hold nothing private."""
    with scratch() as directory:
        logs = []
        for name, entry in contents.entries.items():
            if name.startswith(_TRACE) and name.endswith(".log"):
                log = Path(directory, "logs", name.removeprefix(_TRACE))
                log.parent.mkdir(parents=True, exist_ok=True)
                log.write_bytes(entry.data)
                logs.append(log)
        pages = Path(directory, "pages")
        write_html(program, logs, pages)
        for path in sorted(page_path for page_path in pages.rglob("*") if page_path.is_file()):
            text = path.read_text(encoding="utf-8", errors="replace")
            contents.add_text(f"tlparse/{path.relative_to(pages).as_posix()}", text, "tlparse")
