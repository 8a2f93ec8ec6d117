"""Programs with collectives: in a fake group, and with a process for each rank."""

import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.check_program import read_run
from repro_kit.bundle.repro.program_repro import render_program
from repro_kit.case.stage_results import Environment
from repro_kit.failure.failure import Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature, signature_of
from repro_kit.graph import parse
from repro_kit.runner.program_oracle import ProgramOracle
from repro_probe.run.process_group import STUCK
from texts import program

pytestmark = pytest.mark.torch

BODY = """t = torch.ops._c10d_functional.all_reduce(x, 'sum', '0')
w = torch.ops._c10d_functional.wait_tensor(t)
y = w * 2
return (y,)"""
#: A backend that leaves the reduction out: the result is right where there is one rank only.
LOCAL = """
def mine(gm, example_inputs):
    return lambda x: (x * 2,)
"""
#: A backend that leaves it out on one rank: the other one waits for ever.
SILENT = """
import torch.distributed as dist
def mine(gm, example_inputs):
    return gm.forward if dist.get_rank() == 0 else lambda x: (x * 2,)
"""
#: A backend that works longer on one rank than idle ranks are waited for.
SLOW = f"""
import time
import torch.distributed as dist
def mine(gm, example_inputs):
    while dist.get_rank() == 1 and time.process_time() < {2 * STUCK}:
        pass
    return gm.forward
"""
GLOO: dict[str, object] = {"size": 2, "backend": "gloo"}


def check(oracle: ProgramOracle, text: str, timeout: float = 600) -> Verdict:
    (verdict,) = oracle.check([text], None, timeout=timeout)
    return verdict


def test_a_fake_group_has_any_number_of_ranks(oracle: ProgramOracle) -> None:
    gather = BODY.replace("all_reduce(x, 'sum', '0')", "all_gather_into_tensor(x, 4, '1')")
    group = {"size": 8, "rank": 5, "subgroups": [[4, 5, 6, 7]]}
    assert check(oracle, program(body=gather, group=group)).status is Status.PASS
    assert check(oracle, program(body=gather)).status is Status.INVALID


def test_what_a_fake_group_cannot_show_real_ranks_do(oracle: ProgramOracle) -> None:
    assert check(oracle, program(body=BODY, preamble=LOCAL, group={"size": 2})).status is Status.PASS
    verdict = check(oracle, program(body=BODY, preamble=LOCAL, group=GLOO))
    assert verdict.failure is not None and verdict.failure.kind is Kind.ACCURACY
    assert check(oracle, program(body=BODY, group=GLOO)).status is Status.PASS


def test_a_result_that_is_read_before_it_is_there_is_no_failure(oracle: ProgramOracle) -> None:
    early = BODY.replace("y = w * 2", "y = t * 2")
    assert check(oracle, program(body=early, preamble=LOCAL, group=GLOO)).status is Status.INVALID


def test_ranks_that_wait_for_each_other_are_noticed(oracle: ProgramOracle) -> None:
    verdict = check(oracle, program(body=BODY, preamble=SILENT, group=GLOO, check=False), timeout=600)
    assert verdict.failure is not None and verdict.failure.kind is Kind.DEADLOCK, verdict
    assert verdict.failure.stack[-1].file.endswith("torch/_ops.py"), "the stack shows where the rank waits"


def test_a_rank_that_raises_leaves_no_other_waiting(oracle: ProgramOracle) -> None:
    raises = SILENT.replace("else lambda x: (x * 2,)", "else 1 / 0")
    verdict = check(oracle, program(body=BODY, preamble=raises, group=GLOO, check=False), timeout=600)
    assert verdict.failure is not None and verdict.failure.kind is not Kind.TIMEOUT, verdict


@pytest.mark.slow
def test_a_rank_that_compiles_for_long_keeps_the_others_waiting_and_is_no_hang(oracle: ProgramOracle) -> None:
    assert check(oracle, program(body=BODY, preamble=SLOW, group=GLOO)).status is Status.PASS


#: Rank 0 sends what rank 1 gets, in code of its own.
TWO_CODES = """
def peer_graph(x):
    t = torch.ops._c10d_functional.all_reduce(x, 'sum', '0')
    w = torch.ops._c10d_functional.wait_tensor(t)
    return (w,)
def peer_calls():
    x = torch.ones(3, 4)
    return [(x,)]
"""
OTHERS = {**GLOO, "rank": 1, "others": [0]}


@pytest.mark.slow
def test_ranks_may_run_different_code(oracle: ProgramOracle) -> None:
    assert check(oracle, program(body=BODY, preamble=TWO_CODES, group=OTHERS)).status is Status.PASS
    silent = TWO_CODES.replace("torch.ops._c10d_functional.all_reduce(x, 'sum', '0')", "x + 1")
    waits = check(oracle, program(body=BODY, preamble=silent, group=OTHERS), timeout=600)
    assert waits.status is Status.INVALID, "the ranks wait for each other in eager too"


def run_repro(
    python: Path, directory: Path, signature: Signature, preamble: str, group: dict[str, object] = GLOO
) -> subprocess.CompletedProcess[str]:
    facts = Facts(signature, None, Environment("3.11", sys.executable, "Linux", "2.13.0"))
    text = program(body=BODY, preamble=preamble, group=group, check=signature.kind is Kind.ACCURACY)
    for name, written in render_program(parse(text), facts).items():
        (directory / name).write_text(written)
    return subprocess.run([python, directory / "check.py"], capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_the_repro_starts_its_ranks_itself(python_in_forks: Path, tmp_path: Path) -> None:
    ended = run_repro(python_in_forks, tmp_path, Signature(Kind.ACCURACY), LOCAL)
    assert ended.returncode == 1 and "FAIL accuracy" in ended.stderr, ended.stderr
    assert ended.stderr.count("FAIL accuracy") == 1, "only the judged rank speaks"


@pytest.mark.slow
def test_the_repro_of_ranks_that_wait_ends_with_the_stack_of_one(python_in_forks: Path, tmp_path: Path) -> None:
    waits = signature_of(Failure(Kind.DEADLOCK))
    ended = run_repro(python_in_forks, tmp_path, waits, SILENT)
    assert ended.returncode == 1 and "(most recent call first)" in ended.stderr, ended.stderr
    failure = read_run(1, ended.stderr, "exit 1").failure
    assert failure is not None and signature_of(failure) == waits
    assert run_repro(python_in_forks, tmp_path, waits, LOCAL).stdout.strip() == "PASS"


@pytest.mark.slow
def test_the_repro_runs_the_code_of_each_rank(python_in_forks: Path, tmp_path: Path) -> None:
    ended = run_repro(python_in_forks, tmp_path, Signature(Kind.CRASH), TWO_CODES, OTHERS)
    assert ended.stdout.strip() == "PASS", ended.stderr
    ended = run_repro(python_in_forks, tmp_path, Signature(Kind.CRASH), TWO_CODES.replace("ones(3", "ones(5"), OTHERS)
    assert ended.returncode == 1, "rank 0 sends more than rank 1 expects, and gloo aborts"
