"""Settings of torch that change how a script of several ranks compiles, as axes of the matrix."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repro_kit.case.case import Case
from repro_kit.case.handles import OBSERVATION
from repro_kit.model.ablation.axis import Axis
from repro_kit.stages.ablate.backend_names import unknown_names

#: For each axis, what a script mentions to which it applies.
_AXES = (
    (re.compile(r"\bDistributedDataParallel\b|\bDDP\b|\bAccelerator\b"), Axis("dynamo.optimize_ddp", (False,))),
    (re.compile(r"\.backward\("), Axis("dynamo.compiled_autograd", (True,))),
)


def rank_axes(case: Case, texts: Sequence[str]) -> tuple[Axis, ...]:
    """The axes that apply to a script with these `texts`, in the torch of the case; none for a run of one rank."""
    if not case.load(OBSERVATION).ranks:
        return ()
    axes = [axis for mention, axis in _AXES if any(map(mention.search, texts))]
    unknown = unknown_names(case, [], [axis.name for axis in axes])["settings"] if axes else []
    return tuple(axis for axis in axes if axis.name not in unknown)
