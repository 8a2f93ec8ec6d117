"""A pass of the user's own that Inductor runs: whether the chain of evidence shows that the failure is its work."""

from __future__ import annotations

from repro_kit.model.ablation.diagnosis import Diagnosis
from repro_kit.model.ablation.evidence import Chain
from repro_kit.model.failure.failure import Layer

#: The cause in an ablation whose sentence names such a pass.
CUSTOM_PASS = "custom-pass"


def is_custom_pass(name: str) -> bool:
    """Whether `name` ends with a setting for the user's own passes in torch/_inductor/config.py."""
    return name.endswith("_pass") and "_custom_" in name


def of_users_pass(chain: Chain) -> Diagnosis | None:
    """The diagnosis that names the user's own pass; None if the chain leaves a doubt.

    Inductor may compile wrongly what a right pass returns. So the failure must be gone without that pass alone, and
    there without the other passes, and without the lowerings: eager's kernels then run what the pass returned.
    """
    subsystems = [link.culprit for link in chain.links if link.step == "subsystem"]
    found = {link.finding: link for link in chain.links}
    begins, alone = found.get("users-pass"), found.get("alone")
    if len(subsystems) != 1 or begins is None or "stays-without-lowerings" not in found:
        return None
    if alone is None or alone.good is None or alone.bad is None:
        return None
    sentence = (
        f"The failure is gone without the user's own pass ({begins.culprit.split()[-1]}), and stays without all other "
        f"{subsystems[0]}: the compiler is not to blame."
    )
    return Diagnosis(Layer.USER, CUSTOM_PASS, sentence)
