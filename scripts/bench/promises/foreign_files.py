"""What a file from elsewhere can do: archives, special files, terminal sequences, unlisted files, strange cases."""

from __future__ import annotations

import hashlib
import json
import os
import py_compile
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson
import tomli_w

from attempts import Told, run_all
from promises import Row
from repro_kit.builds.build_source import Ready
from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import Reduction, ReductionStep
from repro_kit.commands.bisect.subject import build_subject
from repro_kit.serialize import dumps
from repro_kit.ui import SilentUi
from samples.hostile_files import (
    BESIDE,
    MIB,
    Hostile,
    archives,
    bundle_of,
    sealed,
    story_of,
    write_tar_of,
    write_zip,
)
from samples.hostile_text import CHARACTERS, SEQUENCES, raw_in
from samples.special_files import SPECIAL, write_special

_MOST = 192 * MIB  # that a command may take for any archive
_COMMANDS_OF_A_CASE = ("collect", "observe", "capture", "ablate", "minify", "bundle", "explain", "explain --try")


def measure(size: str, scratch: Path) -> list[Row]:
    """The rows; `small` has fewer archives, smaller bombs, one ending a file, and the sequences several at a time."""
    large = size == "full"
    os.environ["XDG_STATE_HOME"] = str(scratch / "state")
    places = [scratch / name for name in ("archives", "special", "terminal", "unlisted", "cases")]
    for directory in places:
        directory.mkdir()
    return [
        _row("hostile archives are refused, or shown in bounded memory", _archives(places[0], large=large)),
        _row("a file that is none ends in one sentence, and is not waited for", _special(places[1], large=large)),
        _row("no byte of a stranger's reaches the terminal as it is", _terminal(places[2], large=large)),
        _row("what was not shown does not run", _unlisted(places[3])),
        _row("a case from elsewhere runs nothing without a yes", _cases(places[4])),
    ]


def _row(promise: str, attempts: Iterable[tuple[str, str]]) -> Row:
    """Of (attempt, what went wrong) pairs."""
    outcomes = list(attempts)
    broken = tuple(f"{name}: {wrong}" for name, wrong in outcomes if wrong)
    return Row(promise, len(outcomes), len(outcomes) - len(broken), broken=broken)


# -- archives ----------------------------------------------------------------------------------------------------------


def _archives(directory: Path, *, large: bool) -> Iterator[tuple[str, str]]:
    asked: list[tuple[Hostile, list[str]]] = []
    for number, hostile in enumerate(archives(large=large)):
        path = directory / "in" / f"{number}{hostile.ending}"
        path.parent.mkdir(exist_ok=True)
        hostile.write(path)
        asked.append((hostile, ["show", str(path)]))
        if large:
            asked.append((hostile, ["diff", str(path), str(path)]))
        if hostile.refused and not hostile.shown_only:
            asked.append((hostile, ["verify", "--yes", str(path)]))
    before = sorted(directory.rglob("*"))
    for (hostile, argv), attempt in zip(asked, run_all([argv for _, argv in asked], directory), strict=True):
        yield f"{argv[0]} {hostile.name}", _wrong(attempt, refused=hostile.refused)
    left = sorted(set(directory.rglob("*")) - set(before) - {directory / "asked.json", directory / "told.json"})
    yield "files that are left", " ".join(map(str, left))


def _wrong(attempt: Told, *, refused: bool) -> str:
    if refused and not attempt.is_one_sentence:
        return f"exit {attempt.exit}: {attempt.output[-300:]}"
    if attempt.exit is None or "unexpected" in attempt.output or "Traceback" in attempt.output:
        return attempt.output[-300:]
    return f"{attempt.grown / MIB:.0f} MiB" if attempt.grown > _MOST else ""


# -- special files -----------------------------------------------------------------------------------------------------


def _special(directory: Path, *, large: bool) -> Iterator[tuple[str, str]]:
    good = directory / "good.zip"
    write_zip(good, sealed(bundle_of()))
    asked = []
    for number, kind in enumerate(SPECIAL):
        for ending in (".zip", ".tar.gz", ".py", ".log", "") if large else ((".zip", ".py")[number % 2],):
            path = directory / f"{kind}{ending}"
            write_special(path, kind)
            asked += [(kind, argv) for argv in _on_a_path(str(path), str(good), ending)]
        if kind not in ("unreadable", "sparse"):
            asked += [(kind, argv) for argv in _within(directory / f"{kind}.repro", kind)]
    for (kind, argv), attempt in zip(asked, run_all([argv for _, argv in asked], directory), strict=True):
        wrong = "" if attempt.is_one_sentence else f"exit {attempt.exit}: {attempt.output[-300:]}"
        yield f"{kind}: {' '.join(Path(word).name for word in argv)}", wrong or _wrong(attempt, refused=True)


