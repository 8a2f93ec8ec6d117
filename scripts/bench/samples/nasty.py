"""Bad command lines and damaged cases, which the trust bench and the tests give to repro-kit."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "helpers"))
from programs import FAILING
from repro_kit.bundle.archive.archive import CHECKSUMS, checksums, pack
from repro_kit.bundle.story.story import STORY, write_story
from repro_kit.case.case import STAGES, Case, StageRecord, Subject
from repro_kit.case.stage_results import BundleResult, Capture, Observation, ObservedFailure
from repro_kit.cli.main import COMMANDS, cli, main
from repro_kit.errors import Exit
from repro_kit.failure.failure import ExceptionLink, Failure, Status
from repro_kit.options.stages import Options
from repro_kit.pipeline.run import REGISTRY, settings_of
from repro_kit.serialize import dumps
from repro_kit.session.case_paths import write_options
from stories import story_of

_ROOT = Path(__file__).resolve().parents[3]
#: Text that is no valid value of any option.
TEXTS = (
    *("", " ", "-", "-1", "0", "9" * 400, "1e999", "1e308", "nan", "-inf", "0x10", "1_0", "é", "\u202e", "\0", "a\0b"),
    *(
        "\udcff",
        "a\udc80b",
        "\ud800",
        "\x1b]0;x\x07",
        "a\nb",
        "\r",
        "%s%n",
        "{}",
        "{0.__class__}",
        "'\"",
        "=",
        "x=",
        "=x",
    ),
    *(
        "x=y",
        ",",
        ",,",
        ":",
        "::",
        "a:b",
        "@",
        "x@y",
        ">",
        "a>1",
        "a" * 256,
        "a" * 5000,
        "é" * 200,
        "[",
        "(",
        "*",
        "\\",
    ),
    *("none", "None", "true", "torch", "2.13.0", "0/0", "[0/0]", "..", ".", "~", "~nobody/x", "$HOME", "a/" * 3000),
)
_STAGES = ("collect", "observe", "capture", "ablate", "minify", "bundle")
_NUMBERS = ("1", "2", "0.5", "30")
_COMMANDS = ("true", "false", "exit 125", "nowhere-at-all", "", "\udcff", "exit 1; \0", "'")
_SCRIPTS = {
    "plain.py": b"print('well')\n",
    "empty.py": b"",
    "latin.py": b"# -*- coding: latin-1 -*-\nname = '\xe9\xe8'\nprint(len(name))\n",
    "not_utf8.py": b"name = '\xe9\xe8'\n",
    "odd_coding.py": b"# coding: klingon\nprint(1)\n",
    "utf16.py": "print(1)\n".encode("utf-16"),
    "bom.py": b"\xef\xbb\xbfprint(1)\n",
    "nul.py": b"print(1)\0\n",
    "syntax.py": b"def f(:\n",
    "surrogate.py": b"raise ValueError('\\udcff')\n",
    "deep.py": b"x = " + b"(" * 5000 + b"\n",
    "no_program.py": b"# repro-kit program 1\nimport torch\n\nRECIPE = {\n",
    "notebook.ipynb": b"{}",
}


_UNEXPECTED = re.compile(r"unexpected:|unexpected error")


@dataclass(frozen=True)
class Ran:
    """One command line, and what was wrong with the way it ended (empty: nothing)."""

    words: tuple[str, ...]
    output: str
    wrong: str


def operands(directory: Path) -> list[Path]:
    """Files that command lines may name: scripts, a case, bundles, traces, and files of other kinds."""
    for name, content in _SCRIPTS.items():
        (directory / name).write_bytes(content)
    for failing in FAILING[:2]:
        (directory / f"{failing.name}_program.py").write_text(failing.text)
    story = story_of("accuracy")
    files = {
        STORY: write_story(story).encode(),
        "env.json": dumps(story.environment),
        "ablation.json": dumps(story.ablation),
        "repro.py": story.repro.encode(),
    }
    files[CHECKSUMS] = checksums(files)
    pack(directory / "good.repro.zip", files)
    (directory / "unpacked").mkdir()
    for name, data in files.items():
        (directory / "unpacked" / name).write_bytes(data)
    make_case(directory / "case.repro", directory / "plain.py")
    trace = next((_ROOT / "tests" / "trace" / "fixtures").glob("backend_error.log"))
    (directory / "traces").mkdir()
    shutil.copy(trace, directory / "traces" / "dedicated_log_torch_trace_x.log")
    (directory / "damaged.repro").mkdir()
    (directory / "damaged.repro" / "case.toml").write_bytes(b"schema = 1\n\xff")
    (directory / "watched.repro").mkdir()
    (directory / "watched.repro" / "watched.json").write_text('{"schema": 1, "python": 3}')
    (directory / "cut.repro.zip").write_bytes((directory / "good.repro.zip").read_bytes()[:200])
    (directory / "folder").mkdir()
    (directory / "sealed").mkdir(mode=0o000)
    (directory / "loop").symlink_to("loop")
    return sorted(directory.iterdir())


def make_case(path: Path, script: Path) -> Case:
    """A case at `path` in which every stage is done, with all files of the stages."""
    story = story_of("accuracy")
    failing = next(example for example in FAILING if example.name == "accuracy")
    case = Case.create(
        path, Subject("script", (script.name,), str(script.parent), sys.executable), "2030-01-01T00:00:00+00:00"
    )
    failure = Failure(failing.signature.kind, exceptions=(ExceptionLink("AssertionError", "not close"),))
    failures = (ObservedFailure(failure, failing.signature), ObservedFailure(failure, failing.signature, count=2))
    observed = Observation(
        (script.name,), 1, None, False, 5.0, 7, sys.executable, "2.13.0", failures, eager=Status.PASS, graphs=1
    )
    for name, value in {
        "observe/run.json": observed,
        "env.json": story.environment,
        "capture/capture.json": Capture("program", "dynamo", 1, "0/0", 9, signature=failing.signature),
        "ablation.json": story.ablation,
        "minify/minify.json": story.reduction,
        "bundle.json": BundleResult(f"{path}.zip", "program", True, True, True, story.layer),
    }.items():
        case.write(name, value)
    options = Options().with_(jobs=2)
    write_options(case, options)
    for name in ("capture/program.py", "minify/best.py", "minify/history/000.py", "minify/twin.py"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(failing.text)
    (path / "observe" / "trace").mkdir()
    fixture = _ROOT / "tests" / "trace" / "fixtures" / "backend_error.log"
    shutil.copy(fixture, path / "observe" / "trace" / "dedicated_log_torch_trace_x.log")
    for name in ("stdout.txt", "stderr.txt"):
        (path / "observe" / name).write_text("AssertionError: not close\n")
    case.update(signature=failing.signature)
    for name in STAGES:
        case.record(StageRecord(name, "done", settings=settings_of(REGISTRY[name], case, options.of(name))))
    return case


def invocations(seed: int, count: int, operand_paths: Sequence[Path], *, heavy: bool) -> Iterator[tuple[str, ...]]:
    """`count` command lines; a seed always gives the same ones. With `heavy`, some of them compile a model."""
    chance = random.Random(seed)
    names = [path.name for path in operand_paths]
    light = [name for name in names if name != "case.repro" and not name.endswith("_program.py")]
    for at in range(count):
        name = tuple(COMMANDS)[at % len(COMMANDS)]
        yield tuple(_invocation(chance, name, names if heavy or name not in _STAGES else light))


def _invocation(chance: random.Random, name: str, operand_names: list[str]) -> list[str]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    words = [name]
    for option in chance.sample(options, min(len(options), chance.choice((0, 0, 1, 1, 2, 4)))):
        words += _option(chance, option, operand_names)
    if "--timeout" in {opt for option in options for opt in option.opts} and chance.random() < 0.8:
        words += ["--timeout", "20"]
    form = chance.random()
    if form < 0.05:
        words += ["--", *chance.choice((("true",), ("false",), (), ("nowhere",), (chance.choice(TEXTS),)))]
    elif form < 0.1:
        words += ["-m", chance.choice((*TEXTS, "this", "json.tool"))]
    for _ in range(chance.choice((0, 1, 1, 1, 1, 2))):
        words.append(chance.choice(operand_names) if chance.random() < 0.75 else chance.choice(TEXTS))
    return words


def _option(chance: random.Random, option: click.Option, operand_names: list[str]) -> list[str]:
    word = chance.choice([*option.opts, *option.secondary_opts])
    if option.is_flag or option.count:
        return [word]
    value = chance.choice(TEXTS)
    well = chance.random() < 0.5
    if option.name in ("oracle", "build"):
        value = chance.choice(_COMMANDS)
    elif well and isinstance(option.type, click.Choice):
        value = chance.choice([str(choice) for choice in option.type.choices])
    elif well and isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
        value = chance.choice(_NUMBERS)
    elif well and option.name in ("python", "pythons"):
        value = chance.choice((sys.executable, sys.prefix, *operand_names))
    elif well:
        value = chance.choice(operand_names)
    return [f"{word}={value}"] if word.startswith("--") and chance.random() < 0.3 else [word, value]


def damaged(seed: int, count: int, case: Path) -> Iterator[tuple[str, bytes]]:
    """`count` names of files in `case`, each with a content that repro-kit does not write."""
    chance = random.Random(seed)
    names = sorted(str(path.relative_to(case)) for path in case.rglob("*") if path.is_file() and path.name != ".lock")
    names = [name for name in names if name.endswith((".json", ".toml", ".py", ".jsonl"))]
    for at in range(count):
        name = names[at % len(names)]
        content = (case / name).read_bytes()
        yield name, _damaged(chance, name, content)


def _damaged(chance: random.Random, name: str, content: bytes) -> bytes:
    ways: list[Callable[[], bytes]] = [
        lambda: content[: chance.randrange(len(content) + 1)],
        lambda: bytes(chance.choice((byte, byte, byte, chance.randrange(256))) for byte in content),
        lambda: name.encode() + b" = " + b"[" * 20_000,
        lambda: chance.choice((b"", b"\0", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 50_000, b"{" * 50_000, b"1e999")),
        lambda: content.replace(*chance.choice(((b"1", b"-1"), (b'"', b""), (b"true", b"null"), (b"\n", b"\r")))),
    ]
    if name.endswith(".json"):
        ways += [lambda: json.dumps(_changed(chance, json.loads(content))).encode()] * 5
    return chance.choice(ways)()


_VALUES: tuple[object, ...] = (
    *(
        None,
        True,
        0,
        -1,
        10**30,
        1e308,
        "",
        "x",
        "\0",
        "\ud800",
        "../../x",
        "a" * 5000,
        "\x1b[2J",
        [],
        {},
        [None],
        {"": 1},
    ),
    *([[[[]]]], {"a": {"b": {}}}, ["x"] * 50, [0, 1], float("nan"), float("inf"), "2030-13-45", "<b>", "inductor"),
)


def _changed(chance: random.Random, data: object) -> object:
    """`data` with one value changed or removed."""
    if chance.random() < 0.15 or not isinstance(data, dict | list) or not data:
        return chance.choice(_VALUES)
    if isinstance(data, list):
        at = chance.randrange(len(data))
        return [*data[:at], _changed(chance, data[at]), *data[at + 1 :]]
    key = chance.choice(sorted(data))
    if chance.random() < 0.1:
        return {name: value for name, value in data.items() if name != key}
    return {**data, key: _changed(chance, data[key])}


def readers(name: str) -> Iterator[tuple[str, ...]]:
    """Command lines that read file `name` of ``bad.repro``, a damaged copy of ``whole.repro``."""
    yield ("show", "bad.repro")
    yield ("diff", "whole.repro", "bad.repro")
    if name in ("case.toml", "options.json", "observe/run.json", "ablation.json"):
        yield ("ablate", "--plan", "bad.repro")
    if name == "ablation.json":
        yield ("ablate", "--plan", "--against", "bad.repro", "whole.repro")
    if name.startswith("minify"):
        yield ("minify", "--history", "bad.repro")
    if name in ("case.toml", "bundle.json"):
        yield ("verify", "bad.repro")
        yield ("explain", "bad.repro")


@contextlib.contextmanager
def quiet_world(directory: Path) -> Iterator[None]:
    """Work in `directory`, with a temporary home and without the network. A cache that is chosen stays."""
    home = directory.parent / "home"
    home.mkdir(exist_ok=True)
    nowhere = "http://127.0.0.1:9"
    cache = os.environ.get("XDG_CACHE_HOME") or str(home / "cache")  # what the compiler can do is known there
    variables = {
        **{"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_CACHE_HOME": cache},
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"), nowhere),
        **{"VIRTUAL_ENV": sys.prefix, "UV_OFFLINE": "1", "no_proxy": "", "NO_PROXY": ""},
    }
    before = Path.cwd()
    with mock.patch.dict(os.environ, variables):
        os.chdir(directory)
        try:
            yield
        finally:
            os.chdir(before)


def in_process(words: Sequence[str]) -> Ran:
    """The output of ``repro-kit WORDS``, run in this process."""
    nothing, out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(3))
    code: object = None
    problem = ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch("sys.stdin", nothing):
        try:
            main(words)
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            problem = f"{type(error).__name__} came out: {error!r}"
    text = ""
    for stream in (out, err):
        stream.flush()
        text += stream.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
    return Ran(tuple(words), text, problem or wrong(code, text))


def in_another(words: Sequence[str], directory: Path) -> Ran:
    """The output of ``repro-kit WORDS``, run in another process, as the bytes that a terminal would receive."""
    argv = [sys.executable, "-m", "repro_kit", *(word.replace("\0", "") for word in words)]
    encoded = [word.encode("utf-8", "surrogatepass" if "\ud800" in word else "surrogateescape") for word in argv]
    done = subprocess.run(
        encoded, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False
    )
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    return Ran(tuple(words), text, wrong(done.returncode, text))


def wrong(code: object, text: str) -> str:
    """What is wrong with the ending of a command; empty when nothing is."""
    if "Traceback (most recent call last)" in text:
        return "it shows a traceback"
    if _UNEXPECTED.search(text):
        return next(line for line in text.splitlines() if _UNEXPECTED.search(line))
    if code not in {*map(int, Exit)}:
        return f"exit status {code}"
    lines = [line for line in text.splitlines() if line.lower().startswith("error:")]
    if code == Exit.USAGE and (len(lines) > 1 or not text.strip()):
        return f"exit status 2 with {len(lines)} sentences"
    return ""
