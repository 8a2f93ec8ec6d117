"""`explain` on what the ranks of a real job left: traces, and dumps of torch's flight recorder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.cli.explain import explain

#: Rank 0 waits for rank 1, whose backend does not return. Each rank then writes its dump, and ends.
JOB = """
import contextlib, os, sys, threading, time
import torch, torch.distributed as dist

rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=rank, world_size=2)
x = torch.ones(4)
dist.all_reduce(x)

def give_up():
    time.sleep(2)
    with open(f"{sys.argv[1]}/dumps/fr_trace_{rank}", "wb") as file:
        file.write(torch._C._distributed_c10d._dump_fr_trace())
    time.sleep(1)  # the other rank writes its dump too
    os._exit(0)

def slow(graph, inputs):
    threading.Thread(target=give_up).start()
    dist.send(torch.ones(1), 0)
    time.sleep(60)

def step(x):
    return x.sin()

if rank == 1:
    torch.compile(step, backend=slow)(x)
else:
    dist.recv(torch.ones(1), 1)  # rank 1 compiles from now on
    threading.Thread(target=give_up).start()
    with contextlib.suppress(RuntimeError):  # rank 1 has ended
        dist.all_reduce(x)
"""


@pytest.mark.torch
@pytest.mark.slow
def test_the_rank_that_compiled_is_named_from_what_all_ranks_left(tmp_path: Path) -> None:
    left = tmp_path / "dumps"
    left.mkdir()
    script = tmp_path / "job.py"
    script.write_text(JOB)
    variables = {**os.environ, "TORCH_TRACE": str(left), "TORCH_FR_BUFFER_SIZE": "2000", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [subprocess.Popen([sys.executable, script, tmp_path, str(rank)], env=variables) for rank in (0, 1)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]

    shown = CliRunner().invoke(explain, [str(left)])
    text = " ".join(shown.output.split())
    assert shown.exit_code == 0, text
    assert "Rank 0 waits in all_reduce at" in text and "(number 2 of group 0), to which rank 1 did not come." in text
    assert "Rank 1: its last collective of that group was all_reduce at" in text
    assert "its trace ends inside the compile 0/0 of `step`" in text, text
