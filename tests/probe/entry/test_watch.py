"""`repro_kit.watch` and its relatives in a program of the user's."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import repro_kit
from repro_kit.case.case import Case
from repro_kit.case.stage_results import Capture, Observation
from repro_kit.commands.intake.open_case import case_from_watch
from repro_kit.errors import ReproKitError
from repro_kit.graph import parse
from repro_kit.options.stages import CaptureOptions
from repro_kit.stages.capture import stage
from repro_kit.subject.watched_recording import read_watched
from repro_kit.ui import SilentUi

HEAD = """
import sys
import torch
import repro_kit

@torch.compile(backend="relu_runtime_error_TESTING_ONLY")
def broken(x):
    return torch.relu(x) + 1

@torch.compile(backend="eager")
def well(x):
    return x.sin()

@torch.compile(backend="eager")
def own_bug(x):
    y = x.sin()
    torch._dynamo.graph_break()
    raise KeyError("of the user's own")

def fails(call, *args):
    try:
        call(*args)
    except Exception as error:
        return type(error).__name__
"""

BODY = """
with repro_kit.watch("well.repro") as watching:
    well(torch.ones(3))
assert watching.saved is None

def watched(path, call):
    with repro_kit.watch(path) as watching:
        call(torch.ones(3))

assert fails(watched, "own.repro", own_bug) == "KeyError"

with repro_kit.watch("swallowed.repro"):
    assert fails(broken, torch.ones(3)) == "AssertionError"

def third(gm, inputs, calls=[]):
    def run(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise RuntimeError("the third call")
        return gm.forward(*arguments)
    return run

later = torch.compile(lambda x: x.sin(), backend=third)

@repro_kit.watch("later.repro")
def step():
    later(torch.ones(3))

assert [fails(step) for _ in range(3)] == [None, None, "RuntimeError"]

@repro_kit.watch("after.repro")
def after():
    fails(broken, torch.ones(3))
    raise KeyError("of the user's own")

assert fails(after) == "KeyError"

@repro_kit.watch("decorated.repro")
def train():
    with repro_kit.watch("outer.repro"):
        broken(torch.arange(40.0).reshape(5, 8).t())

assert fails(train) == "AssertionError"
assert repro_kit.save_repro(lambda x: x + 1, (torch.ones(2),), path="passes.repro") is None
assert repro_kit.save_repro(broken, (torch.ones(2),), path="saved.repro") == "saved.repro"
assert repro_kit.save_repro(broken, (torch.ones(2),), path="saved.repro") == "saved-2.repro"
assert fails(watched, "/proc/nothing/here.repro", broken) == "AssertionError"
"""

TESTS = """
import logging

def test_broken():
    logging.warning("a message of the test's own")
    broken(torch.ones(3))

def test_own():
    own_bug(torch.ones(3))
"""

CHECK = "import sys, repro_kit; repro_kit.watch; print(*sorted(sys.modules))"


def python(place: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    full = {name: value for name, value in os.environ.items() if not name.startswith("REPRO_")} | env
    return subprocess.run([sys.executable, *words], cwd=place, env=full, capture_output=True, text=True, check=False)


def test_it_imports_the_standard_library_alone(tmp_path: Path) -> None:
    done = python(tmp_path, "-S", "-c", f"import sys; sys.path.append({str(Path('src').resolve())!r}); {CHECK}")
    assert done.returncode == 0, done.stderr
    roots = {name.partition(".")[0] for name in done.stdout.split()}
    assert not {root for root in roots if root not in sys.stdlib_module_names} - {
        "repro_kit",
        "repro_probe",
        "__main__",
    }


@pytest.mark.torch
@pytest.mark.slow
def test_what_fails_in_the_compiler_is_kept_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + BODY)
    done = python(tmp_path, "train.py", SECRET_OF_MINE="hunter2-hunter2", TORCH_LOGS="-inductor")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.glob("*.repro")) == [
        "later.repro",
        "outer.repro",
        "saved-2.repro",
        "saved.repro",
    ]
    assert any("sin" in path.read_text() for path in tmp_path.glob("later.repro/watched/graph-*.json"))
    assert not list(tmp_path.glob("*.part*"))
    assert "could not be saved at /proc/nothing/here.repro" in done.stderr
    place = tmp_path / "outer.repro"
    assert "hunter2" not in "".join(path.read_text() for path in place.rglob("*") if path.is_file())
    assert not list(place.rglob("*.pt")) and list(place.glob("watched/trace/*.log"))
    seen = read_watched(place)
    assert seen.variables["TORCH_LOGS"] == "-inductor" and seen.command[-1] == "train.py" and seen.graphs >= 1

    case = case_from_watch(place, sys.executable, 0, SilentUi())
    failure, *_ = case.read("observe/run.json", Observation).failures  # some versions trace the user's own one, too
    assert "ReluRuntimeError" in failure.signature.summary()
    stage.run(case, CaptureOptions(), SilentUi())
    captured = parse((place / "capture/program.py").read_text())
    assert "torch.relu" in str(captured.graph) and "watch" not in (place / "capture/program.py").read_text()
    assert case.read("capture/capture.json", Capture).statements == 2


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.skipif(not list(metadata.distributions(name="repro-kit")), reason="REPRO_KIT=1 needs repro-kit installed")
def test_a_process_and_a_test_run_are_watched_from_outside(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD.replace("import repro_kit\n", "") + "broken(torch.ones(3))\n")
    done = python(tmp_path, "train.py", REPRO_KIT="1")
    assert done.returncode == 1 and "repro-kit collect train.repro" in done.stderr
    (tmp_path / "test_it.py").write_text(HEAD + TESTS)
    done = python(tmp_path, "-m", "pytest", "-q", "--repro-kit", "--repro-kit-dir", "cases", "test_it.py")
    assert "repro-kit collect cases/test_it-test_broken.repro" in done.stdout
    assert [path.name for path in (tmp_path / "cases").iterdir()] == ["test_it-test_broken.repro"]
    assert "torch.__trace" not in done.stdout and "a message of the test's own" in done.stdout
    assert list((tmp_path / "cases").glob("*/watched/trace/*.log"))


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "cannot be read"), ("[]", "cannot be read"), ('{"schema": 9}', "newer repro-kit"), ("{}", "cannot be read")],
)
def test_what_is_damaged_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "watched.json").write_text(text)
    with pytest.raises(ReproKitError, match=message):
        read_watched(tmp_path)


def test_a_case_without_a_graph_that_fails_alone_says_how_to_go_on(tmp_path: Path) -> None:
    from repro_kit.case.case import Subject
    from repro_kit.subject.watched_recording import nothing_alone

    about = {"schema": 1, "python": "p", "torch": "2", "command": ["python", "a.py", "-x"], "cwd": "/w", "created": "t"}
    (tmp_path / "watched.json").write_text(json.dumps(about))
    case = Case.create(tmp_path, Subject("script", ("x",), "/", "p"), "t")
    assert "repro-kit collect a.py -x (in /w)" in str(nothing_alone(case, "No graph was compiled"))


def test_what_has_not_run_when_its_call_returns_cannot_be_decorated() -> None:
    async def later() -> None: ...

    def pieces():
        yield 1

    for function in (later, pieces):
        with pytest.raises(TypeError, match="is a coroutine or generator"):
            repro_kit.watch("out.repro")(function)
