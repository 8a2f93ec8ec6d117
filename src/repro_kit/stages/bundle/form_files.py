"""The files of a form of `repro.py`: the check, and the user's source files that it runs."""

from __future__ import annotations

import shlex
from dataclasses import replace

from repro_kit.artefact.plain import PlainScript
from repro_kit.artefact.recipe_code import literal
from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.facts import without_private
from repro_kit.bundle.pages.templates import render
from repro_kit.bundle.repro.check_program import program_check
from repro_kit.bundle.repro.program_repro import CHECK, REPRO, render_program
from repro_kit.bundle.repro.script_repro import render_script
from repro_kit.bundle.repro.source_files import PLACE, REDUCED, SourceFiles, find_sources, source_text
from repro_kit.case.case import Case
from repro_kit.graph.python_code import in_short_lines
from repro_kit.recipe import Recipe
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.torchrun import Launch
from repro_kit.stages.bundle.forms import CaseResults, ReproForm, as_sentence
from repro_kit.subject.subject_check import launch_in, rank_subject


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
        why=as_sentence(form.note) if is_whole else f"The files are not in this bundle. {as_sentence(form.note)}",
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
