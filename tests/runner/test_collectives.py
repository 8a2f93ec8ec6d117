"""Programs with collectives: in a fake group, and with a process for each rank."""

import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.program_repro import render_program, source_of
from repro_kit.case.stage_results import Environment
from repro_kit.model.failure.failure import Kind, Status, Verdict
from repro_kit.model.failure.signature import Signature
from repro_kit.program import parse
from repro_kit.runner.program_oracle import ProgramOracle
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
GLOO = {"size": 2, "backend": "gloo"}


def check(oracle: ProgramOracle, text: str) -> Verdict:
    (verdict,) = oracle.check([text], None, timeout=60)
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


def test_the_repro_starts_its_ranks_itself(tmp_path: Path) -> None:
    facts = Facts(Signature(Kind.ACCURACY), None, Environment("3.11", sys.executable, "Linux", "2.13.0"))
    text = render_program(source_of(parse(program(body=BODY, preamble=LOCAL, group=GLOO))), facts)
    (tmp_path / "repro.py").write_text(text)
    ended = subprocess.run([sys.executable, tmp_path / "repro.py"], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1 and "FAIL accuracy" in ended.stderr, ended.stderr
    assert ended.stderr.count("FAIL accuracy") == 1, "only the judged rank speaks"
