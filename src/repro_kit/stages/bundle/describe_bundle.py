"""Write the story of a bundle from the results of the stages, and add the texts that are made from it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from difflib import unified_diff
from functools import partial
from pathlib import PurePosixPath

import tomli_w

from repro_kit.artefact.plain import runnable
from repro_kit.bundle.archive.archive import CHECKSUMS
from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.archive.manifest import MANIFEST, REDACTIONS
from repro_kit.bundle.facts import Facts, without_private
from repro_kit.bundle.pages import markdown
from repro_kit.bundle.pages.html import LONGEST_LOG, report
from repro_kit.bundle.repro.check_program import of_repro
from repro_kit.bundle.repro.program_repro import REPRO, render_program, render_test
from repro_kit.bundle.repro.source_files import PLACE, REDUCED, source_text
from repro_kit.bundle.story.aspects import aspects, kind_of_program, kind_of_script, ops_of
from repro_kit.bundle.story.story import STORY, ReproducerKind, Story, in_order, write_story
from repro_kit.case.case import Case
from repro_kit.case.stage_results import ROUNDING, Capture, TwinFound
from repro_kit.failure.differences import Rounding
from repro_kit.failure.failure import Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature, signature_of
from repro_kit.files import read_text
from repro_kit.graph import Program, parse
from repro_kit.recipe import Recipe
from repro_kit.repro_run.running import Check
from repro_kit.runner.subject_start import command
from repro_kit.serialize import dumps, to_data
from repro_kit.session.explained import explained_before
from repro_kit.stages.bundle.answers import TorchReply, answers_of
from repro_kit.stages.bundle.claims import shown_reduction
from repro_kit.stages.bundle.code_places import excerpt_of
from repro_kit.stages.bundle.form_files import sources_of
from repro_kit.stages.bundle.forms import CaseResults, ReproForm, bare
from repro_kit.stages.bundle.further_runs import bisected, users_end, with_replay
from repro_kit.stages.bundle.shareable_ablation import shareable_ablation

_RECIPE_HEAD = "# How the program is compiled and run. A field that is not here is at its default.\n"
_ERROR_LINES = 4  # of the message of torch.testing: the kind, the count, the greatest differences
_NAMING_OPS, _LONGEST_NAME = 3, 70
_FILES = {
    "repro.py": "shows the failure",
    "check.py": "runs repro.py: exit status 1 if it fails as expected, 0 if it passes, 125 if it cannot tell",
    "test_repro.py": "the same as a test for PyTorch's own test suite (needs expecttest and numpy)",
    "issue.md": "the text of the report, for whoever maintains the code at fault",
    "report.html": "the whole story as a page: open it in a browser",
    "recipe.toml": "how the program is compiled and run",
    "env.json": "versions, settings and packages where the failure occurred",
    "ablation.json": "which backend, mode and dynamic setting fails",
    "explain.html": "graph breaks, recompiles, specializations and guards in the trace",
    STORY: "the content of the texts, for programs; `repro-kit show` and `diff` read it",
    REDACTIONS: "which tokens replace private values, without the values",
    MANIFEST: "every file with size, sha256, role and redactions; the failure's signature",
    CHECKSUMS: "for `sha256sum -c`",
}
_DIRECTORIES = {
    "files": "the user's own source files",
    "inputs": "stored tensor values",
    "trace": "torch's structured trace (for tlparse)",
    "artifacts": "graphs extracted from the trace",
    "logs": "torch's logs",
    "tlparse": "the trace as tlparse shows it; open index.html",
}


@dataclass(frozen=True)
class BundleRemarks:
    """Remarks of the stage about a bundle, as sentences."""

    left_out: tuple[str, ...] = ()  # what the bundle lacks
    reason: str = ""  # why the bundle is not verified, or not minimized
    dropped: tuple[str, ...] = ()  # claims of earlier stages that were not shown to hold for repro.py, with reasons
    proof: str = ""  # why a wrong result is neither chance nor rounding


_NO_REMARKS = BundleRemarks()
_NOT_ASKED = TorchReply(why="torch was not asked yet: there is no bundle")


def describe(
    case: Case,
    results: CaseResults,
    form: ReproForm,
    check: Check,
    contents: Contents,
    remarks: BundleRemarks,
    told: TorchReply,
    *,
    code: bool,
) -> Story:
    """Add the data files, the issue, the report and the README; returns their story.

    `told`: what torch was asked. `code`: files may show the user's code.
    """
    facts = without_private(form.facts, contents.redactor)
    contents.learn((facts.environment, form.recipe))
    contents.add_made("env.json", "environment", lambda: dumps(contents.redact(facts.environment)).decode())
    if form.program is not None:
        contents.add_made("recipe.toml", "recipe", lambda: _recipe(contents.redact(form.recipe)))
    # A memory limit or a process group would apply to the whole test suite, and a test measures no times.
    recipe = form.recipe
    if form.program is not None and recipe.memory is None and recipe.growth is None and recipe.group is None:
        name = _test_name(facts.signature.kind, form.program)
        test = render_test(form.program, facts, name, check.repeats if check.flaky else 1)
        contents.add_text("test_repro.py", test, "test")
    story = story_of(case, results, form, contents, check, remarks, told, code=code)
    if story.ablation is not None:
        bundled_code = "\n".join([story.repro, *(source for _, source in story.sources)])
        ablation = shareable_ablation(story.ablation, case, form, bundled_code, code=code, words=contents.shown_words)
        contents.learn(ablation)
        contents.add_made("ablation.json", "ablation", lambda: dumps(contents.redact(ablation)).decode())
        story = replace(story, ablation=ablation, files=_listed(contents))
    story = replace(story, answers=with_replay(story.answers, story.ablation, replays=told.replays))
    contents.learn(replace(story, repro="", sources=()))
    makers = {STORY: ("story", write_story), "issue.md": ("issue", _issue), "report.html": ("report", _page)}
    for name, (role, make) in {**makers, "README.md": ("readme", markdown.readme)}.items():
        contents.add_made(name, role, partial(_redacted_text, make, story, contents))
    return story


def _redacted_text(make: Callable[[Story], str], story: Story, contents: Contents) -> str:
    """The text that `make` writes from the redacted `story`."""
    shown = contents.redact(replace(story, repro="", sources=()))
    named = tuple(contents.redactor.file_name(name) for name in story.named)
    return make(
        replace(
            shown,
            program=contents.redactor.redact(story.program, "program.py").text,
            original=contents.redactor.redact(story.original, "program.py").text,
            named=named,
            repro=contents.entries["repro.py"].data.decode(),
            sources=tuple(in_order({name: entry.data for name, entry in contents.entries.items()}, named)),
        )
    )


def _issue(story: Story) -> str:
    return markdown.with_code(markdown.issue(story), story)


def _page(story: Story) -> str:
    """The report, with the code in place of its marks."""
    text, code = report(story)
    for mark, shown in code.items():
        text = text.replace(mark, shown)
    return text


def _recipe(recipe: Recipe) -> str:
    return _RECIPE_HEAD + tomli_w.dumps({key: value for key, value in to_data(recipe).items() if value is not None})


def _test_name(kind: Kind, program: Program) -> str:
    """``test_accuracy_relu``."""
    words = re.findall(r"[a-z0-9]+", f"{kind} {' '.join(ops_of(program)[:_NAMING_OPS])}".lower())
    return "_".join(["test", *words])[:_LONGEST_NAME].rstrip("_")


def story_of(
    case: Case,
    results: CaseResults,
    form: ReproForm,
    contents: Contents,
    check: Check | None = None,
    remarks: BundleRemarks = _NO_REMARKS,
    told: TorchReply = _NOT_ASKED,
    *,
    code: bool = False,
) -> Story:
    """The story of `form`, whose files are in `contents`. Without a `check`, the bundle is not verified.

    `told`: what torch was asked. `code`: the story may show the user's code.
    """
    facts, program = without_private(form.facts, contents.redactor), form.program
    named = () if program is not None else (REDUCED,) if not form.is_users_script else _named(case, form)
    sources = in_order({name: entry.data for name, entry in contents.entries.items()}, named)
    own_files = sources_of(case, form).files if form.is_users_script else {}
    has_source = bool(own_files and sources)
    story = Story(
        signature=facts.signature,
        error=shown_error(facts, check, contents.redactor),
        environment=facts.environment,
        level=form.level,
        signature_line=facts.signature_line,
        repro=contents.entries["repro.py"].data.decode(),
        sources=tuple(sources),
        named=named if named == (REDUCED,) else tuple(name for name, _ in sources if name in named),
        excerpt=excerpt_of(form.facts.failure, own_files, contents) if has_source else None,
        lacks_source=bool(own_files) and not has_source,
        reason=remarks.reason,
        dropped=remarks.dropped,
        proof=remarks.proof,
        layer=Layer.USER if facts.in_eager else facts.layer,
        in_eager=facts.in_eager,
        evidence=facts.evidence,
        ablation=facts.ablation,
        recipe=form.recipe,
        command=_command(case, contents, code=has_source),
        ended=users_end(case, results, contents.redactor, code=code),
        others=facts.others,
        captured=_captured(facts.capture, ops_of(program), code=code) if program is not None else "",
        moved=facts.moved,
        changed=results.change_to(_signature_of(form), is_graph=program is not None),
        minimized=form.minimized,
        reduction=shown_reduction(form, check),
        twin=passing_variant(case, form, facts),
        bisected=bisected(case),
        ranks=tuple(line if code else _PLACE.sub("", line) for line in results.observation.ranks),
        insights=_insights(case) if code else (),
        reproducer_kind=_reproducer_kind(case, form, contents),
        rounding=_rounding(case, facts, code=code),
        log=markdown.middle_cut(contents.redactor(_log(form, results, check, code=code or has_source)), LONGEST_LOG),
        files=_listed(contents),
        left_out=remarks.left_out,
        answers=answers_of(case, results, form, check, told, values=contents.every_word, code=code or has_source),
    )
    if program is not None:
        story = _with_program(story, case, program, code=code)
    return story if check is None else _checked(story, check)


def _with_program(story: Story, case: Case, program: Program, *, code: bool) -> Story:
    """`story` with what its programs show; `code`: the captured one may be shown, too."""
    captured = bare(parse(read_text(case.path / "capture/program.py")))
    return replace(
        story,
        program=runnable(program),
        original=runnable(captured) if code else "",
        ops=ops_of(program),
        aspects=aspects(captured, program),
    )


def _checked(story: Story, check: Check) -> Story:
    """`story` with what the runs of `repro.py` showed."""
    return replace(
        story,
        verified=check.verified,
        flaky=check.rate,
        runs=(check.same, len(check.runs)),
        repeats=check.repeats if check.flaky else 1,
        needs=check.needs,
    )


def _signature_of(form: ReproForm) -> Signature:
    """What `repro.py` shows, as the run of its program or of the reduced script has it."""
    failure = form.facts.failure
    return form.facts.signature if failure is None else signature_of(failure)


#: The place in the user's code, in the line of a rank.
_PLACE = re.compile(r" at [^;]+?:\d+")


def _command(case: Case, contents: Contents, *, code: bool) -> str:
    """The user's command as typed, with tokens for private words."""
    subject = case.file.subject
    name, *words = command(subject) if subject.form == "command" else ["python", *command(subject)[1:]]
    return shlex.join([name, *contents.shown_words(words, code=code)])


