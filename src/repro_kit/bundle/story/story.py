"""The story of a bundle: the source of `issue.md`, `README.md` and `report.html`, and of `show` and `diff`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from cattrs.errors import BaseValidationError

from repro_kit.bundle.repro.source_files import PLACE, is_reduced
from repro_kit.bundle.story.addressee import Addressee, addressee_of
from repro_kit.case.stage_results import Environment, Reduction, TwinFound
from repro_kit.diagnosis.answers import Answers
from repro_kit.diagnosis.cell import Ablation
from repro_kit.diagnosis.evidence import Chain, in_one_line
from repro_kit.diagnosis.layer import first_failing
from repro_kit.diagnosis.workaround import Workaround
from repro_kit.errors import UsageError
from repro_kit.failure.differences import Rounding
from repro_kit.failure.failure import STATE, Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import AT_THE_LIMIT, last_guard
from repro_kit.failure.signature import Signature
from repro_kit.probe.repro_probe.protocol.failure_data import GRADIENT
from repro_kit.probe.repro_probe.protocol.recipe_data import (
    AOT_INDUCTOR,
    EXPORT,
    EXPORT_DECOMPOSED,
    EXPORT_DRAFT,
    EXPORT_STRICT,
    PRECOMPILE,
)
from repro_kit.recipe import Recipe
from repro_kit.serialize import dumps, from_data, to_data

STORY = "story.json"
#: Control characters of terminals, and direction marks, which reorder the text.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ENVIRONMENT, _ABLATION, _REPRO = "env.json", "ablation.json", "repro.py"
ELSEWHERE = ("environment", "ablation", "repro", "sources")  # fields that have their own files

_COMPILE, _EXPORTS = "torch.compile", re.compile(r"\btorch\.export\.export\(")
_INEXACT = re.compile(r"b?float|complex")  # names of dtypes whose operators round
#: Settings with which torch's own tests inject a bug (torch/_inductor/config.py, torch/_dynamo/config.py).
_INJECTS = re.compile(r"\binject_\w+_TESTING_ONLY\b")
_CALL_OF_ENTRY = {
    EXPORT: "torch.export.export",
    EXPORT_STRICT: "torch.export.export",
    EXPORT_DRAFT: "torch.export.draft_export",
    EXPORT_DECOMPOSED: "run_decompositions",
    AOT_INDUCTOR: "aoti_compile_and_package",
    PRECOMPILE: "torch.compiler.precompile",
}
#: What eager and compiled code must have in common, by the kind of difference; no tolerance applies.
_FORMS = {"dtype": "dtype", "shape": "shape", "stride": "strides", "alias": "aliasing"}
_CALL_OF_LAYER: Mapping[Layer | None, str] = {
    Layer.EXPORT: "torch.export",
    Layer.AOT_INDUCTOR: "aoti_compile_and_package",
    Layer.PRECOMPILE: "torch.compiler.precompile",
}


@dataclass(frozen=True)
class Aspect:
    """One of the points that PyTorch asks reporters to check: how the captured graph and the repro use it."""

    name: str
    captured: str = ""  # in words; empty: nothing
    kept: str = ""


@dataclass(frozen=True)
class ReproducerKind:
    """Which of PyTorch's four kinds of reproducers it is, from 1 (the best) to 4, and the reason."""

    number: int
    why: str


