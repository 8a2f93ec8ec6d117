"""Scripts in forks of a process that has imported torch: they end as they would alone, and reach nothing beyond."""

import ast
import sys
from pathlib import Path
from typing import cast

import pytest

from repro_kit.failure.failure import Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.probe.repro_probe.protocol.orders import ProbeOptions
from repro_kit.probe.repro_probe.protocol.queries import ScriptOrder
from repro_kit.runner.compiler import probes
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.supervised import Run
from repro_kit.script import Script
from repro_kit.script.recording import instrumented, read_recorded, without_reads
from repro_kit.trace import summarise
from repro_kit.trace.insights.causes import causes
from repro_kit.verdicts.deadlocks import is_stuck
from repro_kit.verdicts.eager_run import PROBE
from repro_kit.verdicts.settle import verdict_of

pytestmark = pytest.mark.torch

FAILS = """
import torch

def f(x):
    return [1, 2, 3].pop(x.shape[0])

torch.compile(f, dynamic=True, backend="eager")(torch.randn(2))
"""
RECOMPILES = """
import torch

@torch.compile(backend="eager")
def f(x, name):
    return x + len(name)

for name in ("a", "bb", "ccc"):
    f(torch.ones(2), name)
"""


def run(
    oracle: ProgramOracle,
    text: str,
    directory: Path,
    options: ProbeOptions | None = None,
    timeout: float = 600,
    ranks: int = 1,
) -> Run:
    directory.mkdir(exist_ok=True)
    mode = "observe" if options is None else "override"
    (end,) = oracle.run_scripts(
        [
            {
                "text": text,
                "directory": str(directory),
                "mode": mode,
                "options": options or {},
                "env": {},
                "env_before_torch": {},
                "recording": None,
                "ranks": ranks,
            }
        ],
        timeout=timeout,
        is_stuck=is_stuck if ranks > 1 else None,
    )
    return end


def test_a_failure_is_read_as_that_of_a_run_of_the_user(oracle: ProgramOracle, tmp_path: Path) -> None:
    end = run(oracle, FAILS, tmp_path / "compiled")
    assert end.exit_status == 1 and not end.refused and not end.problem
    verdict = verdict_of(tmp_path / "compiled", end, None, None, passes_in_eager=False)
    assert verdict.failure is not None and verdict.failure.kind is Kind.DYNAMO_ERROR
    assert verdict.failure.exceptions[0].frames[0].function == "<module>"
    assert run(oracle, FAILS, tmp_path / "eager", PROBE).ok


HANGS = """
import torch

def paths(rows, columns):
    return paths(rows - 1, columns) + paths(rows, columns - 1) if rows and columns else 1

torch.compile(lambda x: x / paths(12, 12), backend="eager")(torch.randn(2))
"""


@pytest.mark.slow
def test_a_hang_is_read_with_the_place_where_it_hangs(oracle: ProgramOracle, tmp_path: Path) -> None:
    end = run(oracle, HANGS, tmp_path / "a", timeout=12)
    verdict = verdict_of(tmp_path / "a", end, None, None, passes_in_eager=False)
    assert verdict.failure is not None and verdict.failure.kind is Kind.TIMEOUT
    assert signature_of(verdict.failure).message == "compiling in torch/_dynamo"


def test_the_trace_counts_and_names_the_causes(oracle: ProgramOracle, tmp_path: Path) -> None:
    assert run(oracle, RECOMPILES, tmp_path / "a").ok
    assert summarise(tmp_path / "a" / "trace").counts.recompiles.value == 2
    assert causes(Kind.RECOMPILES, tmp_path / "a" / "trace") == {"value"}
    assert causes(Kind.GRAPH_BREAKS, tmp_path / "a" / "trace") == frozenset()


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("import sys\nsys.exit()", 0),
        ("raise SystemExit('no')", 1),
        ("import sys\nsys.exit(7)", 7),
        ("import sys\nassert __name__ == '__main__' and len(sys.argv) == 1 and sys.argv[0] == __file__", 0),
        ("import threading\nthreading.Thread(target=lambda: print('late')).start()", 0),
        ("import atexit\natexit.register(print, 'late')", 0),
        ("open('notes.txt', 'w').write('own directory')\nimport os\nos.mkdir('d')\nos.rmdir('d')", 0),
        ("import torch\ntorch.save(torch.ones(2), 'own.pt')\ntorch.load('own.pt')", 0),
        ("import socket\nwith socket.socket() as free:\n    free.bind(('', 0))", 0),
    ],
)
def test_a_script_ends_as_it_would_alone(oracle: ProgramOracle, tmp_path: Path, text: str, status: int) -> None:
    end = run(oracle, text, tmp_path / "run")
    assert end.exit_status == status and not end.refused
    if "late" in text:
        assert (tmp_path / "run" / "stdout.txt").read_text() == "late\n"


