"""An exported program on disk becomes a script that compiles it."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from repro_kit.commands.intake.exported_file import ExportedFile, exported_file
from repro_kit.commands.intake.moved_to_cpu import digest_of
from repro_kit.commands.intake.programs import reader_of
from repro_kit.errors import UsageError
from repro_kit.repro_run.trust import LoadedCode, loaded_code

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


def script_of(exported: ExportedFile, *, is_data: bool = True) -> str:
    loaded = loaded_code(exported.path)
    assert loaded.is_data is is_data
    return exported.script(loaded, digest_of(exported.path))


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, "{}")
    return path


def test_the_file_of_an_exported_program(tmp_path: Path) -> None:
    exported = exported_file(archive(tmp_path / "model.pt2", "model/models/model.json"))
    assert exported is not None
    assert (exported.path, exported.options) == (tmp_path / "model.pt2", {})
    compile(script_of(exported), "script", "exec")


def test_a_script_of_the_minifier_names_program_options_and_settings(tmp_path: Path) -> None:
    script = tmp_path / "minifier_launcher.py"
    script.write_text(LAUNCHER)
    program = archive(tmp_path / "exported_program.pt2", "a/models/model.json")
    assert reader_of(script) is None
    exported = exported_file(script)
    assert exported is not None
    assert (exported.path, exported.options) == (program, {"fallback_random": True})
    assert exported.settings == ("torch._inductor.config.max_autotune = True",)
    compile(script_of(exported), "script", "exec")


def test_an_older_script_of_the_minifier_with_its_options_under_another_name(tmp_path: Path) -> None:
    older = LAUNCHER.replace("config_patches={", "options={").replace("=config_patches", "=options")
    older = older.replace(".max_autotune =", ".dump_aoti_minifier =")  # which no newer torch has
    (tmp_path / "repro.py").write_text(older)
    archive(tmp_path / "exported_program.pt2", "a/models/model.json")
    exported = exported_file(tmp_path / "repro.py")
    assert exported is not None and (exported.options, exported.settings) == ({"fallback_random": True}, ())


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
    with pytest.raises(UsageError, match=r"which .*launcher.py loads, does not exist; put it beside launcher.py"):
        exported_file(tmp_path / "launcher.py")
    (tmp_path / "launcher.py").write_text(LAUNCHER.replace("'/gone", "gone + '"))
    with pytest.raises(UsageError, match="is not a script of AOTInductor's minifier"):
        exported_file(tmp_path / "launcher.py")


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
def test_the_script_compiles_the_program_and_passes(python_in_forks: Path, tmp_path: Path) -> None:
    """One whose results are of the precision of its values passes in test_exported_devices.py."""
    subprocess.run([python_in_forks, "-c", OF_AUTOCAST], cwd=tmp_path, check=True, capture_output=True)
    exported = exported_file(tmp_path / "model.pt2")
    assert exported is not None
    command = [python_in_forks, "-c", script_of(exported), str(exported.path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


#: Its example inputs make a file when they are unpickled.
HIDDEN = """
import os, io, sys, zipfile, torch
class Touch:
    def __reduce__(self):
        return os.system, ("touch ran",)
exported = torch.export.export(torch.nn.Linear(4, 4), (torch.ones(2, 4),))
torch.export.save(exported, "plain.pt2")
data = io.BytesIO()
torch.save(((Touch(),), {}), data)
with zipfile.ZipFile("plain.pt2") as plain, zipfile.ZipFile("model.pt2", "w") as made:
    for name in plain.namelist():
        made.writestr(name, data.getvalue() if name.endswith("sample_inputs/model.pt") else plain.read(name))
"""


@pytest.mark.torch
@pytest.mark.slow
def test_what_was_taken_for_data_is_loaded_as_data(python_in_forks: Path, tmp_path: Path) -> None:
    subprocess.run([python_in_forks, "-c", HIDDEN], cwd=tmp_path, check=True, capture_output=True)
    exported = exported_file(tmp_path / "model.pt2")
    assert exported is not None and not loaded_code(exported.path).is_data
    fooled = exported.script(LoadedCode(exported.path, ()), digest_of(exported.path))
    done = subprocess.run(
        [python_in_forks, "-c", fooled, str(exported.path)], cwd=tmp_path, capture_output=True, text=True
    )
    assert "weights_only" in done.stderr and done.returncode == 1
    other = fooled.replace(digest_of(exported.path), "0" * 64)
    done = subprocess.run(
        [python_in_forks, "-c", other, str(exported.path)], cwd=tmp_path, capture_output=True, text=True
    )
    assert "has changed since" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_settings_of_a_minifiers_script_are_values(tmp_path: Path) -> None:
    archive(tmp_path / "exported_program.pt2", "a/models/model.json")
    script = tmp_path / "minifier_launcher.py"
    script.write_text(LAUNCHER.replace("max_autotune = True", "max_autotune = print('it runs')"))
    with pytest.raises(UsageError, match="that repro-kit can read"):
        exported_file(script)
