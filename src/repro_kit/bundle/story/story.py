"""What a bundle tells: the one source of `issue.md`, `README.md` and `report.html`, and of `show` and `diff`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from cattrs.errors import BaseValidationError

from repro_kit.bundle.repro.source_files import PLACE
from repro_kit.case.stage_results import Environment, Reduction, TwinFound
from repro_kit.errors import UsageError
from repro_kit.model.ablation.cell import Ablation
from repro_kit.model.ablation.evidence import Chain, in_one_line
from repro_kit.model.ablation.workaround import Workaround
from repro_kit.model.failure.failure import MEASURED, Kind, Layer
from repro_kit.model.failure.signature import Signature
from repro_kit.model.recipe import Recipe
from repro_kit.model.serialize import dumps, from_data, to_data

STORY = "story.json"
#: What steers a terminal, and marks of direction, which show a text in another order.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ENVIRONMENT, _ABLATION, _REPRO = "env.json", "ablation.json", "repro.py"
ELSEWHERE = ("environment", "ablation", "repro", "sources")  # fields that are files of their own


@dataclass(frozen=True)
class Aspect:
    """One of the things that PyTorch asks reporters to look at: what the captured graph has of it, and the repro."""

    name: str
    captured: str = ""  # in words; empty: nothing
    kept: str = ""


@dataclass(frozen=True)
class Rank:
    """Place of a reproducer in PyTorch's list, 1 (most wanted) to 4, and why."""

    number: int
    why: str


@dataclass(frozen=True)
class Story:
    """One failure from the user's command to the checked reproducer; private things are replaced."""

    signature: Signature
    error: str  # the failure in the words of the run
    environment: Environment
    level: str  # "program" or "script"
    repro: str = ""  # text of repro.py
    sources: tuple[tuple[str, str], ...] = ()  # (name, text) of the user's own files that it runs, the command's first
    named: tuple[str, ...] = ()  # those of them that the command names
    verified: bool = False
    reason: str = ""  # why it is not verified, or not minimized
    flaky: str = ""  # "it failed as expected in 2 of 3 runs"
    runs: tuple[int, int] = (0, 0)  # of repro.py: those that failed as expected, and all
    repeats: int = 1  # runs of repro.py that must all pass before the failure counts as gone
    needs: tuple[str, ...] = ()  # what of the machine it was made on it needs to fail, and does not hold
    dropped: tuple[str, ...] = ()  # what an earlier stage said and could not be shown of this repro.py, and why
    layer: Layer | None = None
    evidence: str = ""  # which settings pass and which fail, in one sentence
    ablation: Ablation | None = None
    recipe: Recipe = field(default_factory=Recipe)
    command: str = ""  # the user's, as typed
    others: tuple[str, ...] = ()  # further failures of the same run
    captured: str = ""  # the graph that was taken out of the command, in one sentence
    minimized: str = ""  # the reduction, in words
    reduction: Reduction | None = None
    twin: TwinFound | None = None  # the nearest program that passes
    insights: tuple[str, ...] = ()  # what the trace says; only where the user's code may be shown
    bisected: str = ""  # which build broke it, as Markdown
    program: str = ""  # the reduced graph, in repro-kit's own format
    original: str = ""  # the graph that it was reduced from; only where model code may go in
    ops: tuple[str, ...] = ()  # bare names of the operators that the graph computes with
    rank: Rank | None = None
    aspects: tuple[Aspect, ...] = ()
    log: str = ""  # what repro.py printed when it failed
    files: tuple[tuple[str, str], ...] = ()  # (name, what it is)
    left_out: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """One line for people."""
        return self.signature.summary()

    @property
    def seen_with(self) -> str:
        """``torch 2.13.0, Python 3.11.9, Linux-…``."""
        return seen_with(self.environment)

    @property
    def expected(self) -> str:
        """What should happen instead, in one sentence."""
        match self.signature.kind:
            case Kind.ACCURACY:
                return "The compiled graph gives what eager gives, within the usual tolerance."
            case Kind.CRASH:
                return "The process lives: eager runs to its end."
            case Kind.TIMEOUT:
                return "It ends: eager does at once."
            case Kind.OOM:
                return "The memory suffices, as it does for eager."
            case kind if kind in MEASURED:
                return "It stays below that limit."
        return "It compiles and runs, as eager does."

    @property
    def chain(self) -> Chain | None:
        """The chain of evidence, where the ablation was narrowed."""
        return self.ablation.chain if self.ablation else None

    @property
    def workarounds(self) -> tuple[Workaround, ...]:
        """What was seen to make the script work."""
        return (
            tuple(workaround for workaround in self.ablation.workarounds if workaround.works) if self.ablation else ()
        )

    @property
    def chapters(self) -> Iterator[tuple[str, str]]:
        """(name, what happened): from the failure to the reproducer."""
        seen = f"`{self.command}` failed: " if self.command else ""
        yield "failure", f"{seen}{self.error}"
        if self.captured:
            yield "graph", self.captured
        if self.evidence:
            yield "layer", self.evidence
        if self.chain and self.chain.links:
            yield "cause", f"{in_one_line(self.chain)}."
        if self.minimized:
            yield "minimal", self.minimized
        if self.twin:
            yield "passes", f"The nearest variant that passes: {self.twin.what}."
        if self.bisected:
            yield "build", self.bisected.partition("\n")[0]
        yield "verified", self.verdict

    @property
    def verdict(self) -> str:
        """Whether `repro.py` was seen to do what it should."""
        if not self.verified:
            return f"NOT VERIFIED: {self.reason or 'repro.py was not run yet'}."
        how = f" ({self.flaky})" if self.flaky else ""
        # Versions that did not write down the runs kept the user's home and variables.
        clean = ", an empty home and few variables" if any(self.runs) else ""
        return (
            f"repro.py failed with this signature in a fresh interpreter with empty caches{clean}, "
            f"and passed without torch.compile{how}."
        )

    @property
    def for_git(self) -> str:
        """How `git bisect run` is to be used with repro.py, as Markdown."""
        if self.repeats == 1:
            return "`git bisect run python repro.py` works as it is."
        return (
            f"the failure comes and goes, so that only {self.repeats} runs that all pass say that it is gone: "
            f"`git bisect run sh -c 'for run in $(seq {self.repeats}); do python repro.py || exit; done'`."
        )