def _on_a_path(path: str, good: str, ending: str) -> Iterator[list[str]]:
    yield from (["show", path], ["diff", good, path], ["diff", path, good], ["verify", "--yes", path])
    yield ["ablate", "--against", path, "train.py"]
    yield from ([command, path] for command in ("collect", "bundle", "minify", "explain"))
    if ending == ".zip":
        yield from (["bisect", "--yes", path], ["nightly", "--yes", path], ["explain", "--against", path, path])
        yield from ([command, path] for command in ("observe", "capture", "ablate"))


def _within(case: Path, kind: str) -> Iterator[list[str]]:
    """Cases and unpacked bundles with such a file in them."""
    unpacked = case.with_suffix(".unpacked")
    for directory in (case, unpacked):
        directory.mkdir()
    (case / "case.toml").write_text("schema = 1\n")
    write_special(case / "env.json", kind)
    for name, data in bundle_of().items():
        if name not in ("story.json", "repro.py"):
            (unpacked / name).write_bytes(data)
    for name in ("story.json", "repro.py"):
        write_special(unpacked / name, kind)
    yield from (["show", str(case)], ["bundle", str(case)], ["verify", "--yes", str(case)])
    yield from (["show", str(unpacked)], ["verify", "--yes", str(unpacked)], ["bisect", "--yes", str(unpacked)])


# -- the terminal ------------------------------------------------------------------------------------------------------


def _terminal(directory: Path, *, large: bool) -> Iterator[tuple[str, str]]:
    texts = [text for text in (*SEQUENCES, *CHARACTERS) if raw_in(text)]
    groups = [texts[at : at + 1] for at in range(len(texts))] if large else [texts[at::3] for at in range(3)]
    asked: list[tuple[list[str], list[str]]] = []
    for number, group in enumerate(groups):
        at = directory / str(number)
        at.mkdir()
        asked += [(group, argv) for argv in _printing(at, " ".join(group))]
    for (group, argv), attempt in zip(
        asked, run_all([argv for _, argv in asked], directory, terminal=True), strict=True
    ):
        raw = raw_in(attempt.output)
        crashed = "unexpected" if attempt.exit is None or "error: unexpected" in attempt.output else ""
        for text in group:
            name = f"{argv[0]} {text!r}"
            yield name, crashed or ("reached the terminal" if raw & set(text) else "")


def _printing(directory: Path, text: str) -> Iterator[list[str]]:
    """Command lines that print `text`, which is in every field of a bundle, a case and two traces."""
    files = bundle_of(story_of(text))
    files["repro.py"] = f"# {text}".replace("\0", "").replace("\n", "").replace("\r", "").encode()
    bundle = directory / "a.zip"
    write_zip(bundle, sealed({**files, "files/a.py": files["repro.py"]}))
    other = directory / "b.zip"
    write_zip(other, sealed(bundle_of(story_of(text + "x"))))
    case = directory / "c.repro"
    case.mkdir()
    subject = {"form": "script", "argv": [text, text], "cwd": text, "python": text}
    stage = {"name": "bundle", "status": "done", "note": text, "settings": text}
    about = {"schema": 1, "created": text, "subject": subject, "stages": [stage]}
    (case / "case.toml").write_text(tomli_w.dumps(about))
    for name, data in files.items():
        (case / "bundle" / name).parent.mkdir(parents=True, exist_ok=True)
        (case / "bundle" / name).write_bytes(data)
    step = ReductionStep(text, 1, 1, text)
    (case / "minify").mkdir()
    (case / "minify" / "minify.json").write_bytes(dumps(Reduction(1, 1, 1, 1.0, True, True, (step,))))
    damaged = directory / "d.repro"
    damaged.mkdir()
    (damaged / "case.toml").write_text(json.dumps(text), encoding="utf-8")
    log, plain = directory / "a.log", directory / "plain.txt"
    log.write_bytes(b"".join(_with_text(_trace(), text)))
    plain.write_text(_LOGGED.replace("TEXT", text.replace("\n", " ")), encoding="utf-8")
    named = str(directory / text.replace("\0", "").replace("/", "")[:100])
    yield from (["show", str(bundle)], ["show", "--json", str(bundle)], ["diff", str(bundle), str(other)])
    yield from (["verify", str(bundle)], ["bisect", str(bundle)], ["diff", "--json", str(bundle), str(other)])
    for path in (case, damaged):
        yield from (["show", str(path)], ["collect", str(path)], ["verify", "--json", str(path)])
    yield from (["minify", "--history", str(case)], ["bundle", "--yes", str(case)])
    for path in (log, plain):
        yield from (["explain", "--section", "all", str(path)], ["explain", "--json", str(path)])
    yield from (["explain", "--list", str(log)], ["explain", "--against", str(plain), "--section", "all", str(plain)])
    yield from ([command, named] for command in ("show", "verify", "collect", "minify", "explain", "bisect"))
    yield from (["show", f"--{named}"], [named], ["bundle", "--", named], ["verify", "--python", named, str(bundle)])


