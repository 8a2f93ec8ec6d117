"""The redactor of a case: what is private on this machine and in it."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from repro_kit.bundle.private import other_variables, secret_arguments, secret_variables
from repro_kit.bundle.redact import Redactor
from repro_kit.case import Case
from repro_kit.model.recipe import Recipe
from repro_kit.model.results import Environment, Observation
from repro_kit.model.serialize import to_data
from repro_kit.stages.bisect_report import bisected, commits_in
from repro_kit.stages.failures import tail


def redactor_of(case: Case, env: Environment, recipe: Recipe, variables: Mapping[str, str] = os.environ) -> Redactor:
    """It knows the paths and names of this machine, the values of `variables`, and the secrets of the command line."""
    subject = case.file.subject
    prefix = Path(env.executable).parent.parent if env.executable else None
    paths = [
        (str(case.path.resolve()), "<case>"),
        (subject.cwd, "<cwd>"),
        (str(Path.home()), "<home>"),
        *([(env.git.root, "<repo>")] if env.git else []),
        *([(str(prefix), "<env>")] if prefix else []),
    ]
    names = [(name, "<user>") for name in _users()] + [(name, "<host>") for name in _hosts()]
    known = {
        *_strings(to_data(recipe)),
        *env.packages,
        *env.packages.values(),
        env.python,
        env.platform,
        env.torch or "",
    }
    commits = {env.torch_git or "", (env.git.commit if env.git else None) or "", *commits_in(bisected(case))}
    redactor = Redactor(paths, names, {*commits, *known})
    redactor.add(secret_variables(variables))
    redactor.add(other_variables(variables, known), as_names=True)
    commands = [subject.argv]
    if case.has("observe/run.json"):
        commands.append(case.read("observe/run.json", Observation).argv)
    for argv in commands:
        redactor.add(secret_arguments(argv[1:]))
    for name in ("stdout.txt", "stderr.txt"):
        redactor.learn(tail(case.path / "observe" / name)[-200_000:])
    return redactor


def _users() -> Iterator[str]:
    with suppress(OSError, KeyError):  # a user id without a name
        yield getpass.getuser()
    yield Path.home().name


def _hosts() -> Iterator[str]:
    host = socket.gethostname()
    yield from (host, host.partition(".")[0])


def _strings(value: object) -> Iterator[str]:
    """All strings in a recipe's data: modes, backends, settings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (str(key), *_strings(item))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