def test_forks_of_one_process_draw_numbers_of_their_own(oracle: ProgramOracle, tmp_path: Path) -> None:
    for name in ("one", "other"):
        run(oracle, "import random, torch\nprint(torch.rand(1).item(), random.random())", tmp_path / name)
    one, other = ((tmp_path / name / "stdout.txt").read_text().split() for name in ("one", "other"))
    assert one[0] != other[0] and one[1] != other[1]


def test_a_script_that_does_not_end_is_ended(oracle: ProgramOracle, tmp_path: Path) -> None:
    end = run(oracle, "while True: pass", tmp_path / "run", timeout=2)
    assert end.timed_out and end.exit_status is None


def test_a_signal_is_named(oracle: ProgramOracle, tmp_path: Path) -> None:
    assert run(oracle, "import ctypes\nctypes.string_at(0)", tmp_path / "run").signal == "SIGSEGV"


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("open({path!r}, 'w')", "open"),
        ("import os\nos.open({path!r}, os.O_WRONLY)", "open"),
        ("import os\nos.remove({path!r})", "os.remove"),
        ("import socket\nsocket.socket().bind(('127.0.0.1', 29500))", "socket.bind"),
        ("import socket\nsocket.socket().bind(('192.0.2.1', 0))", "socket.bind"),
        ("import os\nos.rename({path!r}, 'here')", "os.rename"),
        ("import shutil, os\nshutil.rmtree(os.path.dirname({path!r}))", "shutil.rmtree"),
        (
            "import os\nd = os.open(os.path.dirname({path!r}), os.O_RDONLY)\nos.remove('data.txt', dir_fd=d)",
            "os.remove",
        ),
        ("import pathlib\npathlib.Path({path!r}).chmod(0)", "os.chmod"),
        ("import os\nos.system('true')", "os.system"),
        ("import subprocess\nsubprocess.run(['true'])", "subprocess.Popen"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "socket.getaddrinfo"),
        ("import os\nos.kill(os.getppid(), 0)", "os.kill"),
        ("import torch\ntorch.save(torch.ones(2), {path!r})", "open"),
        ("try:\n    open({path!r}, 'w')\nexcept OSError:\n    pass", "open"),
    ],
)
def test_what_reaches_beyond_the_directory_is_refused(
    oracle: ProgramOracle, tmp_path: Path, text: str, event: str
) -> None:
    (tmp_path / "users").mkdir()
    path = tmp_path / "users" / "data.txt"
    path.write_text("kept")
    before = path.stat()
    end = run(oracle, text.format(path=str(path)), tmp_path / "run")
    assert event in end.refused
    assert path.read_text() == "kept" and path.stat().st_mode == before.st_mode


def test_the_compiler_may_write_its_caches_and_start_its_tools(oracle: ProgramOracle, tmp_path: Path) -> None:
    text = "import torch\nprint(torch.compile(lambda x: x.sin() + 1)(torch.zeros(8)).sum().item())"
    end = run(oracle, text, tmp_path / "run")
    assert end.ok and not end.refused, (tmp_path / "run" / "stderr.txt").read_text()
    assert (tmp_path / "run" / "stdout.txt").read_text() == "8.0\n"
    assert not read_findings(tmp_path / "run" / "probe").problems


READS = """
import json
import sys
from pathlib import Path

import torch

def load(path):
    with open(path) as file:
        return json.load(file)

settings = load("settings.json")
text = Path(__file__).with_name("notes.txt").read_text()
state = torch.load("weights.pt")
for batch in [torch.zeros(2, 3).t(), 7]:
    shape = settings["shape"]
"""


def recorded_in(oracle: ProgramOracle, program: Script, scratch: Path, *, cwd: str | None, main: str = "") -> Run:
    """Run the instrumented script without the compiler; what its expressions return goes to `scratch`."""
    order: ScriptOrder = {
        "text": instrumented(program),
        "directory": str(scratch),
        "mode": "override",
        "options": cast(ProbeOptions, PROBE),
        "env": {},
        "env_before_torch": {},
        "recording": {"cwd": cwd, "main": main, "file": str(scratch / "recorded.json")},
        "ranks": 1,
    }
    (end,) = oracle.run_scripts([order], timeout=600)
    return end


