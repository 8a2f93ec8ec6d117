"""A script that fails without the compiler too is not the compiler's, whatever words the compiler has for it."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli
from repro_kit.errors import Exit

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("scripts_in_forks")]

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
    told = " ".join(ran.output.split())
    assert "fails without torch.compile too" in told
    assert "RuntimeError: mat1 and mat2 shapes" in told and "Dynamo" not in told, "in eager's words"


def test_an_operator_that_is_not_implemented_is_the_users_where_a_graph_break_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nested = "torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(5, 4)], layout=torch.jagged)"
    call = f"torch.compile(lambda x: torch.nn.functional.pad(x, (0, 1)), fullgraph=True)({nested})"
    Path("train.py").write_text(f"import torch\n{call}\n", encoding="utf-8")
    ran = CliRunner().invoke(cli, ["collect", "--python", sys.executable, "train.py"])
    assert ran.exit_code == Exit.USER_BUG, ran.output


#: Dynamo's graph break has the exception in its message.
RAISES = """
import torch

@torch.compile(fullgraph=True, backend="eager")
def double(x):
    if x.shape[0] > 2:
        raise ValueError(f"{said}")
    return 2 * x

double(torch.ones(3))
"""


@pytest.mark.parametrize(
    ("said", "exits"),
    [
        ("at most 2 rows, not {x.shape[0]}", Exit.USER_BUG),
        ("{'compiled' if torch.compiler.is_compiling() else 'eager'}", Exit.OK),  # Dynamo's hints say "eager"
    ],
)
def test_an_exception_that_dynamo_traces_and_eager_raises_is_the_users(
    said: str, exits: Exit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(RAISES.replace("{said}", said), encoding="utf-8")
    ran = CliRunner().invoke(cli, ["observe", "--python", sys.executable, "train.py"])
    assert ran.exit_code == exits, ran.output


#: The results differ with the compiler; without it, the same line raises since nothing was compiled.
HELPER = """
import torch

graphs = []

def check(holds, what):
    if not holds:
        raise RuntimeError(what)

def wrong(gm, inputs):
    graphs.append(gm)
    return lambda *arguments: [result + 1 for result in gm(*arguments)]

x = torch.ones(3)
check(torch.equal(torch.compile(torch.sin, backend=wrong)(x), torch.sin(x)), "the results differ")
check(graphs, "nothing was compiled")
"""


def test_a_line_of_the_script_that_raises_for_several_reasons_is_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(HELPER, encoding="utf-8")
    ran = CliRunner().invoke(cli, ["observe", "--python", sys.executable, "train.py"])
    assert ran.exit_code != Exit.USER_BUG, ran.output
    assert "not to blame" not in ran.output


#: The device is missing on every machine with the torch of CPU or of CUDA. Compiled, other code says so first.
OF_A_DEVICE = """
import torch

@torch.compile(dynamic=True)
def ones(size):
    return torch.full((1,), size >= 2, dtype=torch.bool, device="xpu") + 1

ones(2)
"""


def test_a_script_whose_device_is_missing_cannot_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(OF_A_DEVICE, encoding="utf-8")
    ran = CliRunner().invoke(cli, ["collect", "--python", sys.executable, "train.py"])
    assert ran.exit_code == Exit.CANNOT_RUN, ran.output
    said = " ".join(ran.output.split())
    assert "The program needs XPU, which this machine lacks: AssertionError" in said
    assert "on a copy of the program with 'cpu' for its devices" in said
    shown = " ".join(CliRunner().invoke(cli, ["show", "train.repro"]).output.split())
    assert "Torch not compiled with XPU enabled" in shown and "as it does in eager" not in shown


def test_words_about_a_device_that_only_the_compiler_says_are_the_compilers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = "def lacks(gm, inputs):\n    raise AssertionError('Torch not compiled with CUDA enabled')\n"
    script = f"import torch\n{backend}torch.compile(torch.sin, backend=lacks)(torch.ones(2))\n"
    Path("train.py").write_text(script, encoding="utf-8")
    ran = CliRunner().invoke(cli, ["observe", "--python", sys.executable, "train.py"])
    assert ran.exit_code == Exit.OK, ran.output


#: What the backend imports counts, too: the check passes with all graphs in eager.
OF_THE_PROCESS = """
import sys, torch

@torch.compile(backend="aot_eager")
def double(x):
    return 2 * x

before = len(sys.modules)
double(torch.ones(3))
if len(sys.modules) > before + 20:
    raise ValueError("not good enough")
"""


def test_a_check_of_what_else_the_process_has_loaded_blames_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(OF_THE_PROCESS, encoding="utf-8")
    ran = CliRunner().invoke(cli, ["capture", "--python", sys.executable, "train.py", "anew"])
    assert ran.exit_code == Exit.FAILED, ran.output
    assert "its check is not seen to ask about values of tensors" in " ".join(ran.output.split())