@dataclass(frozen=True)
class Excerpt:
    """The line of a source file at which the failure shows, with the lines around it."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Story:
    """One failure, from the user's command to the checked reproducer. Private values are redacted."""

    signature: Signature
    error: str  # how the failing run ends: the first line of its error, or how wrong its result is
    environment: Environment
    level: str  # "program" or "script"
    signature_line: str = ""  # the signature in the words of the run
    repro: str = ""  # text of repro.py
    sources: tuple[tuple[str, str], ...] = ()  # (name, text) of the user's files, the command's first
    named: tuple[str, ...] = ()  # the source files that the command names
    excerpt: Excerpt | None = None  # of the user's own files
    lacks_source: bool = False  # the user's own files, which `repro.py` runs, are not in the bundle
    verified: bool = False
    reason: str = ""  # why it is not verified, or not minimized
    flaky: str = ""  # "it failed as expected in 2 of 3 runs"
    runs: tuple[int, int] = (0, 0)  # of repro.py: how many failed as expected, and how many there were
    repeats: int = 1  # runs of repro.py that must all pass before the failure counts as gone
    needs: tuple[str, ...] = ()  # parts of the original machine that the failure needs
    dropped: tuple[str, ...] = ()  # results that do not hold for this repro.py, and why
    proof: str = ""  # how the wrong result was told from chance and from rounding, in one sentence
    layer: Layer | None = None
    in_eager: bool = False  # it fails alike without torch.compile
    evidence: str = ""  # which settings pass and which fail, in one sentence
    ablation: Ablation | None = None
    recipe: Recipe = field(default_factory=Recipe)
    command: str = ""  # the user's, as typed
    ended: str = ""  # how that command ended, in its own words; "": no command of the user's was run
    others: tuple[str, ...] = ()  # further failures of the same run
    captured: str = ""  # where the captured graph comes from, in one sentence
    moved: str = ""  # how the program came from another device to the CPU
    changed: str = ""  # that something else differs from eager than at first
    minimized: str = ""  # the reduction, in words
    reduction: Reduction | None = None
    twin: TwinFound | None = None  # the nearest program that passes
    ranks: tuple[str, ...] = ()  # a line for each rank of a distributed run
    insights: tuple[str, ...] = ()  # findings of the trace; only if the user's code may be shown
    bisected: str = ""  # which build broke it, as Markdown
    program: str = ""  # the reduced graph, in repro-kit's own format
    original: str = ""  # the captured graph; only if model code may be included
    ops: tuple[str, ...] = ()  # bare names of the operators that the graph computes with
    reproducer_kind: ReproducerKind | None = None
    aspects: tuple[Aspect, ...] = ()
    rounding: Rounding | None = None  # why the difference is not a bug by itself
    log: str = ""  # what repro.py printed when it failed
    files: tuple[tuple[str, str], ...] = ()  # (name, what it is)
    left_out: tuple[str, ...] = ()
    answers: Answers = field(default_factory=Answers)  # to what maintainers ask; a bundle of an older version has none

    @property
    def runs_users_files(self) -> bool:
        """Whether `repro.py` runs the user's own files, unchanged."""
        return self.level == "script" and not is_reduced(self.named)

    @property
    def unreduced(self) -> str:
        """Why `repro.py` runs the user's own files; "" if it does not, or if only the check's reason is known."""
        return (self.reason or "there is no graph to reduce") if self.runs_users_files and self.verified else ""

    @property
    def unchecked(self) -> str:
        """Why no `aspects` are told, as Markdown; "" if there are some."""
        runs = "the user's own files unchanged" if self.runs_users_files else "the reduced script"
        return "" if self.aspects else f"not checked, because `repro.py` runs {runs}"

    @property
    def lacks(self) -> tuple[str, ...]:
        """What the failure needs and the bundle does not hold, one clause for each."""
        return tuple(f"{need}, which the bundle lacks" for need in self.needs)

    @property
    def title(self) -> str:
        """The failure in one line: the heading of the texts."""
        return self.signature_line or self.signature.summary()

    @property
    def minimal(self) -> bool:
        """Whether the reproducer is 1-minimal, so that the failure needs what is left in it."""
        return self.reduction is not None and self.reduction.minimal

    @property
    def addressee(self) -> Addressee:
        """Who gets the report first."""
        return addressee_of(self.layer, self.ablation.cause if self.ablation else "")

    @property
    def caution(self) -> str:
        """What to know before PyTorch gets the report, with the evidence; "" if nothing is in the way."""
        return self.addressee.caution(self.evidence)

    @property
    def is_regression(self) -> bool:
        """Whether an older build passes and a newer one fails."""
        outcomes = [build.outcome for build in self.answers.builds]
        return "passes" in outcomes and "fails" in outcomes[outcomes.index("passes") :]

    @property
    def unready(self) -> str:
        """Why nothing is to be reported yet, in one sentence; "" if the bundle is verified."""
        return "" if self.verified else "The bundle is not verified: mend that before you report it."

    @property
    def seen_with(self) -> str:
        """``torch 2.13.0, Python 3.11.9, Linux-…``."""
        return seen_with(self.environment)

    @property
    def call(self) -> str:
        """The function of torch that compiles the subject; for a script, as far as the layer at fault tells."""
        if self.in_eager:
            return "script"
        by_layer = _COMPILE
        if self.level == "script":
            exports = _EXPORTS.search(self.repro) and _COMPILE not in self.repro
            by_layer = _CALL_OF_LAYER.get(self.layer, "torch.export.export" if exports else _COMPILE)
            if self.layer is Layer.EXPORT and self.ablation is not None:
                failing = first_failing(self.ablation.cells, self.ablation.recipe)
                by_layer = _CALL_OF_ENTRY.get(failing.recipe.backend if failing else "", by_layer)
        return _CALL_OF_ENTRY.get(self.recipe.backend, by_layer)

    @property
    def last_guard(self) -> str:
        """The guard that failed last, where the failure is that a function has been compiled too often; else ""."""
        return last_guard(self.log) if AT_THE_LIMIT in self.signature.exceptions else ""

    @property
    def is_exact(self) -> bool:
        """Whether the wrong values are whole numbers or booleans, which no rounding changes."""
        rows = self.answers.double
        return bool(rows) and not any(_INEXACT.match(row.dtype) for row in rows)

    @property
    def injects(self) -> str:
        """The setting of the code with which torch's own tests inject a bug; "" without one."""
        found = _INJECTS.search("\n".join([self.repro, *(text for _, text in self.sources)]))
        return found[0] if found else ""

    @property
    def expected(self) -> str:
        """What should happen instead, in one sentence."""
        if self.in_eager:
            return "The run ends."
        if self.addressee is Addressee.PROGRAM:
            return f"{self.signature.kind.policy.expected.removesuffix('.')}, unless the program is mistaken."
        if AT_THE_LIMIT in self.signature.exceptions:
            return "The calls need no more compilations of the function than the limit allows."
        if self.signature.kind is Kind.ACCURACY:
            if self.signature.rounding:
                return "The compiled code rounds as eager does."
            if self.signature.difference == STATE:
                return "A compiled call leaves the Python state that the same call leaves in eager."
            if self.signature.difference is None:
                return "The check of the code passes, as it does in eager."
            if self.signature.difference in _FORMS or (self.is_exact and self.signature.difference == "value"):
                return f"The compiled code gives the same {_FORMS.get(self.signature.difference, 'results')} as eager."
            if self.signature.places == (GRADIENT,):
                return "The compiled code gives the same gradients as eager, within the usual tolerance."
        return self.signature.kind.policy.expected

    @property
    def chain(self) -> Chain | None:
        """The chain of evidence, if the ablation was narrowed."""
        return self.ablation.chain if self.ablation else None

    @property
    def workarounds(self) -> tuple[Workaround, ...]:
        """The workarounds that made the script work."""
        return (
            tuple(workaround for workaround in self.ablation.workarounds if workaround.works) if self.ablation else ()
        )

    @property
    def chapters(self) -> Iterator[tuple[str, str]]:
        """(name, what happened): from the failure to the reproducer."""
        yield "failure", self._seen
        if self.captured:
            yield "graph", self.captured
        if self.moved:
            yield "device", self.moved
        if self.changed:
            yield "differs", self.changed
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
        if self.proof:
            yield "wrong", self.proof
        yield "verified", self.verdict

    @property
    def _seen(self) -> str:
        """What the user's command did, and what `repro.py` does: each in its own words."""
        if not (self.command and self.ended):
            return self.error
        seen = f"`{self.command}` {self.ended}"
        return seen if self.ended.endswith(self.error) else f"{seen}. repro.py: {self.error}"

    @property
    def verdict(self) -> str:
        """Whether `repro.py` behaved as expected when it was checked."""
        if not self.verified:
            return f"NOT VERIFIED: {self.reason or 'repro.py was not checked yet'}."
        how = f" ({self.flaky})" if self.flaky else ""
        # Versions that did not record the runs used the user's own home and variables.
        clean = ", an empty home and few variables" if any(self.runs) else ""
        return (
            f"repro.py failed in this way in a fresh interpreter with empty caches{clean}, "
            f"and {self.without_compiler}{how}."
        )

    @property
    def without_compiler(self) -> str:
        """What a verified `repro.py` did without torch.compile, as the end of a sentence."""
        return "failed alike without torch.compile" if self.in_eager else "passed without torch.compile"

    @property
    def for_git(self) -> str:
        """How to use `git bisect run` with this failure, as a Markdown sentence."""
        if self.repeats == 1:
            return "`git bisect run python check.py` finds the commit."
        return (
            f"The failure is flaky, so {self.repeats} runs must all pass before it counts as fixed: "
            f"`git bisect run sh -c 'for run in $(seq {self.repeats}); do python check.py || exit; done'`."
        )


