"""The forms of `repro.py` for a case: the reduced program, the captured program, or the user's own script."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from repro_kit.artefact.plain import PlainScript
from repro_kit.artefact.recipe_code import literal
from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.facts import Facts, without_private
from repro_kit.bundle.pages.templates import render
from repro_kit.bundle.privacy.vocabulary import shareable
from repro_kit.bundle.repro.check_program import LIMIT, program_check
from repro_kit.bundle.repro.program_repro import CHECK, REPRO, render_program
from repro_kit.bundle.repro.script_repro import HANG, render_script
from repro_kit.bundle.repro.source_files import PLACE, REDUCED, SourceFiles, find_sources, source_text
from repro_kit.case.case import Case
from repro_kit.case.stage_results import (
    ABLATION,
    CAPTURE,
    ENVIRONMENT,
    OBSERVATION,
    REDUCED_FAILURE,
    REDUCTION,
    SOURCE_FAILURE,
    SOURCE_REDUCTION,
    Capture,
    Observation,
    ObservedFailure,
    Reduction,
    TwinFound,
)
from repro_kit.errors import Exit, ReproKitError
from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.files import read_text
from repro_kit.graph import Program, parse, size
from repro_kit.graph.python_code import in_short_lines, without_remarks
from repro_kit.recipe import Recipe
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.torchrun import Launch
from repro_kit.script.compile_calls import self_checking
from repro_kit.session.oracles import with_tolerance
from repro_kit.subject.subject_check import is_program_alone, launch_in, rank_subject

_SHORTEST_SCRIPT = 120.0  # least time limit of a script, in seconds
_SMALLEST = Path("minify/best.py")
_EARLIER = 4  # steps of the reduction that are tried too
_SHORTEST_HANG = 120.0  # least time limit of a script that hangs, in seconds
_WAITING = 60.0  # time limit of a reduced script whose ranks wait for each other, in seconds
_LONGEST_HANG = 300.0  # most time limit of a script that hangs, in seconds


@dataclass(frozen=True)
class CaseResults:
    """The results of the earlier stages of a case."""

    observation: Observation
    observed: ObservedFailure | None
    capture: Capture | None
    reduction: Reduction | None
    facts: Facts  # about the run of the user's command


@dataclass(frozen=True)
class ReproForm:
    """One form of `repro.py`: the program or the reduced script in `path`, or the user's script if `path` is None."""

    facts: Facts
    limit: float  # time limit of a run in seconds, without the start of the interpreter
    note: str  # why `repro.py` is not smaller; empty for a reduced program
    path: Path | None = None
    program: Program | None = None
    reduced: bool = False  # whether the reduction accepted the program
    rewritten: bool = True  # whether it is written as a person would: public names, `with` blocks, calls within calls
    whole: bool = True  # whether results of every kind are compared; else a shorter text is tried
    text: str = ""  # of a reduced script that compares its compiled call itself
    env: Mapping[str, str] = field(default_factory=dict)  # variables that `repro.py` sets before it imports torch

    @property
    def level(self) -> str:
        """``program`` or ``script``."""
        return "script" if self.program is None else "program"

    @property
    def recipe(self) -> Recipe:
        """The recipe of the program; the default recipe for a script."""
        return self.program.recipe if self.program else Recipe()

    @property
    def smallest(self) -> bool:
        """Whether the program is the final result of the reduction, which its twin and its removals belong to."""
        return self.reduced and self.path is not None and self.path.name == "best.py"

    @property
    def is_users_script(self) -> bool:
        """Whether `repro.py` runs the user's own files, unchanged."""
        return self.path is None

    def carrying(self, env: Mapping[str, str]) -> ReproForm:
        """A copy of the form that sets the variables `env` itself."""
        if self.program is None:
            return replace(self, env={**self.env, **env})
        recipe = self.program.recipe.with_(env={**self.program.recipe.env, **env})
        return replace(self, program=self.program.with_(recipe=recipe), env={**self.env, **env})

    @property
    def minimized(self) -> str:
        """The reduction in words; empty for the user's own script."""
        if self.is_users_script:
            return ""
        reduction = self.facts.reduction
        now = size(self.program) if self.program else reduction.statements_after if reduction else 0
        unit = "operator" if self.program else "statement"
        statements = f"1 {unit}" if now == 1 else f"{now} {unit}s"
        if reduction is None or not self.reduced:
            return f"One captured graph, {statements}, not reduced."
        stopped = "" if reduction.stopped == "fixpoint" else f" Its {reduction.stopped} ended the reduction."
        minimal = ""
        if reduction.minimal and self.smallest:
            tried = sum(bool(removal.outcome) for removal in reduction.removals)
            removals = {
                0: "Nothing can be removed from it.",
                1: "Nothing more can be removed: the only possible removal does not fail alike.",
            }.get(tried, f"Nothing more can be removed: none of {tried} single removals fails alike.")
            minimal = f" {removals}"
        note = "".join(f" {_sentence(text)}" for text in (reduction.fewer, reduction.note) if text)
        what = "" if self.program else "The user's script and modules in one file. "
        before, count = reduction.statements_before, reduction.queries
        tries = "1 try" if count == 1 else f"{count} tries"
        reduced = f"Reduced from {before} to {statements} in {tries}."
        kept = f"It has {statements}, not fewer than before, after {tries}."
        return f"{what}{reduced if now < before else kept}{stopped}{minimal}{note}"

    @property
    def twin(self) -> TwinFound | None:
        """The nearest passing program, if the form is the final result of the reduction."""
        reduction = self.facts.reduction
        return reduction.twin if self.smallest and reduction is not None else None


