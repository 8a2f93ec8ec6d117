"""Tell the story of a bundle: gather it from what the stages left, and add the texts that are made of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff
from functools import partial
from pathlib import PurePosixPath

import tomli_w

from repro_kit.bundle.archive.archive import CHECKSUMS
from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.archive.manifest import MANIFEST, REDACTIONS
from repro_kit.bundle.facts import Facts, without_private
from repro_kit.bundle.pages import markdown
from repro_kit.bundle.pages.html import LONGEST_LOG, report
from repro_kit.bundle.repro.program_repro import render_program, render_test, source_of
from repro_kit.bundle.repro.source_files import PLACE, source_text
from repro_kit.bundle.story.aspects import aspects, ops_of, rank_of_program, rank_of_script
from repro_kit.bundle.story.story import STORY, Rank, Story, in_order, write_story
from repro_kit.case.case import Case
from repro_kit.case.stage_results import Capture, TwinFound
from repro_kit.files import read_text
from repro_kit.model.failure.failure import Kind
from repro_kit.model.recipe import Recipe
from repro_kit.model.serialize import dumps, to_data
from repro_kit.program import Program, parse, render
from repro_kit.runner.subject_start import command
from repro_kit.session.explained import explained_before
from repro_kit.session.strangers.repro_run import Check
from repro_kit.stages.bundle.bisection import bisected
from repro_kit.stages.bundle.forms import CaseResults, ReproForm, sources_of
from repro_kit.stages.bundle.shareable_ablation import published

_RECIPE_HEAD = "# How the program is compiled and run. A field that is not here is at its default.\n"
_ERROR_LINES = 4  # of torch.testing's message: what, how many, the greatest differences
_NAMING_OPS, _LONGEST_NAME = 3, 70
_FILES = {
    "repro.py": "run this",
    "test_repro.py": "the same as a test for PyTorch's own suite (needs expecttest and numpy)",
    "issue.md": "to paste into the bug form",
    "report.html": "the whole story as a page: open it in a browser",
    "recipe.toml": "how the program is compiled and run",
    "env.json": "versions, settings and packages where it was seen",
    "ablation.json": "which backend, mode and dynamic setting fails",
    "explain.html": "graph breaks, recompiles, specializations and guards in the trace",
    STORY: "what the texts tell, for programs; `repro-kit show` and `diff` read it",
    REDACTIONS: "what was replaced by which token, without originals",
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
class Said:
    """What the stage has to say of a bundle, in sentences: what is missing, why it is not better, what was dropped."""

    left_out: tuple[str, ...] = ()
    reason: str = ""  # why it is not verified, or not minimized
    dropped: tuple[str, ...] = ()  # claims of earlier stages that could not be shown of this repro.py, and why


_NOTHING = Said()


def describe(
    case: Case, told: CaseResults, candidate: ReproForm, check: Check, contents: Contents, said: Said, *, code: bool
) -> None:
    """Add the data files, the issue, the report and the README; `code`: what shows the user's code may go in."""
    facts = without_private(candidate.facts, contents.redactor)
    contents.learn((facts.environment, candidate.recipe))
    contents.add_made("env.json", "environment", lambda: dumps(contents.redact(facts.environment)).decode())
    if candidate.program is not None:
        contents.add_made("recipe.toml", "recipe", lambda: _recipe(contents.redact(candidate.recipe)))
    if candidate.program is not None and candidate.recipe.memory is None:  # a limit would hold for the whole suite
        name = _test_name(facts.signature.kind, candidate.program)
        test = render_test(candidate.source, facts, name, check.repeats if check.flaky else 1)
        contents.add_text("test_repro.py", test, "test")
    story = tell(case, told, candidate, contents, check, said, code=code)
    if story.ablation is not None:
        held = "\n".join([story.repro, *(source for _, source in story.sources)])
        ablation = published(story.ablation, case, candidate, held, code=code, words=contents.shown_words)
        contents.learn(ablation)
        contents.add_made("ablation.json", "ablation", lambda: dumps(contents.redact(ablation)).decode())
        story = replace(story, ablation=ablation, files=_listed(contents))
    contents.learn(replace(story, repro="", sources=()))
    makers = {STORY: ("story", write_story), "issue.md": ("issue", _issue), "report.html": ("report", _page)}
    for name, (role, make) in {**makers, "README.md": ("readme", markdown.readme)}.items():
        contents.add_made(name, role, partial(_told, make, story, contents))


def _told(make: Callable[[Story], str], story: Story, contents: Contents) -> str:
    """The text that `make` makes of `story` as a reader of the bundle gets it."""
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
    return _filled(markdown.issue(story), markdown.marks(story))


def _page(story: Story) -> str:
    return _filled(*report(story))


def _filled(text: str, code: Mapping[str, str]) -> str:
    """`text` with the code in the places of its marks."""
    for mark, shown in code.items():
        text = text.replace(mark, shown)
    return text


def _recipe(recipe: Recipe) -> str:
    return _RECIPE_HEAD + tomli_w.dumps({key: value for key, value in to_data(recipe).items() if value is not None})


def _test_name(kind: Kind, program: Program) -> str:
    """``test_accuracy_relu``."""
    words = re.findall(r"[a-z0-9]+", f"{kind} {' '.join(ops_of(program)[:_NAMING_OPS])}".lower())
    return "_".join(["test", *words])[:_LONGEST_NAME].rstrip("_")


