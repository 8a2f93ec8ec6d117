"""`collect` of a program that torch captured elsewhere takes up the program, and does not run the file as a script."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli
from repro_kit.errors import Exit

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("one_zygote")]

RUNNABLE = """
import torch
from torch import device

class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()

    def forward(self, arg0_1):
        sin = torch.ops.aten.sin.default(arg0_1);  arg0_1 = None
        return (sin,)

def load_args(reader):
    buf0 = reader.storage(None, 32, device=device(type='xpu', index=0))
    reader.tensor(buf0, (8,), is_leaf=True)  # arg0_1
load_args._version = 0
mod = Repro()
if __name__ == '__main__':
    raise SystemExit("this is not run")
"""


@pytest.mark.parametrize("command", ["collect", "minify"])
def test_a_graph_of_another_device_is_tried_on_the_cpu(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fx_graph_runnable.py").write_text(RUNNABLE, encoding="utf-8")
    ran = CliRunner().invoke(cli, [command, "--python", sys.executable, "fx_graph_runnable.py"])
    said = " ".join(ran.output.split())
    assert ran.exit_code == Exit.CANNOT_RUN, said
    assert "recorded on XPU, which this machine lacks, and on the CPU it passes" in said
    assert "The record does not say whether it failed there" in said