def seen_with(environment: Environment) -> str:
    """``torch 2.13.0, Python 3.11.9, Linux-…``."""
    parts = [f"torch {environment.torch or 'unknown'}", f"Python {environment.python}", environment.platform]
    return ", ".join([*parts, environment.accelerator] if environment.accelerator else parts)


def write_story(story: Story) -> str:
    """The text of `story.json`, without the fields that have their own files."""
    return dumps({name: value for name, value in to_data(story).items() if name not in ELSEWHERE}).decode()


def is_story_file(name: str) -> bool:
    """Whether the story is read from the file `name` of a bundle."""
    return name in (STORY, _ENVIRONMENT, _ABLATION, _REPRO) or name.startswith(f"{PLACE}/")


def read_story(files: Mapping[str, bytes], name: str) -> Story:
    """The story of the `files` of bundle `name`. Raises ReproKitError if there is none."""
    if STORY not in files or _ENVIRONMENT not in files:
        raise UsageError(f"{name} has no {STORY}: it is not a whole bundle; run bundle again.")
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
    """(name, text) of the user's files among a bundle's `files`; the files that the command has `named` come first."""
    sources = [(name, data.decode("utf-8", "replace")) for name, data in files.items() if name.startswith(f"{PLACE}/")]
    return sorted(sources, key=lambda source: (source[0] not in named, source[0]))


def _without_controls(data: Any) -> Any:
    """JSON `data` without terminal control characters, since a bundle may be hostile."""
    match data:
        case str():
            return _CONTROLS.sub("", data)
        case list():
            return [_without_controls(item) for item in data]
        case dict():
            return {_without_controls(name): _without_controls(item) for name, item in data.items()}
    return data
