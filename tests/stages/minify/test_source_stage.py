"""A script of two modules that fails in Dynamo becomes one small script, by way of the command line."""

import sys
from pathlib import Path
from typing import Any

import pytest

from collecting import told
from repro_kit.case.case import Case, starts
from repro_kit.case.stage_results import ABLATION, SOURCE_REDUCTION
from repro_kit.failure.failure import Layer
from repro_kit.script import Script
from repro_kit.script.failing_statements import decisive, keeps

TRAIN = """
import argparse
from nets import Picker

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2)
    rows = parser.parse_args().rows
    import torch
    print(torch.compile(Picker(), dynamic=True)(torch.randn(rows, 5)))

if __name__ == "__main__":
    main()
"""
NETS = """
import torch
from torch import nn

class Unrelated(nn.Module):
    def forward(self, x):
        return x

class Picker(nn.Module):
    def forward(self, x):
        sizes = [1, 2, 3, 4]
        return x * sizes.pop(x.shape[0] - 1)
"""


def minify(directory: Path, *words: str) -> dict[str, Any]:
    return told(directory, "minify", "--timeout", "300", "--python", sys.executable, *words)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.usefixtures("scripts_in_forks")
def test_a_script_without_a_graph_is_reduced_to_one_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "nets.py").write_text(NETS)
    data = minify(tmp_path, "train.py", "--rows", "3")
    assert data["exit"] == 0, data
    case = Case.open(tmp_path / "train.repro")
    reduction = case.load(SOURCE_REDUCTION)
    text = (case.path / "minify" / "source" / "best.py").read_text()
    assert reduction.verified and reduction.self_contained
    assert data["statements"] == reduction.statements_after < reduction.statements_before
    assert ".pop(" in text and "nets" not in text
    assert "backend='eager'" in text  # Dynamo alone fails
    before = len(starts(case))
    data = told(tmp_path, "ablate", "--preset", "quick", "train.repro")
    assert data["exit"] == 0, data
    assert case.load(ABLATION).layer is Layer.DYNAMO
    cells = [start.why for start in starts(case)[before:] if "workaround" not in start.why]
    assert cells == []  # every cell ran on the reduced script


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.usefixtures("scripts_in_forks")
def test_a_script_that_cannot_be_one_file_says_why(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS + "\nLIMIT = 1\n")
    changed = TRAIN.replace("    import torch\n", "    import torch\n    import nets\n    nets.LIMIT = 2\n")
    (tmp_path / "train.py").write_text(changed)
    data = minify(tmp_path, "train.py")
    assert data["exit"] == 0, data
    stages = {stage["name"]: stage["note"] for stage in data["stages"]}
    assert stages["minify"] == "the script is not reduced: a function changes LIMIT of the module nets"


CHECKED = Script(
    """
def check(a, b):
    close = torch.allclose(a, b, atol=0.01)
    scale = a.sum()
    if not close:
        raise AssertionError(scale)
check(f(x), g(x))
"""
)


def test_the_check_of_the_results_is_what_decides() -> None:
    texts = decisive(CHECKED, 6)
    assert texts == ("not close", "raise AssertionError(scale)", "close = torch.allclose(a, b, atol=0.01)")
    assert keeps(CHECKED, texts)
    for other in (CHECKED.text.replace("atol=0.01", "atol=0.0"), CHECKED.text.replace("not close", "close")):
        assert not keeps(Script(other), texts)
    assert keeps(Script(CHECKED.text.replace("a.sum()", "1")), texts)
