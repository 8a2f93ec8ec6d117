"""The tolerance of the user's own check, as far as the text of its failure states it."""

from __future__ import annotations

import re

from repro_kit.model.failure.failure import ExceptionLink

_NUMBER = r"([0-9][0-9.]*(?:[eE][-+]?[0-9]+)?)"
_KEYWORD = re.compile(rf"\b(rtol|atol)\s*=\s*{_NUMBER}")
#: torch.testing.assert_close prints the tolerance that it allowed.
_ALLOWED = re.compile(rf"Greatest (absolute|relative) difference: .*\(up to {_NUMBER} allowed\)")
#: Default (rtol, atol) of torch.testing by dtype, and of numpy.testing.
_USUAL = {(1e-3, 1e-5), (1.6e-2, 1e-5), (1.3e-6, 1e-5), (1e-7, 1e-7), (1e-7, 0.0)}
_ALLCLOSE = {"rtol": 1e-5, "atol": 1e-8}  # the defaults of torch.allclose and numpy.allclose


def stated_tolerance(link: ExceptionLink) -> tuple[float, float] | None:
    """(rtol, atol) of the comparison that raised `link`; None when it states none, or states a default."""
    allowed = {kind: float(number) for kind, number in _ALLOWED.findall(link.message)}
    if allowed:
        return _unusual(allowed.get("relative", 0.0), allowed.get("absolute", 0.0))
    code = link.frames[-1].code if link.frames else ""
    for text in (link.message, code):
        given = {name: float(number) for name, number in _KEYWORD.findall(text)}
        if given:
            rest = _ALLCLOSE if "close(" in text or "method" in text else {"rtol": 0.0, "atol": 0.0}
            both = {**rest, **given}
            return _unusual(both["rtol"], both["atol"])
    return (0.0, 0.0) if re.search(r"\b(?:torch\.equal|array_equal)\(", code) else None


def is_loose(tolerance: tuple[float, float]) -> bool:
    """Whether `tolerance` allows at least as much as the default for float32."""
    return tolerance[0] >= 1.3e-6 or tolerance[1] >= 1e-5


def _unusual(rtol: float, atol: float) -> tuple[float, float] | None:
    return None if (rtol, atol) in _USUAL else (rtol, atol)
