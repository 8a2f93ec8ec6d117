"""The diagnosis of an ablation, and the names of contrasts that it follows from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from repro_kit.model.ablation.cell import Cell
from repro_kit.model.failure.failure import Layer
from repro_kit.model.run_outcome import RunOutcome

#: Contrasts that need more than a changed recipe (`stages/ablate/`); `contrasts.py` has the others.
#: `Cell.changed["contrast"]` holds the name.
INTERPRETED = "interpreted"  # ``interpreted: eager``: the graph that this backend hands on is run node by node
WITNESS = "witness"  # calls compared with eager's (model/measure/call_state.py); see ``changed["parting"]``

#: The forced answers to torch.compiler.is_compiling() and the like in the reduced script.
HELD_AT_FALSE, HELD_AT_TRUE = "held-at-false", "held-at-true"
HELD = {HELD_AT_FALSE: False, HELD_AT_TRUE: True}
#: What the program changes in torch is taken out: all of it, or (``without-changes: lowerings``) one kind.
WITHOUT_CHANGES = "without-changes"
#: The kinds of changes (probe/repro_probe/embedded/originals.py), in words that follow "without".
TAKEN_OUT = {
    "lowerings": "the program's own lowerings",
    "decompositions": "the program's own decompositions",
    "kernels": "the kernels that the program gives to operators while they are traced",
    "patterns": "the program's own patterns for Inductor's passes",
    "functions": "the functions that the program puts in the place of torch's own",
    "marks": "the program's own marks (assume_constant_result, allow_in_graph, substitute_in_graph, guard_filter_fn)",
}
#: The cause in an ablation whose sentence names such changes.
OWN_CHANGE = "own-change"
#: The cause in an ablation whose sentence says that the script does another thing when compiled.
OWN_BRANCH = "own-branch"
#: The cause in an ablation whose sentence says that the script reads an output that a CUDA graph has overwritten.
OVERWRITTEN = "overwritten-output"
REQUESTED_BREAK = "requested-break"


@dataclass(frozen=True)
class Diagnosis:
    """The layer at fault, the part of that layer (empty: not known), and the words for both.

    Either `reason` is a whole sentence, or `who` is at fault, as `evidence` shows.
    """

    layer: Layer | None
    cause: str = ""
    reason: str = ""
    who: str = ""  # "Inductor"
    part: str = ""  # the cause in words: "the scheduler"
    evidence: str = ""  # "backend 'eager' passes, 'inductor' fails"
    remarks: str = ""  # further sentences, each with a space before it

    @property
    def sentence(self) -> str:
        """One sentence that names layer and part, and the remarks."""
        part = f" ({self.part})" if self.part else ""
        return (self.reason or f"{self.who} is at fault{part}: {self.evidence}.") + self.remarks

    def renamed(self, layer: Layer, cause: str, who: str, evidence: str) -> Diagnosis:
        """Another layer or cause, with the evidence for it beside that for the plain layer."""
        return replace(self, layer=layer, cause=cause, who=who, evidence=f"{self.evidence}, {evidence}")


def contrasts_of(cells: Iterable[Cell]) -> dict[str, Cell]:
    """The cells of the contrasts, by their names."""
    return {str(cell.changed["contrast"]): cell for cell in cells if "contrast" in cell.changed}


def passes(contrasts: Mapping[str, Cell], name: str) -> bool:
    """Whether the cell of the contrast `name` ran, and passed."""
    return name in contrasts and contrasts[name].outcome is RunOutcome.PASSES
