"""The tests of vector instructions in a script that runs under the probe."""

from pathlib import Path

import pytest

from probed import run_probed
from repro_kit.runner.compiler import give_probes, take_probes

PICKS = """
import subprocess, sys
import torch._inductor.cpu_vec_isa as cpu_vec_isa
run, commands = subprocess.run, []
subprocess.run = lambda command, **options: commands.append(command) or run(command, **options)
chosen = cpu_vec_isa.pick_vec_isa()
print(chosen, sum(command[0] == sys.executable for command in commands))
"""


@pytest.mark.torch
@pytest.mark.slow
def test_a_run_does_not_try_again_what_an_earlier_run_could_load(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("torch._inductor.cpu_vec_isa")
    import torch

    if not hasattr(torch._inductor.cpu_vec_isa.VecISA, "_probe_load"):
        pytest.skip("this torch has no test of its own for loading")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    chosen = []
    for name in ("first", "second"):
        place = tmp_path / name
        place.mkdir()
        give_probes("/venv/bin/python", place / "cache")
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(place / "cache"))
        chosen.append(run_probed(place, PICKS, "observe", {}).split())
        take_probes("/venv/bin/python", place / "cache")
    (*before, tries), (*after, tries_after) = chosen
    assert before == after
    assert int(tries) > 0 or before == ["INVALID_VEC_ISA"]
    assert tries_after == "0"
