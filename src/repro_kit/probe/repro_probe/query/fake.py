"""Check whether a program is valid without running a kernel: under FakeTensorMode."""

from __future__ import annotations

import logging

from repro_probe.common.describe_exception import describe_exception
from repro_probe.protocol.failure_data import LinkData
from repro_probe.protocol.recipe_data import RecipeData
from repro_probe.run import process_group
from repro_probe.run.load_program import LoadedProgram, load, seed

#: Exceptions by which FakeTensor gives no answer: the result depends on data, or an operator lacks support.
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


def is_valid_under_fake(text: str, inputs: str | None, first: bool) -> bool | None:
    """Return whether the program is valid, or None when FakeTensor cannot decide that.

    `first` says that this process has loaded no other program.
    """
    try:
        program = load(text, inputs, _join_group)
    except (SyntaxError, NameError):
        return False
    except Exception:  # an operator can be defined only once, so the definition of a later program may fail
        return False if first else None
    try:
        _propagate(program)
    except Exception as error:
        return None if _cannot_tell(describe_exception(error)) else False
    return True


def _join_group(recipe: RecipeData) -> None:
    """Make the process group of the first program with one, which serves the others too: no value is computed."""
    process_group.join(recipe, fake=True)


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
    """Whether FakeTensor cannot run the program: it has no answer, or the program itself compiles (torch.cond)."""
    for link in links:
        if link["type"].rsplit(".", 1)[-1] in _UNKNOWN or link["type"].startswith("torch._dynamo."):
            return True
        files = [frame["file"].replace("\\", "/") for frame in link["frames"]]
        if any(file.endswith(_COMPILING) or "/torch/_higher_order_ops/" in file for file in files):
            return True
    return False
