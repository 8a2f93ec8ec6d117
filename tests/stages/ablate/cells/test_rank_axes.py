"""The settings that are varied for a script of several ranks."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import OBSERVATION, Observation
from repro_kit.stages.ablate.matrix import rank_axes

TRAINS = "from torch.nn.parallel import DistributedDataParallel\nmodel(x).backward()\n"
ONE = Observation(("train.py",), 0, None, timed_out=False, seconds=1.0, peak_memory=0, python=None, torch=None)


@pytest.mark.torch
def test_they_apply_where_the_script_mentions_what_they_change(tmp_path: Path) -> None:
    subject = Subject("script", ("train.py",), str(tmp_path), sys.executable)
    case = Case.create(tmp_path / "a.repro", subject, "2026-01-01T00:00:00Z")
    case.store(OBSERVATION, ONE)
    assert rank_axes(case, [TRAINS]) == ()
    case.store(OBSERVATION, replace(ONE, ranks=("rank 0: …", "rank 1: …")))
    assert [axis.name for axis in rank_axes(case, [TRAINS])] == ["dynamo.compiled_autograd"]
    assert rank_axes(case, ["torch.compile(model)(x)"]) == ()