def results_of(case: Case) -> CaseResults:
    """Read the results of the stages. Raises ReproKitError when the case holds no failure."""
    if not case.holds(OBSERVATION) and is_program_alone(case):
        raise ReproKitError(
            f"{case.path} holds no failure: the program that it was made from was not seen to fail here; collect it "
            "again.",
            Exit.NOTHING_FAILED,
        )
    observation = case.load(OBSERVATION)
    at = case.file.failure_index
    observed = observation.failures[at] if at < len(observation.failures) else None
    signature = case.file.signature or (observed.signature if observed else None)
    if signature is None:
        raise ReproKitError(f"{case.path} holds no failure; collect it again.", Exit.NOTHING_FAILED)
    other_failures = [failure.signature.summary() for failure in observation.failures if failure is not observed]
    capture = case.current(CAPTURE)
    reduction = case.current(REDUCTION)
    facts = Facts(
        signature=signature,
        failure=observed.failure if observed else None,
        environment=shareable(case.load(ENVIRONMENT)),
        ablation=case.current(ABLATION),
        capture=capture,
        reduction=reduction,
        others=tuple(other_failures),
        moved_to_cpu=(capture and capture.moved_to_cpu) or case.file.moved_to_cpu,
        in_eager=observation.in_eager,
    )
    return CaseResults(observation, observed, capture, reduction, facts)


def candidates(case: Case, results: CaseResults) -> Iterator[ReproForm]:
    """All forms that the case allows; the smallest comes first."""
    if case.current(SOURCE_REDUCTION) is not None:
        yield from _reduced_scripts(case, results)
    if results.capture is not None and results.capture.subject == "program":
        yield from _programs(case, results, _of_program(results))
    yield _script(case, results)


def _programs(case: Case, results: CaseResults, facts: Facts) -> Iterator[ReproForm]:
    seen_texts: set[str] = set()
    for path, note in _places(case, results):
        text = read_text(path)
        program = bare(parse(text))
        reduced = path.is_relative_to(case.path / "minify")
        if not reduced:
            program = with_tolerance(program, facts.failure)
        # An earlier step has no stored values of its own: they are in another directory.
        if text not in seen_texts and not (path.parent.name == "history" and program.stored):
            seen_texts.add(text)
            own = _with_own_failure(case, facts) if path == case.path / _SMALLEST else facts
            if _is_shorter(program, own):
                yield ReproForm(own, LIMIT, note, path, program, reduced, whole=False)
            yield ReproForm(own, LIMIT, note, path, program, reduced)
            if render_program(program, own) != render_program(program, own, rewritten=False):
                yield ReproForm(own, LIMIT, note, path, program, reduced, rewritten=False)


def _is_shorter(program: Program, facts: Facts) -> bool:
    """Whether the program has a shorter text that may show the failure, too."""
    short, whole = (render_program(program, facts, whole=whole)[REPRO] for whole in (False, True))
    return len(short) < len(whole)


def bare(program: Program) -> Program:
    """`program` without the comments and docstrings of the definitions that it takes from the user's files."""
    return program.with_(preamble=without_remarks(program.preamble))


def _with_own_failure(case: Case, facts: Facts) -> Facts:
    """`facts` with the failure of the reduced program, whose sizes and names may be others than those of the script."""
    if facts.signature.kind is Kind.COMPILE_GROWTH or not case.holds(REDUCED_FAILURE):
        return facts
    return replace(facts, failure=case.load(REDUCED_FAILURE).failure)