def shown_error(facts: Facts, check: Check | None, redact: Callable[[str], str] = str) -> str:
    """The error message of the failing run of `repro.py`; for a wrong result, how wrong it is."""
    if check is None or not check.same:
        return facts.failure_line
    if facts.signature.kind.policy.eager_raises:
        return facts.failure_line
    if facts.signature.kind is not Kind.ACCURACY:
        run_facts = replace(facts, failure=check.failing.verdict.failure)
        return without_private(run_facts, redact).failure_line
    failure = check.failing.verdict.failure
    message = failure.text if failure and failure.kind is Kind.ACCURACY else ""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return "; ".join(lines[:_ERROR_LINES]) or facts.failure_line


def _insights(case: Case) -> tuple[str, ...]:
    """The sentences of `explain`, if it ran."""
    explained = explained_before(case)
    return tuple(sentence.text for sentence in explained.sentences) if explained else ()


def _named(case: Case, form: ReproForm) -> tuple[str, ...]:
    """The user's files that the command names, as the bundle has them."""
    return tuple(f"{PLACE}/{word}" for word in sources_of(case, form).argv)


def _rounding(case: Case, facts: Facts, *, code: bool) -> Rounding | None:
    """The rounding verdict that counts as a failure; `code`: it may quote the user's graph."""
    if not facts.signature.rounding or not case.holds(ROUNDING):
        return None
    rounding = case.load(ROUNDING)
    return rounding if code else replace(rounding, first=())


