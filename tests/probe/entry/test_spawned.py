"""What the probe does in the processes that a program starts, and to the files that a program opens."""

import os
import sys
from pathlib import Path

import pytest

from repro_kit.probe.repro_probe.protocol.orders import LOGS
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.subject_start import probe_environment
from repro_kit.runner.supervised import PROBE, launch

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch.multiprocessing as mp


def main(rank):
    if rank == 1:
        raise ValueError("not today")


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
"""


def test_the_traceback_has_no_frame_of_the_probe(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    env = probe_environment(os.environ, "observe", tmp_path / "probe", 300)
    out, err = tmp_path / "out.txt", tmp_path / "err.txt"
    launch([sys.executable, str(script)], cwd=tmp_path, env=env, timeout=300, stdout=out, stderr=err)
    printed = err.read_text()
    assert "ValueError: not today" in printed and str(PROBE) not in printed
    raised = [uncaught.links[-1] for uncaught in read_findings(tmp_path / "probe").exceptions]
    assert any(link.type == "ValueError" and link.message == "not today" for link in raised), raised


CLOSES = """
import os
import torch

@torch.compile(backend="aot_eager")
def f(x):
    return x.sin()

f(torch.ones(2))
torch._logging.set_logs(aot_graphs=True)
os.closerange(3, {highest})
files = [open(f"own{{at}}.txt", "w") for at in range(40)]
f(torch.ones(2, 2))
for file in files:
    file.close()
if os.fork() == 0:
    os.closerange(3, {highest})
    f(torch.ones(2, 2, 2))
    os._exit(5)
print(os.waitstatus_to_exitcode(os.wait()[1]), sum(os.path.getsize(file.name) for file in files))
"""


@pytest.mark.parametrize("highest", [256, 4096])
def test_a_program_that_closes_all_descriptors_ends_alike_and_its_files_are_its_own(
    tmp_path: Path, highest: int
) -> None:
    (tmp_path / "train.py").write_text(CLOSES.format(highest=highest))
    logs, trace = tmp_path / "logs" / "torch.txt", tmp_path / "trace"
    logs.parent.mkdir()
    logging = {"TORCH_TRACE": str(trace), "TORCH_LOGS": LOGS, "TORCH_LOGS_OUT": str(logs)}
    env = probe_environment({**os.environ, **logging}, "observe", tmp_path / "probe", 300)
    out, err = tmp_path / "out.txt", tmp_path / "err.txt"
    launch([sys.executable, "train.py"], cwd=tmp_path, env=env, timeout=300, stdout=out, stderr=err)
    assert out.read_text() == "5 0\n"
    assert "Traceback" not in err.read_text() and "Logging error" not in err.read_text()
    assert "Forward graph" in err.read_text() and "ignoring call" not in err.read_text()
    assert highest > 1000 or "Recompiling function f" in logs.read_text()
    assert any('"frame_compile_id": 2' in file.read_text() for file in trace.iterdir())