def tell(
    case: Case,
    told: CaseResults,
    candidate: ReproForm,
    contents: Contents,
    check: Check | None = None,
    said: Said = _NOTHING,
    *,
    code: bool = False,
) -> Story:
    """The story of `candidate`, whose files are in `contents`; without a `check` nothing is verified yet.

    `code`: what shows the user's code may be told.
    """
    facts, program = without_private(candidate.facts, contents.redactor), candidate.program
    captured = parse(read_text(case.path / "capture/program.py")) if program is not None else None
    named = tuple(f"{PLACE}/{word}" for word in sources_of(case).argv) if program is None else ()
    sources = in_order({name: entry.data for name, entry in contents.entries.items()}, named)
    text = read_text(candidate.path) if candidate.path else ""
    if program is not None and candidate.env:
        text = render(program)
    return Story(
        signature=facts.signature,
        error=shown_error(facts, check, contents.redactor),
        environment=facts.environment,
        level=candidate.level,
        repro=contents.entries["repro.py"].data.decode(),
        sources=tuple(sources),
        named=tuple(name for name, _ in sources if name in named),
        verified=bool(check and check.verified),
        reason=said.reason,
        flaky=check.rate if check else "",
        runs=(check.same, len(check.runs)) if check else (0, 0),
        repeats=check.repeats if check and check.flaky else 1,
        needs=check.needs if check else (),
        dropped=said.dropped,
        layer=facts.layer,
        evidence=facts.evidence,
        ablation=facts.ablation,
        recipe=candidate.recipe,
        command=_command(case, contents, code=program is None),
        others=facts.others,
        captured=_captured(facts.capture) if program is not None else "",
        minimized=candidate.minimized,
        reduction=facts.reduction if candidate.reduced else None,
        twin=_twin(case, candidate, facts),
        bisected=bisected(case),
        insights=_insights(case) if code else (),
        program=text,
        original=read_text(case.path / "capture/program.py") if captured and code else "",
        ops=ops_of(program) if program else (),
        rank=_rank(case, candidate, contents),
        aspects=aspects(captured, program) if captured and program else (),
        log=markdown.middle_cut(contents.redactor(_log(candidate, told, check, code=code)), LONGEST_LOG),
        files=_listed(contents),
        left_out=said.left_out,
    )


def _command(case: Case, contents: Contents, *, code: bool) -> str:
    """The user's command as typed, with tokens for what is the user's own."""
    subject = case.file.subject
    name, *words = command(subject) if subject.form == "command" else ["python", *command(subject)[1:]]
    return shlex.join([name, *contents.shown_words(words, code=code)])


def shown_error(facts: Facts, check: Check | None, redact: Callable[[str], str] = str) -> str:
    """The failure in the words of the run of `repro.py`, where it failed; of a wrong result, how wrong it is."""
    if check is None or not check.same:
        return facts.expected
    if facts.signature.kind is not Kind.ACCURACY:
        seen = replace(facts, failure=check.failing.verdict.failure)
        return without_private(seen, redact).expected
    told = check.failing.output.partition("FAIL accuracy: ")[2]
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    return "; ".join(lines[:_ERROR_LINES]) or facts.expected


def _insights(case: Case) -> tuple[str, ...]:
    """The sentences of `explain`, where it ran."""
    explained = explained_before(case)
    return tuple(sentence.text for sentence in explained.sentences) if explained else ()


def _twin(case: Case, candidate: ReproForm, facts: Facts) -> TwinFound | None:
    """The nearest program that passes, its difference shown in the words of `repro.py`."""
    twin = candidate.twin
    path = case.path / "minify" / (twin.file if twin else "")
    if twin is None or candidate.program is None or not path.is_file():
        return twin
    passing = parse(read_text(path))
    sources = (candidate.source, source_of(passing, regions=candidate.regions))
    fails, passes = (render_program(source, facts) for source in sources)
    diff = unified_diff(fails.splitlines(), passes.splitlines(), "fails", "passes", n=2, lineterm="")
    return replace(twin, diff="\n".join(diff) or twin.diff)


def _captured(capture: Capture | None) -> str:
    if capture is None:
        return ""
    of = f"Graph {capture.graph} of {capture.graphs}" if capture.graph and capture.graphs > 1 else "Its graph"
    statements = "1 statement" if capture.statements == 1 else f"{capture.statements} statements"
    note = f" {capture.note[:1].upper()}{capture.note[1:].rstrip('.')}." if capture.note else ""
    return f"{of} fails alone: {statements}.{note}"


def _rank(case: Case, candidate: ReproForm, contents: Contents) -> Rank:
    names = list(contents.entries)
    if candidate.program is not None:
        repro = contents.entries["repro.py"].data.decode()
        included = any(name.startswith("inputs/") for name in names)
        return rank_of_program(repro, stored=bool(candidate.program.stored), included=included)
    sources = sources_of(case)
    files = [PurePosixPath(name) for name in sources.files]
    own = {part for path in files for part in (*path.parts[:-1], path.stem)}
    texts = [source_text(path) for path in sources.files.values()]
    return rank_of_script(texts, own, complete=not sources.left_out)


def _log(candidate: ReproForm, told: CaseResults, check: Check | None, *, code: bool) -> str:
    """What `repro.py` printed when it failed; where it did not fail, the user's command.

    What that printed quotes the user's own files: beside a graph alone it goes in with `code` only.
    """
    if check is not None and check.same:
        log = check.failing.output
    elif candidate.program is None or code:
        log = told.facts.failure.text if told.facts.failure else ""
    else:
        log = told.facts.expected
    return markdown.without_warnings(markdown.steady(log))


def _listed(contents: Contents) -> tuple[tuple[str, str], ...]:
    """The files for the README, each directory as one."""
    present = {name.partition("/")[0] for name in contents.entries}
    present |= {"issue.md", "report.html", STORY, REDACTIONS, MANIFEST, CHECKSUMS}
    files = [(name, what) for name, what in _FILES.items() if name in present]
    return (*files, *((f"{name}/", what) for name, what in _DIRECTORIES.items() if name in present))
