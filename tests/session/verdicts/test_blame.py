"""A script that fails without the compiler too is not the compiler's, whatever words the compiler has for it."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli
from repro_kit.errors import Exit

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow = torch.nn.Linear(6, 8)
        self.wide = torch.nn.Linear(6, 2)

    def forward(self, x):
        return self.wide(torch.relu(self.narrow(x)))

model, x = Model(), torch.randn(3, 6)
"""


@pytest.mark.parametrize(
    "compiles", ["torch.compile(model, backend='eager')(x)", "torch.export.export(model, (x,), strict=False)"]
)
def test_an_operator_that_fake_tensors_refuse_in_other_words_is_the_users(
    compiles: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT + compiles + "\n", encoding="utf-8")
    ran = CliRunner().invoke(cli, ["observe", "--python", sys.executable, "train.py"])
    assert ran.exit_code == Exit.USER_BUG, ran.output
    assert "fails without torch.compile too" in " ".join(ran.output.split())
