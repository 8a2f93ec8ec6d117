"""What raises nothing, bisected: by a limit, or by how much worse it is than the build that works."""

from __future__ import annotations

import sys
from pathlib import Path

import git
import pytest

from repro_kit.cli.main import main
from repro_kit.commands.bisect.subject import build_symptom
from repro_kit.errors import ReproKitError
from repro_kit.failure.kinds import Kind
from repro_kit.regressions.search_state import read_state

MODEL = """import torch

@torch.compile(backend="eager", dynamic=False)
def double(x):
    return x * 2

for size in range(2, {sizes}):
    double(torch.ones(size))
"""


@pytest.mark.parametrize(
    ("text", "kind", "relative"),
    [
        ("recompiles>3", Kind.RECOMPILES, False),
        ("recompiles>2x", Kind.RECOMPILES, True),
        ("compile-time>30s", Kind.COMPILE_TIME, False),
        ("compile-time>1.5x", Kind.COMPILE_TIME, True),
        ("compile-time>1.5x@good", Kind.COMPILE_TIME, True),
        ("slowdown>1.2", Kind.SLOWDOWN, True),
        ("memory>2GiB", Kind.MEMORY, False),
        ("accuracy", Kind.ACCURACY, False),
    ],
)
def test_a_ratio_is_to_the_good_end(text, kind, relative) -> None:
    symptom = build_symptom(text)
    assert (symptom.kind, bool(symptom.baseline)) == (kind, relative)


@pytest.mark.parametrize("text", ["slowdown>1.2@aot_eager", "speed>3", "recompiles>2y", "compile-growth>2"])
def test_what_is_no_symptom_of_a_bisection(text) -> None:
    with pytest.raises(ReproKitError):
        build_symptom(text)


@pytest.mark.slow
@pytest.mark.torch
def test_a_commit_that_recompiles_more(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repo = git.Repo.init(project / "clone")
    for number in range(2):
        (project / "clone" / "model.py").write_text(f"# {number}\n" + MODEL.format(sizes=8 if number >= 1 else 4))
        repo.index.add(["model.py"])
        repo.index.commit(f"change {number}")
    words = ["--git", "clone", "--good", "HEAD~1", "--check", "recompiles>2x", "--python", sys.executable, "-o", "out"]
    with pytest.raises(SystemExit) as ended:
        main(["bisect", *words, "--", "python", "model.py"])
    out = capsys.readouterr().out
    assert (ended.value.code, "change 1 is the first build that fails" in out) == (0, True), out
    state = read_state(project / "out")
    assert state is not None and state.reference == 1
    assert "5 recompiles" in out
