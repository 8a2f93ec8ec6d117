"""A script finds a file where torch would have written one; no placeholder gets among the user's files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.runner.supervised import PROBE

pytestmark = [pytest.mark.torch]

SCRIPT = """
import os, shutil, tempfile
import torch
from repro_probe.change import export_stand_ins

export_stand_ins.install(None)
exported = torch.export.export(torch.nn.Identity(), (torch.ones(3),))
made = tempfile.mkdtemp()
torch.export.save(exported, f"{made}/model.pt2")
torch._inductor.aoti_compile_and_package(exported, package_path=f"{made}/package.pt2")
os.rename(made, made + "-shipped")
for name in ("model.pt2", "package.pt2"):
    assert os.path.getsize(f"{made}-shipped/{name}") > 0
assert torch.export.load(f"{made}-shipped/model.pt2").module()(torch.ones(1)) == 1
assert torch._inductor.aoti_load_package(f"{made}-shipped/package.pt2")(torch.ones(1)) == 1
for move in (shutil.copy, shutil.move, lambda source, target: open(source, "rb").read()):
    try:
        move(f"{made}-shipped/model.pt2", "users.pt2")
    except FileNotFoundError as error:
        print(error.strerror)
torch.export.save(exported, "here.pt2")
print(os.path.exists("here.pt2"))
if os.fork() == 0:
    raise SystemExit
os.wait()
assert os.path.exists(f"{made}-shipped/model.pt2")
"""


@pytest.mark.slow
def test_a_script_finds_its_files_and_the_users_stay_as_they_are(tmp_path: Path) -> None:
    project, temporary = tmp_path / "project", tmp_path / "tmp"
    project.mkdir()
    temporary.mkdir()
    (project / "users.pt2").write_text("the user's own")
    env = {**os.environ, "PYTHONPATH": str(PROBE), "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    refused = "repro-kit compiled nothing, so there is no such file"
    assert done.stdout.splitlines() == [refused, refused, refused, "False"]
    assert [path.name for path in project.iterdir()] == ["users.pt2"]
    assert (project / "users.pt2").read_text() == "the user's own"
    assert not [path for path in temporary.rglob("*") if path.is_file()]