def _reduced_scripts(case: Case, results: CaseResults) -> Iterator[ReproForm]:
    """The reduced script, and the steps before it, since a script may pass if nothing was imported before."""
    reduction = case.load(SOURCE_REDUCTION)
    directory = case.path / "minify" / "source"
    facts = replace(results.facts, reduction=reduction)
    if case.holds(SOURCE_FAILURE):
        own = case.load(SOURCE_FAILURE)
        facts = replace(facts, signature=own.signature, failure=own.failure)
    hangs = facts.signature.kind.policy.hangs
    limit = _WAITING if facts.signature.kind is Kind.DEADLOCK else HANG if hangs else _SHORTEST_SCRIPT
    shown = facts.failure is not None and bool(facts.failure.exceptions or facts.failure.exit_status)
    if facts.signature.kind is Kind.ACCURACY and not shown:
        text = self_checking(read_text(directory / "best.py"))
        if text is not None:
            yield ReproForm(facts, limit, "", directory / "best.py", reduced=True, text=text, whole=False)
    yield ReproForm(facts, limit, "", directory / "best.py", reduced=True)
    for step in reduction.steps[-2 : -_EARLIER - 2 : -1]:
        larger = replace(facts, reduction=replace(reduction, statements_after=step.statements, twin=None))
        note = "a smaller script does not fail alike alone"
        yield ReproForm(larger, limit, note, directory / step.file, reduced=True)


def _places(case: Case, results: CaseResults) -> Iterator[tuple[Path, str]]:
    """The paths of the programs, each with the reason why it is not smaller."""
    if results.reduction is not None:
        yield case.path / _SMALLEST, ""
        if results.reduction.repeats > 1 or results.facts.signature.kind.policy.ends_process:  # it varies between runs
            earlier = sorted((case.path / "minify/history").glob("*.py"))[::-1]
            yield from ((path, "a smaller program did not fail every time") for path in earlier[:_EARLIER])
    yield case.path / "capture/program.py", "the captured program is not reduced"


def _of_program(results: CaseResults) -> Facts:
    capture = results.capture
    assert capture is not None
    if results.reduction is not None and results.reduction.growth:  # the captured program was too slow to be measured
        grown = Failure(Kind.COMPILE_GROWTH, text=results.reduction.growth)
        return replace(results.facts, signature=signature_of(grown), failure=grown)
    failure = capture.verdict.failure if capture.verdict and capture.verdict.failure else results.facts.failure
    return replace(results.facts, signature=capture.signature or results.facts.signature, failure=failure)


def _script(case: Case, results: CaseResults) -> ReproForm:
    limit = max(3 * results.observation.seconds, _SHORTEST_SCRIPT)
    if results.observation.timed_out:
        limit = min(max(2 * results.observation.seconds, _SHORTEST_HANG), _LONGEST_HANG)
    kind = results.facts.signature.kind
    if kind in (Kind.SLOWDOWN, Kind.MEMORY, Kind.ORACLE):
        measurer = "your oracle checks it" if kind is Kind.ORACLE else "repro-kit measures it"
        reason = f"repro.py runs the script, and does not check the {kind} itself: {measurer}"
    elif kind.policy.measured:
        reason = f"{kind} is counted over a run of the script, not of a graph"
    elif results.capture is not None and results.capture.subject == "program":
        reason = ""  # the check of the program says why the program is not used
    else:
        note = results.capture.note if results.capture else ""  # the case names all graphs that were tried
        reason = "; ".join(note.split("; ")[:2]) or "no graph was captured"
    record = case.stage("minify")
    unreduced = record.note if record is not None and record.status == "done" and results.reduction is None else ""
    return ReproForm(results.facts, limit, "; ".join(filter(None, [reason, unreduced])))


def fill(
    form: ReproForm,
    case: Case,
    results: CaseResults,
    contents: Contents,
    *,
    include_values: bool,
    include_source: bool = True,
) -> list[str]:
    """Put `repro.py` and its files into `contents`; returns sentences about what was left out.

    `include_source`: whether the user's own files go in; a reduced script always does.
    """
    if form.program is None:
        return _fill_script(form, case, results, contents, is_whole=include_source or not form.is_users_script)
    assert form.path is not None
    left_out = []
    for name in form.program.stored:
        if include_values:
            contents.add_values(f"inputs/{name}", form.path.parent / "inputs" / name)
    if form.program.stored and not include_values:
        left_out.append(
            f"Stored tensor values that repro.py loads ({', '.join(form.program.stored)}) are left out, "
            "so repro.py is not self-contained; --include-values includes them."
        )
    facts = without_private(form.facts, contents.redactor)
    for name, text in render_program(form.program, facts, whole=form.whole, rewritten=form.rewritten).items():
        contents.add_text(name, text, "repro" if name == REPRO else "check")
    return left_out


