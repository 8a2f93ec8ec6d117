"""Settings of torch that change how a script of several ranks compiles, as axes of the matrix."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repro_kit.case.case import Case
from repro_kit.case.handles import OBSERVATION
from repro_kit.model.ablation.axis import Axis
from repro_kit.stages.ablate.backend_names import unknown_names

_TRAINS = re.compile(r"\.backward\(")
_COMPILED_AUTOGRAD = Axis("dynamo.compiled_autograd", (True,))


def rank_axes(case: Case, texts: Sequence[str]) -> tuple[Axis, ...]:
    """The axes that apply to a script with these `texts`, in the torch of the case; none for a run of one rank."""
    if not case.load(OBSERVATION).ranks or not any(map(_TRAINS.search, texts)):
        return ()
    is_known = not unknown_names(case, [], [_COMPILED_AUTOGRAD.name])["settings"]
    return (_COMPILED_AUTOGRAD,) if is_known else ()
