"""What capture found, as long as it is about the failure that the case is about now."""

from __future__ import annotations

from repro_kit.case.case import Case
from repro_kit.case.results import Capture


def captured(case: Case) -> Capture | None:
    """The result of capture; None where there is none, or it is about another failure."""
    return case.result("capture", "capture/capture.json", Capture)
