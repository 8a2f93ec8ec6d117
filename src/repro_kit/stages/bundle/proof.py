"""What shows that a wrong result is wrong, and no chance and no rounding: what was asked of the finished reproducer."""

from __future__ import annotations

import re
from collections.abc import Iterable

from repro_kit.model.failure.failure import Failure, Kind
from repro_kit.model.failure.rounding import ResultErrors
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


def proof_of(form: ReproForm, *, stays_with_casts: bool) -> str:
    """How the wrong result of `repro.py` was told from chance and rounding, in one sentence; "" where nobody asked.

    `stays_with_casts`: it was run with `CASTS`, and failed alike.
    """
    failure = form.facts.failure
    if form.facts.signature.kind is not Kind.ACCURACY or form.facts.signature.rounding:
        return ""
    own = form.program is not None and (form.smallest or not form.reduced)  # of an earlier step no failure is kept
    clauses = list(_of_graph(failure)) if own and failure and failure.difference else []
    clauses += [f"with {CASTS}=1 it fails alike"] if stays_with_casts else []
    text = "; ".join(clauses)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _of_graph(failure: Failure) -> Iterable[str]:
    """What the judge of graphs asked before it called the result wrong (probe/repro_probe/judge/recheck.py)."""
    drawn = "draws no random numbers"
    if failure.doubts is None or RANDOM_NUMBERS in failure.doubts:
        drawn = "was held against the compiled code with the same random numbers"
    yield f"eager gives the same in two runs, and {drawn}"
    row = next((row for row in failure.errors if failure.difference and row.where == failure.difference.where), None)
    if row is not None:
        yield _against_double(row)


def _against_double(row: ResultErrors) -> str:
    if row.eager is None or row.compiled is None:
        return "it has no result in double precision to be held against"
    return (
        f"from double precision eager differs by {row.eager:.2g} at most, and the compiled result by {row.compiled:.2g}"
    )
