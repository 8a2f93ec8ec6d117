"""What a rank writes down of itself, in a process of its own: the watch ends with the process."""

import subprocess
from pathlib import Path

import pytest

from forked import run_forked
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import read_ranks
from repro_kit.runner.supervised import PROBE

pytestmark = pytest.mark.torch

SCRIPT = """
import pathlib, sys, time
sys.path.insert(0, sys.argv[1])
from repro_probe.common.run_files import FindingsDirectory
from repro_probe.record import rank_state

place = pathlib.Path(sys.argv[2])
rank_state.install(FindingsDirectory(str(place), {}))
import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=0, world_size=1)
while not list(place.glob("rank-*.json")):
    time.sleep(0.1)
x = torch.ones(3)
dist.all_reduce(x)  # here
torch.ops._c10d_functional.wait_tensor(torch.ops._c10d_functional.all_gather_into_tensor(x, 1, "0"))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_the_last_state_of_a_rank_has_its_collectives_and_their_lines(python_in_forks: Path, tmp_path: Path) -> None:
    if not hasattr(pytest.importorskip("torch")._C._distributed_c10d, "_dump_fr_trace"):  # nothing to read it with
        pytest.skip("this torch has no flight recorder for gloo")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    subprocess.run([python_in_forks, script, PROBE, tmp_path], check=True, timeout=120)
    problems: list[str] = []
    (state,) = read_ranks(tmp_path, problems)
    assert not problems and (state.rank, state.size) == (0, 1)
    here = SCRIPT.splitlines().index("dist.all_reduce(x)  # here") + 1
    first, second = state.collectives
    assert (first.name, first.number, first.sizes, first.line) == ("all_reduce", 1, ((3,),), f"{script}:{here}")
    assert second.name == "all_gather" and second.done and state.waits is None


def test_the_users_line_is_told_from_that_of_an_installed_package(oracle: ProgramOracle, tmp_path: Path) -> None:
    code = (
        "import torch\n"
        "from repro_probe.record.rank_state import users_line as line\n"
        "lock, train = ('/env/lib/site-packages/filelock/_api.py', 8), ('/user/train.py', 3)\n"
        "inner = (torch.__file__, 9)\n"
        "print(line([inner, lock, train]), line([inner, lock]), line([inner]) == '')\n"
    )
    printed = run_forked(oracle, tmp_path, code, "observe", {})
    assert printed.split() == ["/user/train.py:3", "/env/lib/site-packages/filelock/_api.py:8", "True"]