_LOGGED = """V1120 17:29:56.314000 4244 torch/_dynamo/x.py:1] [0/0] [__graph_breaks] Graph break in user code at TEXT:3
V1120 17:29:56.314000 4244 torch/_dynamo/x.py:1] [0/0] [__graph_breaks] Reason: Unsupported: TEXT
V1120 17:29:57.314000 4244 torch/_dynamo/x.py:2] [0/1] [__recompiles] Recompiling function TEXT in TEXT:7
V1120 17:29:57.314000 4244 torch/_dynamo/x.py:2] [0/1] [__recompiles]     triggered by: TEXT
V1120 17:29:57.314000 4244 torch/_dynamo/x.py:2] [0/1] [__recompiles]     - 0/0: TEXT == TEXT
"""


def _trace() -> bytes:
    """A small trace of a compile that breaks and fails."""
    frame = {"line": 3, "name": "f", "filename": 0, "loc": "x.sin()"}
    at = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    break_text = "Graph break in user code at train.py:3\nGraph Break Reason: no\nUser code traceback:\n  a"
    metrics = {"compile_id": "0/0", "fail_type": "RuntimeError", "fail_reason": "no", "co_name": "f"}
    records = (
        ({"str": ["train.py", 0]}, ""),
        ({"dynamo_start": {"stack": [frame]}, **at}, ""),
        ({"artifact": {"name": "dynamo_graph_break_reason", "encoding": "string"}, **at}, break_text),
        ({"dynamo_output_graph": {"sizes": {"x": [2]}}, **at}, "class GraphModule:\n    pass"),
        ({"create_symbol": {"symbol": "s0", "val": "2", "source": "L['x']", "user_stack": [frame]}, **at}, ""),
        ({"compilation_metrics": metrics, **at}, ""),
    )
    lines = [
        b"V1120 17:29:56.314000 4244 torch/_dynamo/utils.py:1] " + orjson.dumps(_summed(*record)) for record in records
    ]
    return b"\n".join(
        line + b"".join(b"\n\t" + part.encode() for part in payload.splitlines())
        for line, (_, payload) in zip(lines, records, strict=True)
    )


def _summed(data: dict[str, object], payload: str) -> dict[str, object]:
    digest = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    return {**data, "has_payload": digest} if payload else data


def _with_text(trace: bytes, text: str) -> Iterator[bytes]:
    """The trace with `text` at the end of every text in it, payloads too."""
    clean = text.replace("\n", " ").replace("\r", " ")
    lines = trace.splitlines()
    for at, line in enumerate(lines):
        if line.startswith(b"\t"):
            continue
        head, _, data = line.partition(b"] {")
        payload = []
        for following in lines[at + 1 :]:
            if not following.startswith(b"\t"):
                break
            payload.append(following[1:].decode() + clean)
        record = _ended(orjson.loads(b"{" + data), clean)
        record.pop("has_payload", None)
        whole = _summed(record, "\n".join(payload))
        yield head + b"] " + orjson.dumps(whole) + b"\n"
        yield from (b"\t" + line.encode() + b"\n" for line in payload)


def _ended(data: object, text: str) -> dict[str, object]:
    kept = ("dynamo_graph_break_reason", "string")
    match data:
        case str():
            return data if data in kept else data + text  # type: ignore[return-value]
        case list():
            return [_ended(value, text) for value in data]  # type: ignore[return-value]
        case dict():
            return {name: _ended(value, text) for name, value in data.items()}
    return data  # type: ignore[return-value]


# -- what runs ---------------------------------------------------------------------------------------------------------

_LOOKS = """
import importlib.util, json, os, sys
root = os.path.dirname(os.path.abspath(__file__))
files = [os.path.relpath(os.path.join(at, name), root) for at, _, names in os.walk(root) for name in names]
origins = {{name: importlib.util.find_spec(name) for name in {names!r}}}
found = [name for name, spec in origins.items() if spec and (spec.origin or "").startswith(root)]
told = {{"files": files, "found": found, "path": [it for it in sys.path if os.path.abspath(it or ".") == root]}}
with open({report!r}, "a") as file:
    file.write(json.dumps(told) + "\\n")
raise ValueError("boom")
"""


