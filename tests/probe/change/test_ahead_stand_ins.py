"""A script that compiles ahead runs without the compiler, in the script's own words."""

import os
import subprocess
from pathlib import Path

import pytest

from repro_kit.runner.supervised import PROBE

pytestmark = [pytest.mark.torch]

SCRIPT = """
from repro_probe.change import override
from repro_probe.common.run_files import FindingsDirectory

options = {"eager": True, "fullgraph": False}
override.install(FindingsDirectory(".", options), lambda *_: None, lambda compiled, _: compiled)
import torch
import torch._dynamo.config

if hasattr(torch._dynamo.config, "enable_aot_compile"):  # an older torch asks for it
    torch._dynamo.config.enable_aot_compile = True

class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1

model, x = Model(), torch.zeros(())
for compiled, arguments in (
    (torch.compile(model, fullgraph=True).forward, (model, x)),
    (torch.compile(lambda x: x + 2, fullgraph=True), (x,)),
):
    ahead = compiled.aot_compile(((x,), {}))
    ahead.save_compiled_function("ahead.bin")
    with open("ahead.bin", "rb") as file:
        print(ahead(*arguments).item(), torch.compiler.load_compiled_function(file)(*arguments).item())
"""


def test_what_is_compiled_ahead_and_loaded_is_the_function_itself(python_in_forks: Path, tmp_path: Path) -> None:
    compiler = pytest.importorskip("torch.compiler")
    if not hasattr(compiler, "load_compiled_function"):
        pytest.skip("this torch loads no compiled functions")
    file = tmp_path / "ahead.bin"
    file.write_bytes(b"of the user")
    ended = subprocess.run(
        [python_in_forks, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": str(PROBE), "TORCH_COMPILE_DISABLE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.splitlines() == ["1.0 1.0", "2.0 2.0"], ended.stderr
    assert file.read_bytes() == b"of the user"
    assert not list(tmp_path.glob("compiled*"))
