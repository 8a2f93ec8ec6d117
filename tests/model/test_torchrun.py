import pytest

from repro_kit.model.torchrun import Launch, launch_of


@pytest.mark.parametrize(
    ("command", "launch"),
    [
        ("/env/bin/torchrun --nproc-per-node 2 train.py --lr 0.1", Launch(2, "train.py", ("--lr", "0.1"))),
        ("torchrun --standalone --nproc_per_node=4 a/train.py", Launch(4, "a/train.py")),
        ("python -m torch.distributed.run --nnodes=1 --nproc-per-node=2 train.py", Launch(2, "train.py")),
        ("torchrun --nnodes 2 --nproc-per-node 2 train.py", None),
        ("torchrun --nproc-per-node auto train.py", Launch(0, "train.py")),
        ("torchrun train.py", Launch(1, "train.py")),
        ("torchrun --nproc-per-node 2 -m package.train", None),
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
