"""To whom a failure is reported, and what the texts of a bundle say of that."""

from __future__ import annotations

from enum import StrEnum

from repro_kit.diagnosis.culprit import SCRIPT_CODE
from repro_kit.diagnosis.layer import USER_ERROR
from repro_kit.failure.failure import Layer


class Addressee(StrEnum):
    """Who gets the report of a failure first."""

    PYTORCH = "pytorch"
    BACKEND = "backend"  # whoever maintains the backend, then PyTorch
    SCRIPT_CODE = "script-code"  # whoever maintains the code that the compiler called, then PyTorch
    PROGRAM = "program"  # whoever maintains the program that may be at fault, then PyTorch
    USER = "user"  # whoever maintains the code at fault, and never PyTorch

    @property
    def takes_pytorch(self) -> bool:
        """Whether the report may go to PyTorch, first or later."""
        return self is not Addressee.USER

    @property
    def maintainer(self) -> str:
        """The addressee in words."""
        return _MAINTAINERS[self]

    @property
    def finding(self) -> str:
        """Why PyTorch is not the first addressee, without the full stop; "" if PyTorch is."""
        return _FINDINGS[self]

    @property
    def advice(self) -> str:
        """What to do with the report, in one sentence; "" if it goes to PyTorch at once."""
        match self:
            case Addressee.PYTORCH:
                return ""
            case Addressee.USER:
                return f"The report is for {self.maintainer}."
        return f"Ask {self.maintainer} before PyTorch."

    def caution(self, evidence: str) -> str:
        """What to know before PyTorch gets the report, with the evidence; "" if nothing is in the way."""
        return " ".join(filter(None, [f"{self.finding}.", evidence, self.advice])) if self.finding else ""


_MAINTAINERS = {
    Addressee.PYTORCH: "PyTorch",
    Addressee.BACKEND: "whoever maintains the backend",
    Addressee.SCRIPT_CODE: "whoever maintains that code",
    Addressee.PROGRAM: "whoever maintains the program",
    Addressee.USER: "whoever maintains that code",
}
_FINDINGS = {
    Addressee.PYTORCH: "",
    Addressee.BACKEND: "This is not a failure of torch.compile itself",
    Addressee.SCRIPT_CODE: "Code of the script was running",
    Addressee.PROGRAM: "The program may be at fault",
    Addressee.USER: "This is not a PyTorch bug",
}


def addressee_of(layer: str | None, cause: str | None) -> Addressee:
    """The addressee of a failure whose ablation names this layer and cause."""
    if layer == Layer.USER:
        return Addressee.USER
    if layer == Layer.BACKEND:
        return Addressee.BACKEND
    return {SCRIPT_CODE: Addressee.SCRIPT_CODE, USER_ERROR: Addressee.PROGRAM}.get(cause or "", Addressee.PYTORCH)
