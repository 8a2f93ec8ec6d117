"""``repro-kit farm``: many cases over many builds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repro_kit.cli.common.base_command import ReproGroup, command
from repro_kit.cli.common.values import build_choice, make_ui, merged

if TYPE_CHECKING:
    from repro_kit.commands.farm.place import FarmPlace


@click.group("farm", cls=ReproGroup)
def farm() -> None:
    r"""Keep many cases, run them on many builds, and follow their states.

    A case is new, open, fixed, closed (it passes on every line of builds), reopened, a duplicate, stale or flaky.

    \b
    repro-kit farm add *.repro.zip
    repro-kit farm run --yes --on 2.13.0,2.15.0
    repro-kit farm status
    """


@command("add", farm, short_help="Add bundles or cases.")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...", type=click.Path(path_type=Path))
def add(ctx: click.Context, /, targets: tuple[Path, ...], **_: object) -> None:
    """Add bundles, cases or repro.py files. Nothing is run.

    `farm add` names the case that a bundle duplicates, and why. Exit 0: done; 2: a target was refused.
    """
    from repro_kit.commands.farm.add import add

    values = merged(ctx)
    ctx.exit(add(_place(ctx), targets, make_ui(values)))


@command("run", farm, short_help="Run the cases on builds.")
@click.argument("cases", nargs=-1, metavar="[CASE]...")
def run(ctx: click.Context, /, cases: tuple[str, ...], **_: object) -> None:
    r"""Run the cases on builds, and judge them. What is known already is not run again.

    Without --on and --releases, the newest build is run.

    \b
    repro-kit farm run --yes --releases 2.10:
    repro-kit farm run --yes --nightly cpu --workers 2

    Exit 0: nothing newly fails; 1: a case fails that was fixed, or never failed before; 125: no build is available.
    """
    from repro_kit.commands.farm.run import FarmRun, parse_shard, run
    from repro_kit.session.interrupts import interruptible

    values = merged(ctx)
    request = FarmRun(
        build_choice(values),
        cases,
        values["executor"],
        values["workers"],
        values["timeout"] or FarmRun.timeout,
        not values["no_bisect"],
        values["retry"],
        parse_shard(values["shard"]) if values["shard"] else None,
    )
    with interruptible():
        ctx.exit(run(_place(ctx), request, make_ui(values)))


@command("status", farm, short_help="Show the states of the cases, or one case.")
@click.argument("cases", nargs=-1, metavar="[CASE]...")
def status(ctx: click.Context, /, cases: tuple[str, ...], states: tuple[str, ...], **_: object) -> None:
    """Show how many cases are in which state, and those that are not closed. With CASE: its verdicts and history."""
    from repro_kit.commands.farm.status import status
    from repro_kit.errors import UsageError
    from repro_kit.farm.lifecycle import State

    for state in states:
        if state not in set(State):
            raise UsageError(f"--state {state} is none of {', '.join(State)}.")
    ctx.exit(status(_place(ctx), cases, make_ui(merged(ctx)), states=states))


@command("report", farm, short_help="Write the farm as a static site.")
def report(ctx: click.Context, /, output: Path | None, **_: object) -> None:
    """Write the farm as a site that loads nothing: a filterable list, a page for each case, an Atom feed, JSON."""
    from repro_kit.commands.farm.report import report

    ctx.exit(report(_place(ctx), output, make_ui(merged(ctx))))


@command("file", farm, short_help="Prepare a case's issue, or the comment that it is fixed.")
@click.argument("case")
def file(ctx: click.Context, /, case: str, repo: str | None, issue: str | None, **_: object) -> None:
    """Prepare the issue of an open case, or the comment on the issue of a case that is fixed or that came back.

    Shows the text, asks, and sends it with GitHub's `gh`. Without a yes, or without gh, it says how to send it.
    """
    from repro_kit.commands.farm.file import FileRequest, file_case

    request = FileRequest(case, repo or FileRequest.repository, issue or "")
    ctx.exit(file_case(_place(ctx), request, make_ui(merged(ctx))))


@command("export", farm, short_help="Print the farm as JSON.")
def export(ctx: click.Context, /, output: Path | None, **_: object) -> None:
    """Print all cases, builds, results and changes as one JSON object."""
    from repro_kit.commands.farm.export import export

    ctx.exit(export(_place(ctx), output, make_ui(merged(ctx))))


@command("merge", farm, short_help="Take the results of other farms into this one.")
@click.argument("others", nargs=-1, required=True, metavar="FARM...", type=click.Path(path_type=Path))
def merge(ctx: click.Context, /, others: tuple[Path, ...], **_: object) -> None:
    """Take the cases and results of other farms into this one: of the shards of a run, or of other machines."""
    from repro_kit.commands.farm.export import merge

    ctx.exit(merge(_place(ctx), others, make_ui(merged(ctx))))


@command("untrack", farm, short_help="Ignore one series of builds when deciding a case's state.")
@click.argument("line")
def untrack(ctx: click.Context, /, line: str, **_: object) -> None:
    """Ignore the builds of LINE ("nightly cpu") when deciding a case's state, until builds of it are run again."""
    from repro_kit.commands.farm.judging import untrack

    ctx.exit(untrack(_place(ctx), line, make_ui(merged(ctx))))


def _place(ctx: click.Context) -> FarmPlace:
    from repro_kit.commands.farm.place import FarmPlace

    return FarmPlace(Path(os.path.abspath(ctx.params["farm"])))  # noqa: PTH100 - without following links