def test_a_recording_runs_where_the_user_did_and_keeps_what_was_read(oracle: ProgramOracle, tmp_path: Path) -> None:
    import torch

    user, scratch = tmp_path / "user", tmp_path / "scratch"
    user.mkdir()
    scratch.mkdir()
    (user / "settings.json").write_text('{"shape": [2, 3]}')
    (user / "notes.txt").write_text("a note")
    torch.save({"w": torch.ones(2, 3, dtype=torch.float16), "n": torch.tensor([1, 2])}, user / "weights.pt")
    program = Script.of(ast.parse(READS))
    end = recorded_in(oracle, program, scratch, cwd=str(user), main=str(user / "train.py"))
    assert end.ok, (scratch / "stderr.txt").read_text()
    recorded = read_recorded((scratch / "recorded.json").read_bytes())
    made = without_reads(program, recorded)[0]
    assert "__import__('io').StringIO('{\"shape\": [2, 3]}')" in made.text and "text = 'a note'" in made.text
    assert "{'w': torch.randn((2, 3), dtype=torch.float16), 'n': torch.tensor([1, 2], dtype=torch.int64)}" in made.text
    texts = recorded.by_text(program)
    assert ast.unparse(texts.values["settings['shape']"]) == "[2, 3]"
    (item,) = texts.items.values()
    assert ast.unparse(item) == "torch.randn(6).as_strided((3, 2), (1, 3))"


def test_a_recording_of_a_shorter_script_reaches_nothing_of_the_users(oracle: ProgramOracle, tmp_path: Path) -> None:
    kept, scratch = tmp_path / "kept.txt", tmp_path / "scratch"
    kept.write_text("the user's own")
    scratch.mkdir()
    text = f"import os\nprint(os.getcwd())\nn = len('abc')\nopen('here.txt', 'w')\nopen({str(kept)!r}, 'w')\n"
    program = Script.of(ast.parse(text))
    end = recorded_in(oracle, program, scratch, cwd=None)
    assert end.refused == ("open",) and kept.read_text() == "the user's own"
    texts = read_recorded((scratch / "recorded.json").read_bytes()).by_text(program)
    assert ast.unparse(texts.values["len('abc')"]) == "3"
    assert (scratch / "stdout.txt").read_text().strip() != str(Path.cwd())


RANKS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.full((2,), dist.get_rank() + 1.0)
dist.all_reduce(x)
assert x.tolist() == [3.0, 3.0]
if dist.get_rank() == 1:
    raise ValueError("only here")
dist.barrier()
"""


def test_every_rank_runs_the_script_and_one_that_fails_ends_all(oracle: ProgramOracle, tmp_path: Path) -> None:
    end = run(oracle, RANKS, tmp_path / "ranks", ranks=2)
    assert end.exit_status == 1 and not end.timed_out
    verdict = verdict_of(tmp_path / "ranks", end, None, None, passes_in_eager=False)
    assert verdict.failure is not None and verdict.failure.exceptions[-1].message == "only here"


ENDS = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    dist.all_reduce(torch.ones(2))
"""


def test_a_rank_that_ends_closes_its_connections(oracle: ProgramOracle, tmp_path: Path) -> None:
    end = run(oracle, ENDS, tmp_path / "ranks", ranks=2)
    assert end.exit_status == 1 and not end.timed_out, "rank 1 does not wait for one that is done"
    verdict = verdict_of(tmp_path / "ranks", end, None, None, passes_in_eager=False)
    assert verdict.status is Status.CANNOT_TELL and "remote worker" in verdict.note


REFUSED = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    os.system("true")
"""


def test_what_any_rank_is_refused_counts(oracle: ProgramOracle, tmp_path: Path) -> None:
    assert run(oracle, REFUSED, tmp_path / "ranks", ranks=2).refused


WAIT = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    dist.all_reduce(torch.ones(2))
else:
    dist.all_gather([torch.ones(2), torch.ones(2)], torch.ones(2))
"""


@pytest.mark.slow
def test_ranks_that_wait_for_each_other_are_told_from_another_hang(oracle: ProgramOracle, tmp_path: Path) -> None:
    end = run(oracle, WAIT, tmp_path / "ranks", {}, ranks=2, timeout=100)
    assert end.timed_out and end.seconds < 100, "it is ended before its limit"
    verdict = verdict_of(tmp_path / "ranks", end, None, None, passes_in_eager=False)
    assert verdict.failure is not None and verdict.failure.kind is Kind.DEADLOCK
    assert signature_of(verdict.failure).summary() == "hang: the ranks wait for each other"
    assert "all_reduce" in verdict.failure.text and "all_gather" in verdict.failure.text


#: What torch has asked of the machine before the script: nothing, in a process of the user's.
ASKED_BEFORE = "import torch._inductor.cpp_builder; raise SystemExit(40 + torch.%s.cache_info().currsize)"


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked", ["_inductor.cpp_builder.cpp_compiler_search", "_inductor.cpu_vec_isa.valid_vec_isa_list"]
)
def test_in_a_fresh_interpreter_a_script_finds_inductor_as_the_user_does(asked: str, tmp_path: Path) -> None:
    with ProgramOracle(sys.executable, how="spawn", cache=probes(sys.executable)) as spawn:
        end = run(spawn, ASKED_BEFORE % asked, tmp_path / "asked")
    assert end.exit_status == 40, end
