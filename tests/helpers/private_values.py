"""Private values of every place that a bundle could take them from, and how texts spell them."""

import functools
import hashlib
import html
import json
import os
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch
from urllib.parse import quote, quote_plus

import jsonschema
from cattrs.errors import BaseValidationError

from repro_kit.bundle.archive.manifest import SCHEMAS, schemas
from repro_kit.bundle.story.story import read_story
from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import Capture, Environment, GitState, Observation, ObservedFailure
from repro_kit.failure.failure import ExceptionLink, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.options.stages import BundleOptions
from repro_kit.repro_run.running import Check, ReproRun
from repro_kit.serialize import from_data
from repro_kit.stages.bundle import checking, stage
from repro_kit.ui import SilentUi

#: By the place where they stand; none says by its look that it is private.
VARIABLES = {"DB_PASSWORD": "hunter2", "CUSTOMER": "umbrella", "CODENAME": "plumtree", "TEAM_NAME": "Nightjar Six"}
BRANCH = "feature/penguin-merger"
CHANGED = ("umbrella-customers-2024.csv", "notes/acquisition_oslo.md", "old.txt -> takeover-lagoon.txt")
REMOTES = ("git@git.lagoon-labs.corp:secretwing/orchardnet.git", "https://code.marzipan.example/secretwing/orchardnet")
WORDS = (
    *(
        "gooseberry",
        "-p",
        "swordfish",
        "alice:opensesame",
        "--password",
        "Sunflower!",
        "--data",
        "/mnt/lake7/juniper.pq",
    ),
    *(
        "--name=badgerling",
        "--customer",
        "acme-rockets",
        "-kquicksilver9",
        "+trainer.site=wolfsburgh",
        "--pin",
        "482193",
    ),
    *("--epochs", "3", "--lr", "1e-3", "--backend", "inductor", "--dtype", "bfloat16", "-v"),
)
PACKAGE = "lagoon-secretlayers"
DIRECTORY = "marmalade-works"

#: Files that people read, and those that programs read to run the repro.
SHOWN = ("issue.md", "README.md", "report.html", "repro.py", "env.json", "recipe.toml", "story.json")

PRIVATE = (
    *VARIABLES.values(),
    *(BRANCH, "penguin-merger"),
    *("umbrella-customers-2024", "acquisition_oslo", "takeover-lagoon"),
    *("git.lagoon-labs.corp", "secretwing", "orchardnet", "code.marzipan.example"),
    *(
        "gooseberry",
        "swordfish",
        "opensesame",
        "Sunflower!",
        "juniper.pq",
        "badgerling",
        "acme-rockets",
        "quicksilver9",
    ),
    *(DIRECTORY, "wolfsburgh", "482193", PACKAGE),
)


def plant(case: Case) -> None:
    """Put all but the variables where the bundle of `case` could take them from."""
    subject = with_words(case.file.subject, WORDS)
    case.update(subject=subject)
    env = case.read("env.json", Environment)
    git = GitState(subject.cwd, "c" * 40, BRANCH, CHANGED, REMOTES)
    listed = f"OS: Linux\n[pip3] numpy==2.1.0\n[pip3] {PACKAGE}==4.2"
    case.write("env.json", replace(env, git=git, packages={**env.packages, PACKAGE: "4.2"}, collect_env=listed))
    observation = case.read("observe/run.json", Observation)
    case.write("observe/run.json", replace(observation, argv=("python", *subject.argv)))


def with_words(subject: Subject, words: tuple[str, ...]) -> Subject:
    """`subject` with `words` after the program's name."""
    return replace(subject, argv=(subject.argv[0], *words))


#: All of them but the package, as a message has them.
TOLD = f"cannot load {', '.join(value for value in PRIVATE if value != PACKAGE)}"


def spelt(value: str) -> set[str]:
    """`value` as a text may hold it."""
    shown = {value, repr(value)[1:-1], ascii(value)[1:-1], json.dumps(value)[1:-1]}
    shown |= {json.dumps(value, ensure_ascii=False)[1:-1], quote(value), quote(value, safe=""), quote_plus(value)}
    return shown | {html.escape(value), html.escape(value, quote=False)}


