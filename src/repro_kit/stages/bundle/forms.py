"""The forms that a case's `repro.py` can take: the reduced program, the captured one, the user's own script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.facts import Facts, without_private
from repro_kit.bundle.privacy.shareable import shareable
from repro_kit.bundle.repro.program_repro import LIMIT, ProgramSource, render_program, source_of
from repro_kit.bundle.repro.script_repro import render_script
from repro_kit.bundle.repro.source_files import PLACE, SourceFiles, find_sources, source_text
from repro_kit.case.case import Case
from repro_kit.case.handles import ABLATION, CAPTURE, ENVIRONMENT, OBSERVATION, REDUCTION
from repro_kit.case.stage_results import Capture, Observation, ObservedFailure, Reduction, TwinFound
from repro_kit.errors import Exit, ReproKitError
from repro_kit.files import read_text
from repro_kit.model.failure.failure import MEASURED, Kind
from repro_kit.model.recipe import Recipe
from repro_kit.program import Program, parse, size
from repro_kit.program.regions import has_regions
from repro_kit.runner.read_findings import read_findings
from repro_kit.session.judging import with_tolerance

_SHORTEST_SCRIPT = 120.0  # seconds that every script may take
_EARLIER = 4  # steps of the reduction that are looked at again
_LONGEST_HANG = 300.0  # seconds after which a script that was seen to hang is taken to hang again


@dataclass(frozen=True)
class CaseResults:
    """What the stages before left in the case."""

    observation: Observation
    observed: ObservedFailure | None
    capture: Capture | None
    reduction: Reduction | None
    facts: Facts  # of the user's command


@dataclass(frozen=True)
class ReproForm:
    """One form of `repro.py`: the program in `path`, or (None) the user's script."""

    facts: Facts
    limit: float  # seconds that a run of it may take, the start of the interpreter apart
    note: str  # why it is not a smaller one; empty for a reduced program
    path: Path | None = None
    program: Program | None = None
    reduced: bool = False  # a program that the reduction accepted
    regions: bool = True  # autocast and no-grad regions are written as `with` blocks
    env: Mapping[str, str] = field(default_factory=dict)  # variables that it sets before torch is imported

    @property
    def level(self) -> str:
        """``program`` or ``script``."""
        return "script" if self.program is None else "program"

    @property
    def recipe(self) -> Recipe:
        """How it is compiled and run."""
        return self.program.recipe if self.program else Recipe()

    @property
    def smallest(self) -> bool:
        """Whether it is the end of the reduction, which its single removals and its twin are next to."""
        return self.reduced and self.path is not None and self.path.parent.name == "minify"

    def carrying(self, env: Mapping[str, str]) -> ReproForm:
        """The same, with variables that it sets itself."""
        if self.program is None:
            return replace(self, env={**self.env, **env})
        recipe = self.program.recipe.with_(env={**self.program.recipe.env, **env})
        return replace(self, program=self.program.with_(recipe=recipe), env={**self.env, **env})

    @property
    def source(self) -> ProgramSource:
        """The program in the pieces that a script is made of."""
        assert self.program is not None
        return source_of(self.program, regions=self.regions)

    @property
    def minimized(self) -> str:
        """The reduction, in words."""
        if self.program is None:
            return ""
        reduction, now = self.facts.reduction, size(self.program)
        one = "1 statement" if now == 1 else f"{now} statements"
        if reduction is None or not self.reduced:
            return f"One captured graph, {one}, not reduced."
        minimal = ""
        if reduction.minimal and self.smallest:
            tried = sum(bool(removal.outcome) for removal in reduction.removals)
            what = {0: "nothing can be removed from it", 1: "the one removal that is possible does not fail alike"}.get(
                tried, f"none of {tried} single removals fails alike"
            )
            minimal = f" It is 1-minimal: {what}."
        note = f" {_sentence(reduction.note)}" if reduction.note else ""
        return f"Reduced from {reduction.statements_before} to {one} in {reduction.queries} queries.{minimal}{note}"

    @property
    def twin(self) -> TwinFound | None:
        """The nearest program that passes, where this is the one that it is next to."""
        reduction = self.facts.reduction
        return reduction.twin if self.smallest and reduction is not None else None


def known(case: Case) -> CaseResults:
    """Read what the case holds. Raises ReproKitError when there is no failure in it."""
    observation = case.load(OBSERVATION)
    at = case.file.failure_index
    observed = observation.failures[at] if at < len(observation.failures) else None
    signature = case.file.signature or (observed.signature if observed else None)
    if signature is None:
        raise ReproKitError(f"{case.path} holds no failure; collect it again.", Exit.NOTHING_FAILED)
    others = [failure.signature.summary() for failure in observation.failures if failure is not observed]
    capture = case.current(CAPTURE)
    reduction = case.current(REDUCTION)
    facts = Facts(
        signature=signature,
        failure=observed.failure if observed else None,
        environment=shareable(case.load(ENVIRONMENT)),
        ablation=case.current(ABLATION),
        capture=capture,
        reduction=reduction,
        others=tuple(others),
    )
    return CaseResults(observation, observed, capture, reduction, facts)


