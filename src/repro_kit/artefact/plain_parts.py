"""What a plain script is made of: the texts of a program, and what the script is to show."""

from __future__ import annotations

from dataclasses import dataclass

from repro_kit.artefact.recipe_code import Arguments
from repro_kit.failure.failure import Difference
from repro_kit.failure.kinds import Kind
from repro_kit.recipe import Recipe


@dataclass(frozen=True)
class Wanted:
    """What the script is to show.

    `whole`: results of every kind are compared, each run makes its own inputs, and NaN equals NaN; else only what
    differs is compared, in the fewest lines that may do.
    """

    kind: Kind
    difference: Difference | None = None  # the one that was seen first
    raises: str = ""  # the exception of eager that the compiled program loses
    comment: str = ""  # how the last line fails
    header: str = ""  # the docstring
    whole: bool = True
    rewritten: bool = True  # public names stand for private ones, and `with` blocks for open and closed regions

    @property
    def form(self) -> str:
        """The kind of difference; "" where none was seen."""
        return self.difference.kind if self.difference else ""

    @property
    def place(self) -> str:
        """The place of the difference; "" where none was seen."""
        return self.difference.place if self.difference else ""


@dataclass(frozen=True)
class Parts:
    """The texts of a program, as its script has them."""

    recipe: Recipe
    graph: str
    function: str  # its name
    bodies: tuple[str, ...]  # of higher-order operators
    inputs: tuple[str, ...]  # lines
    calls: tuple[tuple[str, ...], ...]  # the names of the arguments of each
    tensors: tuple[str, ...]  # arguments that are tensors
    leaves: tuple[str, ...]  # those that get gradients
    single: bool  # the graph returns one result, and no tuple
    made_by: str  # the expression of all calls, where a function makes them
    code: str  # all of these texts
    entry: Arguments | None  # for torch.export and the like
    defined: frozenset[str]  # names of the preamble
    taken: frozenset[str]  # all names

    def free(self, name: str) -> str:
        """`name`, if the program has no such name; else another one."""
        return name if name not in self.taken else f"repro_{name}"

    @property
    def has_buffers(self) -> bool:
        """Whether the module that is exported has buffers, which each of its calls may change."""
        return self.entry is not None and any("torch.nn.Buffer(" in line for line in self.inputs)

    @property
    def functions(self) -> str:
        """The text of what runs."""
        return "\n".join([*self.bodies, self.graph])
