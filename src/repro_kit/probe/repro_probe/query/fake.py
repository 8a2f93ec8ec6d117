"""Whether a program is valid, found without running a kernel."""

from __future__ import annotations

import logging

from repro_probe.common.describe_exception import describe_exception
from repro_probe.protocol.failure_data import LinkData
from repro_probe.run.load_program import LoadedProgram, load, seed

#: Not a verdict on the program: FakeTensor cannot tell (data-dependent, or an operator without a meta function).
_UNKNOWN = (
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "UnsupportedOperatorException",
    "UnsupportedFakeTensorException",
    "UnsupportedMutationAliasingException",
    "GuardOnDataDependentSymNode",
    "PendingUnbackedSymbolNotFound",
    "NotImplementedError",
)

_COMPILING = ("/torch/_dynamo/convert_frame.py", "/torch/_dynamo/symbolic_convert.py")


def is_valid(text: str, inputs: str | None, first: bool) -> bool | None:
    """True, False, or None when it cannot be told. `first`: no other program was loaded by this process."""
    try:
        program = load(text, inputs)
    except (SyntaxError, NameError):
        return False
    except Exception:  # definitions of an operator can be made once only: a second program's may fail for that
        return False if first else None
    try:
        _propagate(program)
    except Exception as error:
        return None if _cannot_tell(describe_exception(error)) else False
    return True


def _propagate(program: LoadedProgram) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    logging.getLogger("torch._subclasses.fake_tensor").disabled = True
    seed(program.recipe)
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()):
        for arguments in program.calls():
            with program.forward_region():
                program.graph(*arguments)


def _cannot_tell(links: list[LinkData]) -> bool:
    """Whether the mode is at fault: it has no answer, or the program compiles or traces by itself (torch.cond)."""
    for link in links:
        if link["type"].rsplit(".", 1)[-1] in _UNKNOWN or link["type"].startswith("torch._dynamo."):
            return True
        files = [frame["file"].replace("\\", "/") for frame in link["frames"]]
        if any(file.endswith(_COMPILING) or "/torch/_higher_order_ops/" in file for file in files):
            return True
    return False