def candidates(case: Case, told: CaseResults) -> Iterator[ReproForm]:
    """Every form that the case allows, the smallest first."""
    if told.capture is not None and told.capture.subject == "program":
        yield from _programs(case, told, _of_program(told))
    yield _script(told)


def _programs(case: Case, told: CaseResults, facts: Facts) -> Iterator[ReproForm]:
    seen: set[str] = set()
    for path, note in _places(case, told):
        text = read_text(path)
        program = parse(text)
        reduced = path.is_relative_to(case.path / "minify")
        if not reduced:
            program = with_tolerance(program, facts.failure)
        # An earlier step shares the stored values of the last one, which lie elsewhere.
        if text not in seen and not (path.parent.name == "history" and program.stored):
            seen.add(text)
            yield ReproForm(facts, LIMIT, note, path, program, reduced)
            if any(map(has_regions, program.functions())):
                yield ReproForm(facts, LIMIT, note, path, program, reduced, regions=False)


def _places(case: Case, told: CaseResults) -> Iterator[tuple[Path, str]]:
    """Where there are programs, and why each is not the smallest."""
    if told.reduction is not None:
        yield case.path / "minify/best.py", ""
        if told.reduction.repeats > 1 or told.facts.signature.kind in (Kind.TIMEOUT, Kind.CRASH):  # not always the same
            earlier = sorted((case.path / "minify/history").glob("*.py"))[::-1]
            yield from ((path, "a smaller program did not fail every time") for path in earlier[:_EARLIER])
    yield case.path / "capture/program.py", "the captured program is not reduced"


def _of_program(told: CaseResults) -> Facts:
    capture = told.capture
    assert capture is not None
    failure = capture.verdict.failure if capture.verdict and capture.verdict.failure else told.facts.failure
    return replace(told.facts, signature=capture.signature or told.facts.signature, failure=failure)


def _script(told: CaseResults) -> ReproForm:
    limit = max(3 * told.observation.seconds, _SHORTEST_SCRIPT)
    if told.observation.timed_out:
        limit = min(told.observation.seconds, _LONGEST_HANG)
    kind = told.facts.signature.kind
    if kind in (Kind.SLOWDOWN, Kind.MEMORY, Kind.ORACLE):
        what = "your oracle tells it" if kind is Kind.ORACLE else "repro-kit measures it"
        reason = f"repro.py runs the script, and does not show the {kind} alone: {what}"
    elif kind in MEASURED:
        reason = f"{kind} is counted over a run of the script, not of a graph"
    elif told.capture is not None and told.capture.subject == "program":
        reason = ""  # why the program will not do shows in its check
    else:
        reason = (told.capture.note if told.capture else "") or "no graph was captured"
    return ReproForm(told.facts, limit, reason)


def fill(candidate: ReproForm, case: Case, told: CaseResults, contents: Contents, *, include_values: bool) -> list[str]:
    """Put `repro.py` and what it needs into `contents`; returns what was left out, in sentences."""
    if candidate.program is None:
        return _fill_script(candidate, case, told, contents)
    assert candidate.path is not None
    left_out = []
    for name in candidate.program.stored:
        if include_values:
            contents.add_values(f"inputs/{name}", candidate.path.parent / "inputs" / name)
    if candidate.program.stored and not include_values:
        left_out.append(
            f"Stored tensor values that repro.py loads ({', '.join(candidate.program.stored)}) are left out, "
            "so that it is not self-contained; --include-values puts them in."
        )
    contents.add_text(
        "repro.py", render_program(candidate.source, without_private(candidate.facts, contents.redactor)), "repro"
    )
    return left_out


def _fill_script(candidate: ReproForm, case: Case, told: CaseResults, contents: Contents) -> list[str]:
    sources = sources_of(case)
    for name in sources.files:
        contents.redactor.learn_file(name)
    for name, path in sorted(sources.files.items()):
        contents.add_text(f"{PLACE}/{name}", source_text(path), "source")
    words = contents.shown_words(sources.argv[1:])
    traced = told.observed is not None and told.observed.source == "trace"
    text = render_script(
        case.file.subject,
        replace(sources, argv=(sources.argv[0], *words)),
        without_private(candidate.facts, contents.redactor),
        why=_sentence(candidate.note),
        limit=int(candidate.limit),
        traced=traced,
        env=candidate.env,
    )
    contents.add_text("repro.py", text, "repro")
    left_out = [f"A file of the user's is left out: {sentence}." for sentence in sources.left_out]
    left_out.append(
        "Data files that the user's code opens, and packages that it needs beside torch, are not in the bundle."
    )
    if tuple(words) != sources.argv[1:]:
        left_out.append(
            "Values among the words of the command are replaced by tokens, with which repro.py runs it; "
            "--include-values puts them in."
        )
    return left_out


def sources_of(case: Case) -> SourceFiles:
    """The user's own files that the subject needs."""
    findings = read_findings(case.path / "observe" / "probe")
    return find_sources(case.file.subject, findings.modules)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""