def _fill_script(form: ReproForm, case: Case, results: CaseResults, contents: Contents, *, is_whole: bool) -> list[str]:
    """`is_whole`: the files that `repro.py` runs go in, too."""
    sources = sources_of(case, form)
    launch = launch_in(case.file.subject)
    own = sources.files if form.is_users_script else {}
    for name in own:
        contents.redactor.learn_file(name)
    for name, path in sorted(own.items()) if is_whole else ():
        contents.add_text(f"{PLACE}/{name}", source_text(path), "source")
    words = contents.shown_words(sources.argv[1:])
    facts = without_private(form.facts, contents.redactor)
    traced = results.observed is not None and results.observed.source in ("trace", "log")
    subject = rank_subject(case.file.subject) if form.is_users_script else replace(case.file.subject, form="script")
    text = render_script(
        replace(subject, argv=sources.argv) if subject.form != "command" else subject,
        replace(sources, argv=(sources.argv[0], *words)),
        facts,
        why=_sentence(form.note) if is_whole else f"The files are not in this bundle. {_sentence(form.note)}",
        limit=int(form.limit),
        traced=traced,
        env=form.env,
        reduced=form.minimized,
        ranks=_ranks(form, launch, len(results.observation.ranks)),
    )
    if form.text:
        asked = Recipe(fullgraph="fullgraph=True" in form.text)
        text = program_check(PlainScript(form.text, 0, 0), asked, facts)
    if form.path is not None:
        settings = "".join(f"os.environ[{literal(name)}] = {literal(value)}\n" for name, value in form.env.items())
        script = f"import os\n\n{settings}\n" * bool(settings) + in_short_lines(form.text or source_text(form.path))
        contents.add_text(REPRO, script, "repro")
        contents.add_text(CHECK, text, "check")
        return []
    contents.add_text(REPRO, text, "repro")
    contents.add_text(CHECK, render("check_status.py.j2"), "check")
    left_out = [f"A file of the user's is left out: {sentence}." for sentence in sources.left_out]
    if not is_whole:
        add = f"`{with_source(case)}` adds what is missing"
        left_out.append(f"The bundle lacks the {named_files(sources)}, which repro.py runs; {add}.")
    left_out.append(
        "Data files that the user's code opens, and packages that the code needs besides torch, are not in the bundle."
    )
    if tuple(words) != sources.argv[1:]:
        left_out.append(
            "Some words of the command are replaced by tokens, and repro.py passes the tokens to the script; "
            "--include-values includes the original words."
        )
    return left_out


def with_source(case: Case) -> str:
    """The command that puts the user's source files into the bundle."""
    return f"repro-kit bundle --include-source {shlex.quote(str(case.path))}"


def named_files(sources: SourceFiles) -> str:
    """``source files train.py and 2 more``: those that the command names, and how many there are besides."""
    shown = [word for word in sources.argv if word in sources.files]
    others = len(sources.files) - len(shown)
    plural = "s" * (len(sources.files) != 1)
    if not shown:
        return f"{others} source file{plural}"
    return f"source file{plural} {', '.join(shown)}{f' and {others} more' if others else ''}"


def _ranks(form: ReproForm, launch: Launch | None, seen: int) -> int:
    """The processes that `repro.py` starts for its script; 0 if it starts one in the usual way.

    `seen`: the ranks of the observed run.
    """
    if form.is_users_script:
        return launch.ranks or seen if launch is not None else 0
    reduction = form.facts.reduction
    return reduction.ranks if reduction is not None and reduction.ranks > 1 else 0


def sources_of(case: Case, form: ReproForm) -> SourceFiles:
    """The source files that a script-level `repro.py` runs: the reduced script, or what the user's command needs."""
    if form.path is not None:
        return SourceFiles({REDUCED: form.path}, (REDUCED,))
    findings = read_findings(case.path / "observe" / "probe")
    subject = case.file.subject
    launcher = subject.argv[0] if launch_in(subject) is not None else ""
    return find_sources(rank_subject(subject), [path for path in findings.modules if path != launcher])


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""
