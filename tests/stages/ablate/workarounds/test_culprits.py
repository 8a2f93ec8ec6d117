from pathlib import Path

from repro_kit.failure.failure import ExceptionLink, Failure, Measured
from repro_kit.failure.kinds import Kind
from repro_kit.stages.ablate.workarounds import suspects
from repro_kit.trace.graph_text import CodeOrigin, CompiledFrame, UserCode

SCRIPT = """import torch
import functools

@functools.cache
def inner(x):
    return torch.erf(x) + 1

def helper(x):
    return inner(x * 2).sum()

class M(torch.nn.Module):
    def forward(self, x):
        return helper(x) + x.mean()
"""


def case(tmp_path: Path) -> tuple[str, UserCode]:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    origins = [
        CodeOrigin("0/0", 'erf: "f32[4]" = torch.erf(mul)', str(file), 6, "inner"),
        CodeOrigin("0/0", 'sum_1: "f32[]" = add.sum()', str(file), 9, "helper"),
        CodeOrigin("0/0", 'mean: "f32[]" = x.mean()', str(file), 13, "forward"),
        CodeOrigin(
            "0/0", "gelu = torch.nn.functional.gelu(y)", "/usr/lib/python3.11/site-packages/torch/nn/x.py", 3, "g"
        ),
    ]
    frames = [
        CompiledFrame("0/0", "forward", str(file), 12, 3.0),
        CompiledFrame("1/0", "step", str(file), 40, 1.0),
        CompiledFrame("1/1", "step", str(file), 40, 1.0),
    ]
    return str(file), UserCode(origins, frames, [(str(file), 9)])


def names(failure: Failure, code: UserCode) -> list[tuple[str, int, bool]]:
    return [(suspect.name, suspect.line, suspect.whole) for suspect in suspects(failure, code)]


def test_the_function_of_the_named_operator_goes_first_and_whole_frames_last(tmp_path):
    _, code = case(tmp_path)
    failure = Failure(Kind.COMPILE_ERROR, op="aten.erf.default", compile_id="0/0")
    assert names(failure, code) == [("inner", 4, False), ("helper", 8, False), ("forward", 12, True)]


def test_what_torch_calls_user_code_goes_before_the_graph(tmp_path):
    file, code = case(tmp_path)
    message = (
        f'Unsupported\n\nfrom user code:\n   File "{file}", line 13, in forward\n  File "{file}", line 9, in helper'
    )
    failure = Failure(Kind.DYNAMO_ERROR, exceptions=(ExceptionLink("Unsupported", message),), compile_id="0/0")
    assert names(failure, code)[0] == ("helper", 8, False)


def test_recompiles_are_those_of_the_frame_that_has_most(tmp_path):
    _, code = case(tmp_path)
    failure = Failure(Kind.RECOMPILES, measured=Measured.exact(5))
    assert names(failure, code) == [("step", 40, True), ("forward", 12, True)]


def test_a_graph_break_is_in_the_function_that_holds_its_line(tmp_path):
    _, code = case(tmp_path)
    failure = Failure(Kind.GRAPH_BREAKS, measured=Measured.exact(1))
    assert names(failure, code)[0] == ("helper", 8, False)


def test_a_file_that_is_gone_is_no_suspect():
    code = UserCode([CodeOrigin("0/0", "erf = torch.erf(x)", "/nowhere/train.py", 6, "inner")], [], [])
    assert names(Failure(Kind.COMPILE_ERROR), code) == []
