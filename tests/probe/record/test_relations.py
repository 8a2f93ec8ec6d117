"""Tensors of one call are recorded with what they are to each other, and a program makes them so again."""

import subprocess
from pathlib import Path

import pytest

import repro_kit.probe
from repro_kit.graph.reading.graph_record import InputRecord
from repro_kit.graph.reading.input_lines import has_relations, related_lines, tensor_expression
from repro_kit.serialize import from_data, loads

#: For each tensor: its value, whether it needs gradients, is a leaf and made in inference mode, its base and creation.
DESCRIBE = """
import torch
def place(tensor):
    return id(tensor) if tensor._is_zerotensor() else tensor.untyped_storage().data_ptr()

def describe(tensors):
    creation = torch._C._autograd._get_creation_meta
    names = {id(tensor): name for name, tensor in tensors.items()}
    return {
        name: [
            str((tensor + 0).tolist()), [tensor.is_conj(), tensor.is_neg(), tensor._is_zerotensor()],
            list(tensor.stride()), tensor.requires_grad, tensor.is_leaf, tensor.is_inference(),
            type(tensor).__name__,
            tensor._base is not None and names.get(id(tensor._base), str((tensor._base + 0).tolist())),
            str(creation(tensor)) if tensor._base is not None and not tensor.is_inference() else "",
            sorted(other for other in tensors if place(tensors[other]) == place(tensor)),
        ]
        for name, tensor in tensors.items()
    }
"""

MAKE = """
import json, sys
from repro_probe.record.values import ValueStore, describe_tensors

def numbers(*shape):
    return torch.arange(24.0)[: torch.Size(shape).numel()].reshape(shape).clone()

weight = torch.nn.Parameter(numbers(4, 3))
history = numbers(4, 3).requires_grad_() * 2
with torch.no_grad():
    quiet = history[2]
with torch.inference_mode():
    frozen = numbers(2)
tied = torch.nn.Parameter(numbers(6))
store = numbers(2, 4, 3)
waves = torch.complex(numbers(2, 3), numbers(2, 3) + 1)
phase = (waves.t() + 1).requires_grad_()
calls = [
    {"row": weight[1], "column": weight.t()[0]},
    {"whole": history, "upper": history[:3], "lower": history[1:], "quiet": quiet},
    {"first": history.unbind(0)[1]},
    {"frozen": frozen, "x": numbers(2)},
    {"tied": tied, "alias": tied.data, "part": tied.detach()[2:]},
    {"keys": store[0].t(), "values": store[1]},
    {"channels": numbers(2, 3, 2, 2).contiguous(memory_format=torch.channels_last).requires_grad_()},
    {"conjugate": waves.conj(), "waves": waves},
    {"adjoint": waves.mH, "x": numbers(1)},
    {"twice": waves.mH[1:].conj()},
    {"negative": torch._neg_view(numbers(3))[1:]},
    {"again": phase.detach().conj().requires_grad_()},
    {"zero": torch._efficientzerotensor((2, 3), dtype=torch.float64), "x": numbers(2)},
    {"result": numbers(3, 2).t().contiguous().requires_grad_() + 1},
]
records = [describe_tensors(list(call.items()), ValueStore(sys.argv[1] + f"/{at}", 1 << 20))
    for at, call in enumerate(calls)]
print(json.dumps([[describe(call) for call in calls], records]))
"""


def ran(python: Path, code: str, *words: str, given: str = "") -> str:
    path = str(Path(next(iter(repro_kit.probe.__path__))))
    command = [python, "-c", code, *words]
    ended = subprocess.run(command, input=given, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.torch
@pytest.mark.slow
def test_a_program_makes_the_recorded_tensors_with_their_bases_and_history(
    python_in_forks: Path, tmp_path: Path
) -> None:
    originals, recorded = loads(ran(python_in_forks, DESCRIBE + MAKE, str(tmp_path)).encode())
    pieces = [
        f"directory, names = {str(tmp_path / str(at))!r}, {list(described)!r}\n" + text_of(records)
        for at, (described, records) in enumerate(zip(originals, recorded, strict=True))
    ]
    code = DESCRIBE + "import json\ndef load(name):\n    return torch.load(directory + '/' + name)\nresults = []\n"
    for piece in pieces:
        code += piece + "\nresults.append(describe({name: globals()[name] for name in names}))\n"
    made = loads(ran(python_in_forks, code + "print(json.dumps(results))").encode())
    assert made == originals


def text_of(records: dict[str, object]) -> str:
    named = [(name, from_data(record, InputRecord)) for name, record in records.items()]
    count = iter(range(100))
    return "\n".join(related_lines(named, lambda name: f"{name}_{next(count)}"))


def test_a_plain_tensor_is_written_as_before() -> None:
    record = InputRecord(shape=(2,), stride=(1,), storage="x", own="1", file="v.pt", requires_grad=True)
    assert not has_relations(record)
    assert list(related_lines([("x", record)], str)) == [f"x = {tensor_expression(record)}"]
