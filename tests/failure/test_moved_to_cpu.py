"""Whether a failure on the CPU is the one of another device: never on less than all that a signature has."""

from dataclasses import replace

import pytest

from repro_kit.failure.failure import Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import normalise
from repro_kit.failure.moved_to_cpu import MovedToCpu, is_same_on_cpu
from repro_kit.failure.signature import Signature

ERROR = Signature(
    Kind.COMPILE_ERROR,
    ("InductorError", "LoweringException", "AssertionError"),
    normalise("no kernel for relu on cuda:0"),
    ("lowering.py:relu",),
)
HERE = replace(ERROR, message=normalise("no kernel for relu on cpu"))
WRONG = Signature(Kind.ACCURACY, difference="value", magnitude=0.5)


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        (ERROR, HERE),
        (ERROR, replace(HERE, exceptions=("BackendCompilerFailed", "AssertionError"))),
        (replace(ERROR, frames=()), HERE),
        (WRONG, replace(WRONG, magnitude=1.0)),
        (Signature(Kind.CRASH, signal="memory", frames=("a.py:f",)),) * 2,
    ],
)
def test_one_bug_on_two_devices(recorded: Signature, found: Signature) -> None:
    assert is_same_on_cpu(recorded, found)


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        (ERROR, replace(HERE, message=normalise("no kernel for log on cpu"))),
        (ERROR, replace(HERE, frames=("cpp.py:relu",))),
        (ERROR, replace(HERE, frames=())),
        (ERROR, replace(HERE, exceptions=("InductorError", "KeyError"))),
        (ERROR, replace(HERE, kind=Kind.RUNTIME_ERROR)),
        (replace(ERROR, op="aten.log.default"), replace(HERE, op="aten.relu.default")),
        (
            Signature(Kind.COMPILE_ERROR, ("InductorError", "CompilationError"), "error in triton"),
            Signature(Kind.COMPILE_ERROR, ("InductorError", "CppCompileError"), "error in triton"),
        ),
        (WRONG, replace(WRONG, difference="stride")),
        (WRONG, replace(WRONG, magnitude=0.01)),
        (replace(WRONG, magnitude=0.01), WRONG),
        (replace(WRONG, difference=None),) * 2,
        (Signature(Kind.CRASH, signal="memory"),) * 2,  # the signal alone
        (Signature(Kind.OOM, ("OutOfMemoryError",)),) * 2,
        (Signature(Kind.MEMORY, message="3 GB"),) * 2,
    ],
)
def test_a_weaker_likeness_is_another_bug(recorded: Signature, found: Signature) -> None:
    assert not is_same_on_cpu(recorded, found)


def test_what_is_said_of_it() -> None:
    twin = MovedToCpu(("cuda",), ERROR, Layer.INDUCTOR, "size 8 times 4")
    assert twin.label(Layer.INDUCTOR) == twin.label(None) == "CPU twin of a failure on CUDA"
    assert "with size 8 times 4," in twin.sentence(Layer.INDUCTOR)
    assert "this is a CPU twin, which was not run on CUDA" in twin.sentence(Layer.INDUCTOR)
    assert twin.label(Layer.DYNAMO) == "on the CPU; recorded on CUDA"
    assert "this is another failure" in twin.sentence(Layer.DYNAMO)
    unknown = MovedToCpu(("cuda", "xpu"))
    assert "twin" not in unknown.label(None) + unknown.sentence(None)
    assert "nothing shows that this is the same failure" in unknown.sentence(None)
