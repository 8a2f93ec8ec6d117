"""Why a wrong result is not chance, and whether casts to a narrow dtype may explain it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from repro_kit.model.failure.failure import Kind
from repro_kit.model.failure.signature import Signature
from repro_kit.probe.repro_probe.protocol.failure_data import RANDOM_NUMBERS
from repro_kit.stages.bundle.forms import ReproForm

#: Makes Inductor round between two operators as eager does (torch/_inductor/config.py).
CASTS = "TORCHINDUCTOR_EMULATE_PRECISION_CASTS"
_NARROW = re.compile(r"\b(?:b?float16|half|autocast|float8\w*)\b")


def casts_may_explain(signature: Signature, texts: Iterable[str]) -> bool:
    """Whether a fused kernel that leaves out roundings to a narrow dtype may be all that a wrong result shows."""
    of_values = signature.kind is Kind.ACCURACY and signature.difference in (None, "value", "nan")
    return of_values and not signature.rounding and any(map(_NARROW.search, texts))


def proof_of(form: ReproForm) -> str:
    """Why the wrong result of `repro.py` is not chance, in one sentence; "" if nobody asked.

    The judge of graphs asks (probe/repro_probe/judge/recheck.py). Double precision and casts are in `Answers`.
    """
    failure = form.facts.failure
    if form.facts.signature.kind is not Kind.ACCURACY or form.facts.signature.rounding:
        return ""
    own = form.program is not None and (form.smallest or not form.reduced)  # of an earlier step no failure is kept
    if not own or failure is None or failure.difference is None:
        return ""
    if failure.doubts is None or RANDOM_NUMBERS in failure.doubts:
        return "Eager gives the same in two runs, and was compared to compiled code with the same random numbers."
    return "Eager gives the same in two runs, and draws no random numbers."
