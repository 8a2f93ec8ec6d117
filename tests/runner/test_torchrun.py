import pytest

from repro_kit.runner.torchrun import Launch, launch_of, on_one_machine


@pytest.mark.parametrize(
    ("command", "launch"),
    [
        ("/env/bin/torchrun --nproc-per-node 2 train.py --lr 0.1", Launch(2, "train.py", ("--lr", "0.1"))),
        ("torchrun --standalone --nproc_per_node=4 a/train.py", Launch(4, "a/train.py")),
        ("python -m torch.distributed.run --nnodes=1 --nproc-per-node=2 train.py", Launch(2, "train.py")),
        ("torchrun --nnodes 2 --nproc-per-node 2 train.py", None),
        ("torchrun --nproc-per-node auto train.py", Launch(0, "train.py")),
        ("torchrun train.py", Launch(1, "train.py")),
        (
            "torchrun --nproc-per-node 2 -m package.train --lr 1",
            Launch(2, "package.train", ("--lr", "1"), module=True),
        ),
        ("torchrun --nproc-per-node 2 -m", None),
        ("python train.py --nproc-per-node 2", None),
        ("bash torchrun.sh train.py", None),
        (
            "/env/bin/accelerate launch --multi_gpu --num_processes 2 train.py --lr 1",
            Launch(2, "train.py", ("--lr", "1")),
        ),
        ("accelerate-launch --use-fsdp --num-processes=4 --num_machines 1 train.py", Launch(4, "train.py")),
        ("accelerate launch --cpu --num_processes 2 train.py", Launch(1, "train.py")),
        ("accelerate launch --num_processes 4 --num_machines 2 train.py", None),
        ("accelerate launch --multi_gpu train.py", Launch(0, "train.py")),
        ("accelerate launch --config_file two.yaml train.py --epochs 1", Launch(0, "train.py", ("--epochs", "1"))),
        ("accelerate launch --num_processes 2 train.py", Launch(0, "train.py")),
        ("accelerate test", None),
    ],
)
def test_the_script_and_the_ranks_of_a_launch(command: str, launch: Launch | None) -> None:
    assert launch_of(command.split()) == launch


@pytest.mark.parametrize(
    ("command", "here", "ranks"),
    [
        (
            "/env/bin/torchrun --nnodes 2 --node-rank=1 --master-addr h --nproc-per-node 2 --tee 3 train.py --lr 1",
            "/env/bin/torchrun --standalone --nproc-per-node=4 --tee 3 train.py --lr 1",
            (4, 2, 4),
        ),
        (
            "python -m torch.distributed.run --nnodes=1:4 --rdzv-id=7 --rdzv_endpoint h:1 -m a.train --nnodes 9",
            "python -m torch.distributed.run --standalone --nproc-per-node=4 -m a.train --nnodes 9",
            (4, 4, 4),
        ),
        (
            "torchrun --nnodes 8 --nproc-per-node 8 train.py",
            "torchrun --standalone --nproc-per-node=16 train.py",
            (16, 8, 64),
        ),
        (
            "torchrun --nnodes 2 --nproc-per-node gpu train.py",
            "torchrun --standalone --nproc-per-node=2 train.py",
            (2, 2, 0),
        ),
        (
            "accelerate launch --multi_gpu --num_machines 2 --machine_rank 0 --num_processes 4 train.py",
            "accelerate launch --num_processes=4 --multi_gpu train.py",
            (4, 2, 4),
        ),
    ],
)
def test_a_job_of_several_nodes_is_started_on_one_machine(command: str, here: str, ranks: tuple[int, int, int]) -> None:
    found = on_one_machine(command.split())
    assert found is not None
    assert " ".join(found.argv) == here
    assert (found.ranks, found.nodes, found.whole) == ranks
    assert launch_of(found.argv) is not None or "-m a.train" in here


@pytest.mark.parametrize(
    "command",
    ["torchrun --nproc-per-node 2 train.py --nnodes 2", "torchrun --nnodes=1:1 train.py", "python train.py --nnodes 2"],
)
def test_a_command_that_starts_no_job_of_several_nodes_stays(command: str) -> None:
    assert on_one_machine(command.split()) is None
