"""A script that exports runs by every other entry, in the script's own words."""

import os
import subprocess
from pathlib import Path

import pytest

from forked import run_forked
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.supervised import PROBE
from repro_kit.verdicts.eager_run import doubt_of_eager_run

pytestmark = [pytest.mark.torch]

SCRIPT = """
import torch
from repro_probe.change import export_stand_ins

class Doubled(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x) * 2

def operators(entry):
    exported = torch.export.export(Doubled(), (torch.ones(3),))
    print(entry, [str(node.target) for node in exported.graph.nodes if node.op == "call_function"])

export_stand_ins.install(ENTRY)
operators(ENTRY)
"""


@pytest.mark.parametrize("entry", ["export", "export-strict", "export-draft", "export-decomposed"])
def test_a_script_exports_in_another_way(oracle: ProgramOracle, entry: str, tmp_path: Path) -> None:
    if entry == "export-draft" and not hasattr(pytest.importorskip("torch.export"), "draft_export"):
        pytest.skip("this torch has no torch.export.draft_export")
    printed = run_forked(oracle, tmp_path, SCRIPT.replace("ENTRY", repr(entry)), "observe", {})
    decomposed = entry == "export-decomposed"
    assert ("aten.silu.default" in printed) is not decomposed
    assert "aten.mul.Tensor" in printed


SAVED = """
import io, sys
import torch
from repro_probe.change import export_stand_ins

export_stand_ins.install(None)
exported = torch.export.export(torch.nn.Identity(), (torch.ones(3),))
file = io.BytesIO()
torch.export.save(exported, file)
torch.export.save(exported, "model.pt2")
for again in (torch.export.load(io.BytesIO(file.getvalue())), torch.export.load("model.pt2")):
    print("the model itself" if again.module()(again) is again else "a program")
class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = [torch.zeros(())]

    def forward(self, x):
        return x + self.calls[0].add_(1)

print(torch.export.export(Counts(), (torch.zeros(()),)).module()(torch.zeros(())))
exported.graph
print("never reached")
"""


def test_a_model_that_was_saved_is_loaded_as_it_is(python_in_forks: Path, tmp_path: Path) -> None:
    done = _run(python_in_forks, SAVED, tmp_path)
    assert done.stdout.splitlines() == ["the model itself", "the model itself", "tensor(1.)"]
    assert not (tmp_path / "model.pt2").exists()


PACKAGED = """
import os
import torch
import torch._inductor.package
from repro_probe.change import export_stand_ins

export_stand_ins.install(BACKEND)
os.chdir(PLACE)

class Scaled(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = torch.nn.Buffer(torch.tensor(scale))

    def forward(self, x):
        return x * self.scale.add_(1)

def compiled(model):
    x = torch.ones(())
    return torch._inductor.aot_compile(torch.export.export(model, (x,)).module(), (x,))

small, large = Scaled(1.0), Scaled(10.0)
where = torch._inductor.package.package_aoti("both.pt2", {"small": compiled(small), "large": compiled(large)})
packages = [torch._inductor.package.load_package(where, name) for name in ("small", "large")]
x = torch.ones(())
print([package(x).item() for package in packages], [model(x).item() for model in (small, large)])
names = packages[0].get_constant_fqns()
packages[0].load_constants({name: torch.tensor(100.0) for name in names}, check_full_update=True)
print(names, packages[0](x).item(), small(x).item(), packages[0].get_metadata())
packages[0].loader
print("never reached")
"""


@pytest.mark.parametrize("backend", [None, "eager"])
def test_packages_have_a_state_of_their_own_and_names(
    oracle: ProgramOracle, backend: str | None, tmp_path: Path
) -> None:
    code = PACKAGED.replace("BACKEND", repr(backend)).replace("PLACE", repr(str(tmp_path)))
    printed = run_forked(oracle, tmp_path, code, "observe", {})
    assert printed.splitlines() == ["[2.0, 11.0] [2.0, 11.0]", "['scale'] 101.0 3.0 {}"]
    assert not list(tmp_path.glob("*.pt2"))


LOADED = """
import contextlib
from repro_probe.change import override
from repro_probe.common.run_files import FindingsDirectory

override.install(FindingsDirectory(".", {"eager": True}), lambda *_: None, lambda compiled, _: compiled)
from torch.export.pt2_archive._package import AOTICompiledModel

with contextlib.suppress(AttributeError):
    AOTICompiledModel(None)()
"""


def test_a_package_that_was_compiled_before_makes_an_eager_run_doubtful(python_in_forks: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch.export.pt2_archive._package")
    _run(python_in_forks, LOADED, tmp_path)
    assert doubt_of_eager_run(tmp_path) == "it runs code that was compiled before, and that it loads from a file"


OPERATORS = """
import sys
from repro_probe.change import override
from repro_probe.common.run_files import FindingsDirectory

override.install(FindingsDirectory(".", {"eager": True}), lambda *_: None, lambda compiled, _: compiled)
import torch
from torch.nn.attention.flex_attention import flex_attention

query = torch.randn(1, 1, 16, 8)
print(tuple(flex_attention(query, query, query).shape))
compiled = torch.compile(lambda x: x.sin(), backend=lambda *_: sys.exit("compiled"))
print(tuple(compiled(torch.ones(2)).shape))
"""


def test_an_operator_that_traces_its_function_in_eager_runs_while_nothing_is_compiled(
    python_in_forks: Path, tmp_path: Path
) -> None:
    done = _run(python_in_forks, OPERATORS, tmp_path)
    assert done.stdout.splitlines() == ["(1, 1, 16, 8)", "(2,)"]
    assert not list(tmp_path.rglob("compiled*"))


def _run(python: Path, script: str, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": str(PROBE)},
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    )
