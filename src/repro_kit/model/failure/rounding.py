"""A difference that eager's own rounding explains: errors of each result, and the setting that restores it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResultErrors:
    """One result whose values differ, with its largest errors; None if there is nothing to hold it against."""

    where: str
    dtype: str
    elements: int
    apart: float  # share of the elements that differ by more than the tolerance
    explained: bool  # eager's own rounding explains the difference
    gap: float = 0.0  # compiled against eager
    eager: float | None = None  # eager against double precision
    compiled: float | None = None  # compiled against double precision
    nudged: float | None = None  # eager's runs with disturbed rounding against eager
    size: float = 0.0  # the root of the mean square of eager's result


_UNBOUNDED = 1e308  # the largest number; JSON has no infinity


@dataclass(frozen=True)
class SettingTried:
    """The captured graph, compiled anew under one setting: whether its results agree with eager's then."""

    setting: str  # "inductor.emulate_precision_casts=True"
    agrees: bool
    gap: float  # the largest difference from eager that is left

    @property
    def ending(self) -> str:
        """How the compiled graph compares with eager under the setting."""
        if not self.gap:
            return "gives eager's results bit for bit"
        if self.gap >= _UNBOUNDED:
            return "gives infinite results where eager's are finite, or finite ones where eager's are infinite"
        return f"differs from eager by {self.gap:.2g} at most{', which agrees' if self.agrees else ''}"


@dataclass(frozen=True)
class Rounding:
    """`rounding.json`: why a difference is not a bug. `evidence` says in sentences what was run, and what it showed."""

    errors: tuple[ResultErrors, ...] = ()
    evidence: tuple[str, ...] = ()
    first: tuple[str, ...] = ()  # the statements of the captured graph at which the two part
    why: str = ""  # the reason in words
    growth: float = 0.0  # how many times larger one rounding error is at the end; 0: unknown
    restored_by: str = ""  # the setting that restores eager's rounding; empty: none of `tried` does
    tried: tuple[SettingTried, ...] = ()
    random: bool = False  # other random numbers explain the difference, and not rounding

    @property
    def cause(self) -> str:
        """The cause of the difference, as a title."""
        return "Random numbers" if self.random else "Rounding"

    @property
    def sentence(self) -> str:
        """What was found, in one line."""
        if self.random:
            return f"{self.why}; {self.restored_by} makes them the same"
        restored = f"; {self.restored_by} restores eager's rounding" if self.restored_by else ""
        return f"eager's own rounding explains the difference{': ' + self.why if self.why else ''}{restored}"

    @property
    def accounts(self) -> tuple[str, ...]:
        """What was run and seen, as sentences."""
        sentences = list(self.evidence)
        if self.first:
            sentences.append(f"the two part at: {'; '.join(self.first)}")
        if self.growth > 1:
            sentences.append(f"one rounding error grows {self.growth:.2g}-fold on its way to the result")
        sentences += (f"with {trial.setting} the compiled graph {trial.ending}" for trial in self.tried)
        return tuple(sentences)

    @property
    def table(self) -> list[tuple[str, ...]]:
        """The errors as rows of words, a head first."""
        head = ("result", "dtype", "eager vs fp64", "compiled vs fp64", "compiled vs eager", "eager nudged")
        return [
            head,
            *(
                (row.where, row.dtype, *map(_number, (row.eager, row.compiled, row.gap, row.nudged)))
                for row in self.errors
            ),
        ]


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2g}"
