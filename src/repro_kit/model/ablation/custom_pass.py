"""A pass of the user's own that Inductor runs: whether the chain of evidence shows that the failure is its work."""

from __future__ import annotations

from repro_kit.model.ablation.diagnosis import Diagnosis
from repro_kit.model.ablation.evidence import Chain
from repro_kit.model.failure.failure import Layer

#: The cause in an ablation whose sentence names such a pass.
CUSTOM_PASS = "custom-pass"
#: The culprit of the link that says that Inductor's lowerings are not needed for the failure.
NOT_LOWERED = "not gone without lowerings"


def is_custom_pass(name: str) -> bool:
    """Whether `name` ends with a setting for the user's own passes in torch/_inductor/config.py."""
    return name.endswith("_pass") and "_custom_" in name


def of_users_pass(chain: Chain) -> Diagnosis | None:
    """The diagnosis that names the user's own pass; None where the chain leaves a doubt.

    Inductor may compile wrongly what a right pass returns. So the failure must be gone without that pass alone, and
    there without the other passes, and without the lowerings: eager's kernels then run what the pass returned.
    """
    subsystems = [link.culprit for link in chain.links if link.step == "subsystem"]
    links = [link for link in chain.links if link.step == "op"]
    if len(subsystems) != 1 or len(links) != 3:
        return None
    begins, alone, lowered = links
    if not (is_custom_pass(begins.culprit) and alone.good and alone.bad and lowered.culprit == NOT_LOWERED):
        return None
    sentence = (
        f"The failure is gone without the user's own pass ({begins.culprit.split()[-1]}), and stays without all other "
        f"{subsystems[0]}: the compiler is not to blame."
    )
    return Diagnosis(Layer.USER, CUSTOM_PASS, sentence)
