"""The tests of vector instructions in a script that runs under the probe."""

import sys
from pathlib import Path

import pytest

from probed import run_probed
from repro_kit.runner.compiler import give_probes, probes, take_probes
from repro_kit.runner.program_oracle import ProgramOracle
from texts import program

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
def test_neither_a_run_nor_a_query_tries_again_what_an_earlier_run_could_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch._inductor.cpu_vec_isa")
    import torch

    if not hasattr(torch._inductor.cpu_vec_isa.VecISA, "_probe_load"):
        pytest.skip("this torch has no test of its own for loading")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    chosen = []
    for name in ("first", "second"):
        place = tmp_path / name
        place.mkdir()
        give_probes(sys.executable, place / "cache")
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(place / "cache"))
        chosen.append(run_probed(place, PICKS, "observe", {}).split())
        take_probes(sys.executable, place / "cache")
    (*before, tries), (*after, tries_after) = chosen
    assert before == after
    assert int(tries) > 0 or before == ["INVALID_VEC_ISA"]
    assert tries_after == "0"
    known = probes(sys.executable)
    assert known is not None
    kept = {path: path.stat().st_ino for path in known.glob("??/*.so")}
    assert kept or before == ["INVALID_VEC_ISA"]
    with ProgramOracle(sys.executable, cache=known) as oracle:
        list(oracle.eager([program()], None))
    assert {path: path.stat().st_ino for path in known.glob("??/*.so")} == kept
