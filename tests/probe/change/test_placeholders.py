"""A script finds a file where torch would have written one, and the file is gone when the script has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.runner.launch import PROBE

pytestmark = [pytest.mark.torch]

SCRIPT = """
import os, shutil
import torch
from repro_probe.change import export_stand_ins

export_stand_ins.install(None)
exported = torch.export.export(torch.nn.Identity(), (torch.ones(3),))
torch.export.save(exported, "model.pt2")
torch._inductor.aoti_compile_and_package(exported, package_path="package.pt2")
torch.export.save(exported, "mine.pt2")
os.makedirs("shipped")
for name in ("model.pt2", "package.pt2"):
    assert os.path.getsize(name) > 0
    shutil.copy(name, "shipped")
    os.remove(name)
assert torch.export.load("shipped/model.pt2").module()(torch.ones(1)) == 1
assert torch._inductor.aoti_load_package("shipped/package.pt2")(torch.ones(1)) == 1
torch.export.save(exported, "model.pt2")
try:
    shutil.move("model.pt2", "mine.pt2")
except FileNotFoundError as error:
    print(error)
"""


def test_a_script_finds_its_files_and_leaves_none(tmp_path: Path) -> None:
    (tmp_path / "mine.pt2").write_text("the user's own")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(PROBE)}
    done = subprocess.run([sys.executable, str(script)], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mine.pt2").read_text() == "the user's own"
    assert "compiled nothing, so there is no such file" in done.stdout
    assert list(tmp_path.rglob("*.pt2")) == [tmp_path / "mine.pt2"]
