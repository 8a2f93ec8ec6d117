"""The redactor of a case: knows what is private in the case and on this machine."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from repro_kit.bundle.privacy.private_values import arguments, directories, of_repository, teach, variables
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.shareable import shareable
from repro_kit.bundle.privacy.vocabulary import Vocabulary
from repro_kit.case.case import Case
from repro_kit.case.handles import ENVIRONMENT, OBSERVATION
from repro_kit.case.stage_results import Environment
from repro_kit.model.recipe import Recipe
from repro_kit.model.serialize import to_data
from repro_kit.runner.read_findings import read_findings
from repro_kit.session.verdicts.observed_failures import tail
from repro_kit.stages.bundle.bisection import bisected

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