def _unlisted(directory: Path) -> Iterator[tuple[str, str]]:
    """Each file of `BESIDE` beside a `repro.py` that looks for it, in each form of a bundle and way to run it."""
    report, marker = directory / "report.jsonl", directory / "ran"
    names = sorted({Path(name).name.partition(".")[0] for name in BESIDE} - {"torch", "__init__", "__main__"})
    script = _LOOKS.format(names=names, report=str(report))
    planted = {name: _planted(name, directory, marker) for name in BESIDE if name != "json/__init__.py"}
    listed = {**bundle_of(), "repro.py": script.encode(), "files/helper.py": b"x = 1\n"}
    whole = sealed({**listed, **planted})
    unpacked = directory / "unpacked"
    for name, data in whole.items():
        path = unpacked / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    write_zip(directory / "a.zip", whole)
    write_tar_of(directory / "a.tar.gz", whole)
    targets = [unpacked, unpacked / "repro.py", directory / "a.zip", directory / "a.tar.gz"]
    runs = [
        (f"verify {target.name}", ["verify", "--yes", "--json", "--timeout", "60", str(target)]) for target in targets
    ]
    run_all([argv for _, argv in runs], directory)
    ways = [name for name, _ in runs]
    for target in targets:
        for symptom in ("", "accuracy"):
            ways.append(f"bisect {target.name} {symptom}")
            _on_a_build(target, symptom)
    reports = [json.loads(line) for line in report.read_text().splitlines()]
    yield "every way was taken", "" if len(reports) == len(ways) else f"{len(reports)} of {len(ways)}"
    yield "code of an unlisted file", marker.read_text() if marker.exists() else ""
    for way, attempt in zip(ways, reports, strict=False):
        yield f"{way}: the directory on sys.path", " ".join(attempt["path"]) if way.startswith("verify") else ""
        for name in planted:
            copied = name in attempt["files"]
            yield f"{way}: {name}", "is there" if copied or Path(name).stem in attempt["found"] else ""


def _on_a_build(target: Path, symptom: str) -> None:
    from repro_kit.commands.bisect.subject import build_symptom

    measured = build_symptom(symptom) if symptom else None
    ui = SilentUi(yes=True)
    with build_subject([str(target)], is_command=False, timeout=60.0, ui=ui, symptom=measured) as subject:
        subject.oracle.run(Ready(sys.executable))


def _planted(name: str, directory: Path, marker: Path) -> bytes:
    code = f"open({str(marker)!r}, 'a').write({name!r} + ' ')\n"
    if name.endswith(".pth"):
        return f"import builtins; {code}".encode()
    if not name.endswith((".pyc", ".so", ".zip")):
        return code.encode()
    source, target = directory / "planted.py", directory / "planted.pyc"
    source.write_text(code)
    py_compile.compile(str(source), str(target), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    return target.read_bytes()


def _cases(directory: Path) -> Iterator[tuple[str, str]]:
    """Cases whose interpreter, if it is started, says so: copied here, and one's own that was changed since."""
    marker = directory / "ran"
    python = directory / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {marker}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    made = directory / "made.repro"
    Case.create(made, Subject("script", ("train.py",), str(directory), str(python)), "2030-01-01T00:00:00+00:00")
    (made / "bundle").mkdir()
    for name, data in sealed(bundle_of()).items():
        (made / "bundle" / name).write_bytes(data)
    copied, changed, unmarked = (directory / f"{name}.repro" for name in ("copied", "changed", "unmarked"))
    for case in (copied, changed, unmarked):
        shutil.copytree(made, case)
    shutil.copyfile(made / "case.toml", changed / "case.toml")
    (unmarked / ".owner").unlink()
    own = Case.create(directory / "own.repro", Subject("script", ("a.py",), str(directory), sys.executable), "2030")
    shutil.copyfile(made / "case.toml", own.path / "case.toml")
    asked = [[*command.split(), str(case)] for case in (copied, changed, unmarked) for command in _COMMANDS_OF_A_CASE]
    asked += [[*command.split(), str(own.path)] for command in _COMMANDS_OF_A_CASE]
    asked += [["bisect", str(own.path)], ["bisect", str(copied)], ["verify", str(copied)], ["nightly", str(directory)]]
    for argv, attempt in zip(asked, run_all(asked, directory), strict=True):
        wrong = "" if attempt.is_one_sentence else f"exit {attempt.exit}: {attempt.output[-300:]}"
        yield f"{' '.join(argv[:-1])} {Path(argv[-1]).name}", wrong
    yield "an interpreter that a case named", marker.read_text() if marker.exists() else ""
    allowed = run_all([["verify", "--yes", str(copied)]], directory)[0]
    ran = marker.read_text() if marker.exists() else ""
    yield "verify with a yes takes the user's own interpreter", ran or ("" if allowed.exit == 1 else allowed.output)