def seen_with(environment: Environment) -> str:
    """``torch 2.13.0, Python 3.11.9, Linux-…``."""
    parts = [f"torch {environment.torch or 'unknown'}", f"Python {environment.python}", environment.platform]
    return ", ".join([*parts, environment.accelerator] if environment.accelerator else parts)


def write_story(story: Story) -> str:
    """The text of `story.json`: all but what lies in files of its own."""
    return dumps({name: value for name, value in to_data(story).items() if name not in ELSEWHERE}).decode()


def is_told(name: str) -> bool:
    """Whether a story is made of the file `name` of a bundle."""
    return name in (STORY, _ENVIRONMENT, _ABLATION, _REPRO) or name.startswith(f"{PLACE}/")


def read_story(files: Mapping[str, bytes], name: str) -> Story:
    """The story of a bundle's `files`. Raises ReproKitError, calling the bundle `name`, when it has none."""
    if STORY not in files or _ENVIRONMENT not in files:
        raise UsageError(f"{name} has no {STORY}: it is no bundle, or an older repro-kit made it; bundle it anew.")
    try:
        data: dict[str, Any] = orjson.loads(files[STORY])
        data["environment"] = orjson.loads(files[_ENVIRONMENT])
        if _ABLATION in files:
            data["ablation"] = orjson.loads(files[_ABLATION])
        data["repro"] = files.get(_REPRO, b"").decode("utf-8", "replace")
        data["sources"] = in_order(files, data.get("named", ()))
        return from_data(_without_controls(data), Story)
    except (BaseValidationError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UsageError(f"{name} is damaged: its {STORY} or {_ENVIRONMENT} cannot be read.") from error


def in_order(files: Mapping[str, bytes], named: Collection[str]) -> list[tuple[str, str]]:
    """(name, text) of the user's own files among a bundle's `files`: those that the command has `named` first."""
    found = [(name, data.decode("utf-8", "replace")) for name, data in files.items() if name.startswith(f"{PLACE}/")]
    return sorted(found, key=lambda it: (it[0] not in named, it[0]))


def _without_controls(data: Any) -> Any:
    """JSON `data` without characters that steer a terminal: nobody vouches for a bundle."""
    match data:
        case str():
            return _CONTROLS.sub("", data)
        case list():
            return [_without_controls(it) for it in data]
        case dict():
            return {_without_controls(name): _without_controls(it) for name, it in data.items()}
    return data
