"""`repro.py` of a script of several ranks starts the ranks itself, and ends them all."""

import os
import subprocess
from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.script_repro import render_script
from repro_kit.bundle.repro.source_files import PLACE, find_sources
from repro_kit.case.case import Subject
from repro_kit.case.stage_results import Environment
from repro_kit.failure.failure import ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of

SCRIPT = """
import os, signal, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.full((1,), float(dist.get_rank()))
dist.all_reduce(total)
if sys.argv[1] == "fails" and dist.get_rank() == 1:
    raise ValueError(f"the sum is {total.item():g}")
if sys.argv[1] == "waits":  # each rank for what the other does not send
    dist.recv(total, src=1 - dist.get_rank())
if sys.argv[1] == "differs":
    dist.barrier() if dist.get_rank() else dist.all_reduce(total)
if sys.argv[1] == "crashes":
    if dist.get_rank() == 0:
        os._exit(1)
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGSEGV)
dist.destroy_process_group()  # else gloo's threads now and then abort a process that ends
"""
RAISED = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("ValueError", "the sum is 1"),))
CRASHED = Failure(Kind.CRASH, signal="SIGSEGV")
WAITED = Failure(Kind.DEADLOCK)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("argument", "failure", "status", "words"),
    [
        ("fails", RAISED, 1, "ValueError: the sum is 1"),
        ("passes", RAISED, 0, "PASS"),
        ("crashes", CRASHED, 1, "FAIL crash: SIGSEGV"),
        ("waits", WAITED, 1, "FAIL timeout: no end after 10 s"),
        ("differs", WAITED, 1, "the ranks wait for each other: rank 0 in gloo:all_reduce, rank 1 in gloo:barrier"),
    ],
)
def test_it_runs_alone(
    python_in_forks: Path, tmp_path: Path, argument: str, failure: Failure, status: int, words: str
) -> None:
    files = tmp_path / PLACE
    files.mkdir()
    (files / "train.py").write_text(SCRIPT)
    subject = Subject("script", ("train.py", argument), str(files), "python")
    environment = Environment(python="3.11.7", executable="python", platform="Linux", torch="2.13.0")
    known = Facts(signature_of(failure), failure, environment)
    limit = 10 if argument == "waits" else 300
    text = render_script(subject, find_sources(subject, []), known, why="", limit=limit, traced=False, ranks=2)
    (tmp_path / "repro.py").write_text(text)
    ended = subprocess.run([python_in_forks, tmp_path / "repro.py"], capture_output=True, text=True, check=False)
    assert (ended.returncode, words in ended.stdout + ended.stderr) == (status, True), ended.stderr


@pytest.mark.slow
@pytest.mark.torch
def test_a_hang_without_the_compiler_is_told_as_soon(python_in_forks: Path, tmp_path: Path) -> None:
    files = tmp_path / PLACE
    files.mkdir()
    (files / "train.py").write_text(SCRIPT)
    environment = Environment(python="3.11.7", executable="python", platform="Linux", torch="2.13.0")
    known = Facts(signature_of(WAITED), WAITED, environment, in_eager=True)
    subject = Subject("script", ("train.py", "differs"), str(files), "python")
    text = render_script(subject, find_sources(subject, []), known, why="", limit=300, traced=False, ranks=2)
    (tmp_path / "repro.py").write_text(text)
    ended = subprocess.run(
        [python_in_forks, tmp_path / "repro.py"],
        env={**os.environ, "TORCH_COMPILE_DISABLE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "rank 0 in gloo:all_reduce, rank 1 in gloo:barrier" in ended.stderr