def passing_variant(case: Case, form: ReproForm, facts: Facts) -> TwinFound | None:
    """The nearest passing program, with its difference as a diff of `repro.py`."""
    twin = form.twin
    path = case.path / "minify" / (twin.file if twin else "")
    if twin is None or form.program is None or not path.is_file():
        return twin
    passing = bare(parse(read_text(path)))
    if not set(passing.stored) <= set(form.program.stored):  # the bundle has no values but those of `repro.py`
        return replace(twin, diff="")
    fails, passes = (
        render_program(program, facts, whole=form.whole, rewritten=form.rewritten)[REPRO]
        for program in (form.program, passing)
    )
    diff = unified_diff(fails.splitlines(), passes.splitlines(), "fails", "passes", n=2, lineterm="")
    return replace(twin, diff="\n".join(diff) or twin.diff)


def _captured(capture: Capture | None, ops: Collection[str], *, code: bool) -> str:
    """Where the captured graph comes from, and the operator at which its result begins to be wrong.

    `ops`: the operators of the reduced graph. Others are named, with the user's line, if `code` may be shown.
    """
    if capture is None:
        return ""
    of = f"Graph {capture.graph} of {capture.graphs}" if capture.graph and capture.graphs > 1 else "Its graph"
    statements = "1 statement" if capture.statements == 1 else f"{capture.statements} statements"
    note = f" {capture.note[:1].upper()}{capture.note[1:].rstrip('.')}." if capture.note else ""
    return f"{of} fails alone: {statements}.{note}{_first_wrong(capture, ops, code=code)}"


