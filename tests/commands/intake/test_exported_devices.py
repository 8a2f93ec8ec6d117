"""An exported program of a device that is lacking here is tried on the CPU."""

import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.helpers.exported_cuda import as_of_cuda

from repro_kit.cli.main import cli
from repro_kit.commands.intake.moved_to_cpu import devices_in_file, path_on_cpu, write_on_cpu
from repro_kit.errors import Exit, UsageError

Save = Callable[[str], Path]

MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("bias", torch.ones(4))
        self.constant = torch.arange(4.0)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        return torch.relu(y * 2) + torch.arange(4, device=x.device) + self.bias.to("cpu") + self.constant

exported = torch.export.export(Model(), (torch.ones(2, 4),))
"""
PLAIN = MODEL.replace('with torch.autocast("cpu", dtype=torch.bfloat16)', "if True")
#: Exported with fake tensors of CUDA, and so with nodes that name it; its example input is a real one.
FAKE = """
import torch
from torch._subclasses import FakeTensorMode

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + torch.arange(4, device=x.device) + torch.zeros(4, device="cuda:0")

with FakeTensorMode():
    exported = torch.export.export(Model(), (torch.empty(2, 4, device="cuda"),))
exported._example_inputs = ((torch.ones(2, 4),), {})
"""
#: Its example input is of a size that the program refuses, in eager too.
REFUSES = FAKE.replace("torch.ones(2, 4)", "torch.ones(3, 4)")
LAUNCHER = """\
import torch
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
exported_program = torch.export.load('/gone/model.pt2')
config_patches = {}
if __name__ == '__main__':
    from torch._dynamo.repro.aoti import run_repro
    run_repro(exported_program, config_patches=config_patches, command='minify')
"""


@pytest.fixture
def save(python_in_forks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    monkeypatch.chdir(tmp_path)

    def saved(script: str) -> Path:
        text = f"{script}\ntorch.export.save(exported, 'saved.pt2')\n"
        subprocess.run([python_in_forks, "-c", text], check=True, capture_output=True)
        return tmp_path / "saved.pt2"

    return saved


def run(*words: str) -> tuple[Result, str]:
    ran = CliRunner().invoke(cli, [words[0], "--python", sys.executable, *words[1:]])
    return ran, " ".join(ran.output.split())


def test_strings_of_every_protocol_and_nothing_else_is_changed(tmp_path: Path) -> None:
    value = {"device": "cuda:1", "name": "a cuda:0 b", "nested": ["xpu", 3.5], "cudab": None}
    for protocol in range(1, pickle.HIGHEST_PROTOCOL + 1):
        with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
            archive.writestr("model/data.pkl", pickle.dumps(value, protocol))
            archive.writestr("model/models/model.json", '{"text": "cuda", "nested": [{"type": "cuda", "index": 2}]}')
            archive.writestr("model/data/weights/weight_0", b"cuda:0")
        assert devices_in_file(tmp_path / "model.pt2") == {"cuda", "xpu"}
        write_on_cpu(tmp_path / "model.pt2", tmp_path / "moved.pt2", ["cuda"])
        with zipfile.ZipFile(tmp_path / "moved.pt2") as archive:
            assert pickle.loads(archive.read("model/data.pkl")) == {**value, "device": "cpu"}
            text = archive.read("model/models/model.json")
            assert text == b'{"text": "cuda", "nested": [{"type": "cpu", "index": null}]}'
            assert archive.read("model/data/weights/weight_0") == b"cuda:0"


def test_another_program_has_another_place(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(b"one")
    first = path_on_cpu(tmp_path / "model.pt2", tmp_path)
    (tmp_path / "model.pt2").write_bytes(b"two")
    assert first.parent == tmp_path and first != path_on_cpu(tmp_path / "model.pt2", tmp_path)


def test_damage_is_told(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/models/model.json", '{"graph_module": ')
    with pytest.raises(UsageError, match=r"model\.pt2 is damaged \(.*\); save the program again"):
        devices_in_file(tmp_path / "model.pt2")


@pytest.mark.torch
def test_a_moved_program_is_the_one_that_was_saved_on_the_cpu(
    save: Save, python_in_forks: Path, tmp_path: Path
) -> None:
    saved = save(MODEL)
    assert devices_in_file(saved) == set()
    of_cuda = as_of_cuda(saved, tmp_path / "model.pt2")
    assert devices_in_file(of_cuda) == {"cuda"}
    write_on_cpu(of_cuda, tmp_path / "moved.pt2", ["cuda"])
    with zipfile.ZipFile(saved) as first, zipfile.ZipFile(tmp_path / "moved.pt2") as second:
        assert first.namelist() == second.namelist()
        weights = [name for name in first.namelist() if "/weights/weight_" in name]
        assert weights and all(first.read(name) == second.read(name) for name in weights)
    check = (
        "import torch; one, other = [torch.export.load(name) for name in ('saved.pt2', 'moved.pt2')]\n"
        "(x,), _ = other.example_inputs\n"
        "assert str(one.graph) == str(other.graph) and torch.equal(one.module()(x), other.module()(x))"
    )
    subprocess.run([python_in_forks, "-c", check], check=True, capture_output=True)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("scripts_in_forks", "few_runs")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        (FAKE, "on the CPU it passes. The record does not say whether it failed there."),
        (REFUSES, "on the CPU it does not run, not even without torch.compile ("),
    ],
    ids=["a mixture", "no run in eager"],
)
def test_what_does_not_fail_on_the_cpu_is_gpu_only(script: str, said: str, save: Save, tmp_path: Path) -> None:
    save(script).rename(tmp_path / "model.pt2")
    ran, words = run("minify", "--yes", "model.pt2")
    assert ran.exit_code == Exit.CANNOT_RUN, words
    assert "GPU only: the program was recorded on CUDA, which this machine lacks, and" in words
    assert said in words and "Traceback" not in words


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("scripts_in_forks", "few_runs")
def test_a_failure_on_the_cpu_is_never_said_to_be_that_of_cuda(save: Save, tmp_path: Path) -> None:
    as_of_cuda(save(PLAIN), tmp_path / "model.pt2")
    Path("launcher.py").write_text(LAUNCHER)
    ran, words = run("collect", "--yes", "--trace", "no", "--skip", "minify", "--skip", "ablate", "launcher.py")
    assert ran.exit_code == Exit.UNVERIFIED, words  # what is not reduced needs stored values
    claim = (
        "The program was recorded on CUDA and moved to the CPU. The record does not say how it failed on CUDA, so"
        " nothing shows that this is the same failure."
    )
    assert claim in words
    for name in ("repro.py", "issue.md", "report.html"):
        text = " ".join(Path("launcher.repro/bundle", name).read_text().split())
        assert claim in text and "on the CPU; recorded on CUDA: " in text
        assert "CPU twin" not in text and "cuda:0" not in text
