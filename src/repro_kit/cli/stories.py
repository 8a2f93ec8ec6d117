"""``repro-kit show`` and ``repro-kit diff``: read bundles and cases, and run nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from repro_kit.bundle.pages.markdown import aspect_words, code_of, shown_kernel
from repro_kit.bundle.story.answer_lines import answers, contrast_line, located
from repro_kit.bundle.story.issue_form import labels_of
from repro_kit.bundle.story.story import Story
from repro_kit.bundle.story.title import headline_of, title_of
from repro_kit.cli.common.base_command import command
from repro_kit.cli.common.values import make_ui
from repro_kit.commands.show import Comparison
from repro_kit.diagnosis.report import layout
from repro_kit.ui import Ui

_SHORT = 60  # lines of a file that are worth showing
_MOST = 1000  # lines of anything


def print_story(story: Story, ui: Ui) -> None:
    """Print the story, the best facts first: code, what differs, what was tried, where; then how it was found."""
    ui.print(headline_of(story))
    for name, text in code_of(story):
        if len(text.splitlines()) <= _SHORT and (name in story.named or not story.runs_users_files):
            _print(ui, name, text)
    ui.print(_plain(contrast_line(story)))
    ui.panel("Facts", [*_about(story)])
    kernel = shown_kernel(story.answers.kernel, _SHORT)
    if kernel is not None:
        _print(ui, _plain(kernel.heading), kernel.text)
    _print_search(story, ui)


def _print_search(story: Story, ui: Ui) -> None:
    """Print how the failure was narrowed and reduced."""
    if story.ablation:
        grid = layout(story.ablation)
        ui.table("Ablation", grid.columns, grid.rows)
        if grid.rest:
            ui.table("", ("further cells", "verdict", ""), grid.rest)
        for note in (*grid.notes, *filter(None, [grid.legend])):
            ui.note(note)
    if story.chain and story.chain.links:
        ui.panel("Evidence", [(link.step, link.sentence) for link in story.chain.links])
    if story.chain and story.chain.flips:
        ui.panel(
            "Settings that make it pass", [(f"{flip.name}={flip.value}", flip.limits) for flip in story.chain.flips]
        )
    if story.workarounds:
        ui.panel("Workarounds", [(workaround.name, workaround.cost) for workaround in story.workarounds])
    if story.insights:
        ui.panel("Trace", [("", sentence) for sentence in story.insights])
    if story.twin:
        _print(ui, f"Passes: {story.twin.what}", story.twin.diff)
    if story.aspects:
        ui.panel("Checked", [(aspect.name, aspect_words(aspect, minimal=story.minimal)) for aspect in story.aspects])


def print_differences(comparison: Comparison, names: tuple[str, str], ui: Ui) -> None:
    """Print how two stories differ."""
    ui.print(comparison.sentence)
    for part in comparison.contrasts:
        if part.rows:
            ui.table(part.what.capitalize(), ["", *names], part.rows)
    alike = [part.what for part in comparison.contrasts if not part.rows]
    if alike:
        ui.note(f"These do not differ: {', '.join(alike)}.")
    if comparison.diff:
        _print(ui, "Programs", comparison.diff)


def _about(story: Story) -> Iterator[tuple[str, str]]:
    yield "expected", story.expected
    yield from ((question.lower(), _plain(answer)) for question, answer in answers(story))
    if at := located(story):
        yield "where", f"{at}. {story.evidence}".rstrip(". ") + "."
    if story.answers.replay:
        yield "replay", story.answers.replay
    yield from (("look at", f"{place.what}: {place.file}:{place.line}") for place in story.answers.places)
    yield "git", _plain(story.for_git)
    yield "recognised by", story.title
    yield "seen with", story.seen_with
    yield from ((name, text) for name, text in story.chapters if name not in ("layer", "cause"))
    if kind := story.reproducer_kind:
        yield "repro.py", f"kind {kind.number} of PyTorch's four kinds of reproducers (1 is the best): {kind.why}"
    if story.addressee.finding:
        yield "report", f"{story.addressee.finding}. {story.addressee.advice}"
    yield "issue", title_of(story)
    if story.addressee.takes_pytorch:
        yield "labels", ", ".join(labels_of(story))
    yield from (("also", other) for other in story.others)


def _plain(text: str) -> str:
    """A line of Markdown without its marks."""
    return text.replace("**", "").replace("`", "")


def _print(ui: Ui, title: str, text: str) -> None:
    if not ui.quiet:
        ui.print(f"\n{title}\n")
        lines = text.strip("\n").splitlines()
        rest = [f"… {len(lines) - _MOST} more lines are not shown."] if len(lines) > _MOST else []
        ui.print("\n".join(f"  {line}" if line else "" for line in (*lines[:_MOST], *rest)) + "\n")


@command("show")
@click.argument("target", type=click.Path(path_type=Path))
def show(ctx: click.Context, /, target: Path, **_: object) -> None:
    r"""Show the failure of a bundle or case, the layer at fault, the reproducer, and what passes. Nothing is run.

    \b
    repro-kit show train.repro.zip
    """
    from repro_kit.commands.show import story_at
    from repro_kit.serialize import to_data

    story, ui = story_at(target), make_ui(ctx.params)
    print_story(story, ui)
    ui.result(to_data(story))


@command("diff")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
def diff(ctx: click.Context, /, a: Path, b: Path, **_: object) -> None:
    r"""Compare two bundles or cases: failure, versions, settings, ablation, program. Nothing is run.

    Exit 0: the failures are the same; 1: they differ.

    \b
    repro-kit diff before.repro.zip after.repro.zip
    """
    from repro_kit.commands.show import compare, story_at
    from repro_kit.errors import Exit

    comparison, ui = compare(story_at(a), story_at(b)), make_ui(ctx.params)
    print_differences(comparison, ("A", "B") if a.name == b.name else (a.name, b.name), ui)
    ui.result(asdict(comparison))
    ctx.exit(Exit.OK if comparison.same else Exit.FAILED)
