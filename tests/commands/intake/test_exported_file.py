"""An exported program on disk becomes a script that compiles it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from repro_kit.commands.intake.exported_file import exported_file
from repro_kit.commands.intake.program_sources import reader_of
from repro_kit.errors import UsageError

LAUNCHER = """\
# class Repro(torch.nn.Module):
import torch
torch._inductor.config.max_autotune = True
torch._inductor.config.aot_inductor.package = False
exported_program = torch.export.load('/gone/checkpoints/exported_program.pt2')
config_patches={'aot_inductor.package': True, 'fallback_random': True}
if __name__ == '__main__':
    from torch._dynamo.repro.aoti import run_repro
    with torch.no_grad():
        run_repro(exported_program, config_patches=config_patches, command='minify')
"""


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, "{}")
    return path


def test_the_file_of_an_exported_program(tmp_path: Path) -> None:
    exported = exported_file(archive(tmp_path / "model.pt2", "model/models/model.json"))
    assert exported is not None
    assert (exported.path, exported.options) == (tmp_path / "model.pt2", {})
    compile(exported.script, "script", "exec")


def test_a_script_of_the_minifier_names_program_options_and_settings(tmp_path: Path) -> None:
    script = tmp_path / "minifier_launcher.py"
    script.write_text(LAUNCHER)
    program = archive(tmp_path / "exported_program.pt2", "a/models/model.json")
    assert reader_of(script) is None
    exported = exported_file(script)
    assert exported is not None
    assert (exported.path, exported.options) == (program, {"fallback_random": True})
    assert exported.settings == ("torch._inductor.config.max_autotune = True",)
    compile(exported.script, "script", "exec")


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.export.load('x.pt2')\n")
    assert exported_file(tmp_path / "train.py") is None
    assert exported_file(tmp_path / "gone.pt2") is None


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.pt2").write_text("x")
    with pytest.raises(UsageError, match="is not a file of torch"):
        exported_file(tmp_path / "broken.pt2")
    with pytest.raises(UsageError, match="holds compiled code"):
        exported_file(archive(tmp_path / "package.pt2", "p/data/aotinductor/model/x.so"))
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    with pytest.raises(UsageError, match=r"which .*launcher.py loads"):
        exported_file(tmp_path / "launcher.py")
    (tmp_path / "launcher.py").write_text(LAUNCHER.replace("'/gone", "gone + '"))
    with pytest.raises(UsageError, match="is not a script of AOTInductor's minifier"):
        exported_file(tmp_path / "launcher.py")


SAVE = """
import torch
exported = torch.export.export(torch.nn.Linear(4, 4), (torch.ones(2, 4),))
torch.export.save(exported, "model.pt2")
"""


#: Its results are of float32, and as close as bfloat16 is.
OF_AUTOCAST = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(64, 64)
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        return torch.relu(y * 3) + x
exported = torch.export.export(Model(), (torch.randn(8, 64),))
torch.export.save(exported, "model.pt2")
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("save", [SAVE, OF_AUTOCAST], ids=["float32", "autocast"])
def test_the_script_compiles_the_program_and_passes(save: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", save], cwd=tmp_path, check=True, capture_output=True)
    exported = exported_file(tmp_path / "model.pt2")
    assert exported is not None
    command = [sys.executable, "-c", exported.script, str(exported.path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