def _first_wrong(capture: Capture, ops: Collection[str], *, code: bool) -> str:
    if not capture.wrong or not (code or capture.wrong[0].operator in ops):
        return ""
    first = capture.wrong[0]
    place = f" ({PurePosixPath(first.line).name})" if code and first.line else ""
    return f" The first wrong {'gradient' if first.backward else 'value'} is that of `{first.operator}`{place}."


def _reproducer_kind(case: Case, form: ReproForm, contents: Contents) -> ReproducerKind:
    names = list(contents.entries)
    if form.program is not None:
        repro = contents.entries["repro.py"].data.decode()
        included = any(name.startswith("inputs/") for name in names)
        return kind_of_program(repro, stored=bool(form.program.stored), included=included)
    sources = sources_of(case, form)
    files = [PurePosixPath(name) for name in sources.files]
    own_names = {part for path in files for part in (*path.parts[:-1], path.stem)}
    texts = [source_text(path) for path in sources.files.values()]
    complete = not form.is_users_script or (
        not sources.left_out and any(name.startswith(f"{PLACE}/") for name in names)
    )
    return kind_of_script(texts, own_names, complete=complete)


def _log(form: ReproForm, results: CaseResults, check: Check | None, *, code: bool) -> str:
    """The output of the failing run of `repro.py`; if it did not fail, the output of the user's command.

    What the command prints quotes the user's files, and is shown with `code` only; else the line that names the error.
    """
    if check is not None and check.same and (code or not form.is_users_script):
        log = of_repro(check.failing.output)
    elif code:
        log = results.facts.failure.text if results.facts.failure else ""
    else:
        log = results.facts.failure_line
    return markdown.without_warnings(markdown.steady(log))


def _listed(contents: Contents) -> tuple[tuple[str, str], ...]:
    """The files for the README; a directory is one entry."""
    present = {name.partition("/")[0] for name in contents.entries}
    present |= {"issue.md", "report.html", STORY, REDACTIONS, MANIFEST, CHECKSUMS}
    files = [(name, purpose) for name, purpose in _FILES.items() if name in present]
    return (*files, *((f"{name}/", purpose) for name, purpose in _DIRECTORIES.items() if name in present))
