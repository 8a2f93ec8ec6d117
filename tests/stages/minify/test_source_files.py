"""The script of a case, with the modules of the user that it imports, becomes one program."""

import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.session.case_paths import stem
from repro_kit.stages.minify.source_files import folded, main_file


@pytest.mark.parametrize("launcher", ["torchrun", "python -m torch.distributed.run", "accelerate launch"])
def test_the_module_that_a_launcher_runs_is_one_program_with_what_it_imports(tmp_path: Path, launcher: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "model.py").write_text("def forward(x):\n    return x + 1\n")
    (tmp_path / "package" / "train.py").write_text("from .model import forward\nprint(forward(1))\n")
    argv = (*launcher.split(), "--nproc-per-node", "2", "-m", "package.train", "--lr", "0.1")
    subject = Subject("command", argv, str(tmp_path), sys.executable)
    assert stem(subject) == "train"
    case = Case.create(tmp_path / "train.repro", subject, "2026-01-01")
    (case.path / "observe" / "probe").mkdir(parents=True)
    assert main_file(case) == tmp_path / "package" / "train.py"
    text = folded(case).text
    assert "print(forward(1))" in text and "return x + 1" in text and "'--lr', '0.1'" in text