def small_case(place: Path, message: str = "cannot load") -> Case:
    """A case of a script that failed with `message`, with nothing private in it yet."""
    place = place / DIRECTORY
    place.mkdir(parents=True, exist_ok=True)
    python = sys.executable
    failure = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("BackendFailed", message),), text=message)
    observed = ObservedFailure(failure, Signature(Kind.COMPILE_ERROR, ("BackendFailed",), message))
    (place / "train.py").write_text("import sys\nprint(sys.argv)\n")
    case = Case.create(place / "x.repro", Subject("script", ("train.py",), str(place), python), "2030-01-01T00:00:00Z")
    argv = (python, "train.py")
    case.write("observe/run.json", Observation(argv, 1, None, False, 5.0, 0, python, "2", (observed,)))
    case.write("env.json", Environment("3.11.4", python, "Linux-6.1-x86_64", "2.13.0", packages={"numpy": "2.1.0"}))
    case.update(signature=observed.signature)
    return case


def left_in(files: dict[str, str], values: tuple[str, ...]) -> Iterator[str]:
    """A line about each of `values` that stands in one of `files`."""
    for value in values:
        for name, text in files.items():
            if any(spelling in name + text for spelling in spelt(value)):
                yield f"{value} in {name}"


def bundle_of(case: Case, variables: dict[str, str], options: BundleOptions) -> dict[str, str]:
    """The texts of the bundle that `case` makes under `variables`; `repro.py` is taken to fail as it should."""
    run = ReproRun(Verdict(Status.FAIL), "RuntimeError: cannot load", 1, outcome=RunOutcome.FAILS_ALIKE)
    check = Check((run,), ReproRun(Verdict(Status.PASS), ""))
    with patch.dict(os.environ, variables), patch.object(checking, "check_repro", lambda *_, **__: check):
        stage.run(case, options, SilentUi())
    with zipfile.ZipFile(case.path.with_name(f"{case.path.name}.zip")) as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}


def with_program(case: Case, program: str) -> None:
    """Let `case` have captured `program`."""
    (case.path / "capture").mkdir(exist_ok=True)
    (case.path / "capture/program.py").write_text(program)
    case.write("capture/capture.json", Capture("program", "dynamo", 1, "0/0", 1, signature=case.file.signature))
    case.record(StageRecord("capture", "done"))


def with_trace(case: Case, records: list[tuple[dict[str, object], str]]) -> None:
    """Let `case` have a trace of `records`: (data, payload) each."""
    lines = []
    for data, payload in records:
        summed = {**data, "has_payload": hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()}
        head = f"V1120 17:29:56.314000 42 torch/_dynamo/x.py:1] {json.dumps(summed)}"
        lines += [head, *("\t" + line for line in payload.split("\n"))]
    place = case.path / "observe/trace"
    place.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    (place / "dedicated_log_torch_trace_a.log").write_text(text, encoding="utf-8", errors="replace")


@functools.cache
def _validators() -> dict[str, jsonschema.Draft202012Validator]:
    """By the name of the schema; that each is a schema is tested in tests/bundle/archive/test_schemas.py."""
    return {name: jsonschema.Draft202012Validator(schema) for name, schema in schemas().items()}


def problems_of(files: dict[str, str]) -> list[str]:
    """What is wrong with the files of a bundle: JSON that does not load or fit, Python that does not compile."""
    found = []
    for name, (file, cls) in SCHEMAS.items():
        try:
            if file.endswith(".json") and file in files:
                data = json.loads(files[file])
                _validators()[name].validate(data)
                if name != "story":
                    from_data(data, cls)
            elif file in files:
                tomllib.loads(files[file])
        except (ValueError, jsonschema.ValidationError, BaseValidationError) as error:
            found.append(f"{file}: {error}")
    read_story({name: text.encode() for name, text in files.items()}, "the bundle")
    for name, text in files.items():
        try:
            if name.endswith(".py"):
                compile(text, name, "exec")
        except SyntaxError as error:
            found.append(f"{name}: {error}")
    return found + [
        f"{name}: {why}" for name, text in files.items() if name.endswith(".log") for why in _of_trace(text)
    ]


def _of_trace(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("V1120"):
            try:
                json.loads(line[line.index("] {") + 2 :])
            except ValueError as error:
                yield str(error)
