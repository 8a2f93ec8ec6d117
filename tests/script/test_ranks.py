"""A script of several ranks becomes one for a single process."""

import subprocess
import sys

import pytest

from repro_kit.script import Script
from repro_kit.script.ranks import alone, started_outside

TORCHRUN = """from __future__ import annotations
import torch.distributed as dist

def main():
    dist.init_process_group("gloo", init_method="env://")
    return dist.get_rank()

main()
"""
SPAWNS = """import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank, size, *more):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29533", rank=rank, world_size=size)

if __name__ == "__main__":
    mp.spawn(main, (2, "a"), nprocs=2)
"""


def test_a_rank_alone_joins_a_fake_group_in_place_of_its_own() -> None:
    text = alone(Script(TORCHRUN), rank=2, size=3).text
    assert text.startswith("from __future__ import annotations\n")
    assert "init_process_group('fake', store=FakeStore(), rank=2, world_size=3)" in text
    assert "gloo" not in text and "'LOCAL_RANK': '2'" in text and "'WORLD_SIZE': '3'" in text


def test_a_function_that_spawn_runs_in_each_rank_is_called_with_the_rank() -> None:
    assert "main(1, 2, 'a')" in alone(Script(SPAWNS), rank=1, size=2).text
    outside = started_outside(Script(SPAWNS)).text
    assert "main(int(os.environ['RANK']), 2, 'a')" in outside
    assert "29533" not in outside and "rank=rank, world_size=size" in outside


def test_arguments_that_are_no_tuple_are_passed_on() -> None:
    text = "from torch.multiprocessing import spawn\nspawn(fn=main, nprocs=4, args=arguments)\n"
    assert "main(3, *arguments)" in alone(Script(text), rank=3, size=4).text


def test_a_script_that_starts_no_ranks_stays_as_it_is() -> None:
    script = Script(TORCHRUN)
    assert started_outside(script) is script
    other = Script("import subprocess\nspawn(main)\n")
    assert started_outside(other) is other


DDP = """import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(3, 2)).sum().backward()
print(model.module.weight.grad)
"""


@pytest.mark.slow
@pytest.mark.torch
def test_a_rank_alone_has_its_own_gradients_from_ddp() -> None:
    text = alone(Script(DDP), rank=1, size=2).text
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=120)
    assert "tensor([[3., 3.]])" in ended.stdout, ended.stderr


IN_A_LOOP = """import os
import multiprocessing as mp

def run(rank, size, step):
    os.environ["MASTER_PORT"] = "29500"
    print("ran", rank, size, step)

if __name__ == "__main__":
    processes = []
    mp.set_start_method("spawn")
    for rank in range(3):
        p = mp.Process(target=run, args=(rank, 3), kwargs={"step": 7})
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
        assert p.exitcode == 0
    print(", ".join(["a", "b"]))
"""
IN_A_LIST = """import multiprocessing

def run(device, size, step):
    print("ran", device, size, step)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=run, args=[rank, 3, word]) for rank, word in enumerate("xy7")]
    [process.start() for process in ranks]
    for each in ranks:
        each.join(timeout=60)
    print(", ".join(["a", "b"]))
"""


@pytest.mark.parametrize("script", [IN_A_LOOP, IN_A_LIST])
def test_each_turn_of_a_loop_that_starts_processes_is_a_rank(script: str) -> None:
    text = started_outside(Script(script)).text
    command = [sys.executable, "-c", text]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env={"RANK": "2"})
    assert ran.stdout == "ran 2 3 7\na, b\n", ran.stderr
    assert "Process" not in text and "29500" not in text
    assert "Process" not in alone(Script(script), rank=2, size=3).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'] = ('127.0.0.1', str(port))", "pass"),
        ("os.environ['MASTER_PORT'], a, b = (str(port), 1, 2)", "a, b = (1, 2)"),
        ("a, environ['MASTER_PORT'] = (1, str(port))", "a = 1"),
        ("os.environ['MASTER_PORT'], a = f()", "os.environ['MASTER_PORT'], a = f()"),
        ("*a, os.environ['MASTER_PORT'] = (1, 2)", "*a, os.environ['MASTER_PORT'] = (1, 2)"),
        ("[os.environ['MASTER_PORT'], a] = (1, 2)", "a = 2"),
        ("init_process_group('gloo', *rest)", "init_process_group('gloo', *rest)"),
        ("os.environ.update({'MASTER_PORT': str(port), 'A': 'b'}, MASTER_ADDR='::1')", "os.environ.update({'A': 'b'})"),
        ("os.environ |= {'MASTER_ADDR': '::1', 'MASTER_PORT': str(port)}", "os.environ |= {}"),
        ("init_process_group('gloo', f'tcp://127.0.0.1:{port}', rank=0)", "init_process_group('gloo', None, rank=0)"),
        ("own['MASTER_PORT'] = port", "own['MASTER_PORT'] = port"),
    ],
)
def test_where_ranks_meet_is_not_what_each_rank_would_choose_anew(text: str, expected: str) -> None:
    outside = started_outside(Script(f"{text}\nmp.spawn(main, nprocs=2)"))
    assert outside.text.splitlines() == ["import os", expected, "main(int(os.environ['RANK']))"]


def test_processes_outside_of_loops_and_without_a_function_stay() -> None:
    script = Script(
        "import multiprocessing\nfor x in range(2):\n    multiprocessing.Process()\nProcess(target=f).start()\n"
    )
    assert started_outside(script) is script
