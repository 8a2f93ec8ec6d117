"""The commands that run a bundle here or on builds of torch: verify, bisect, nightly, farm."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repro_kit.cli.common.base_command import ReproCommand, ReproGroup, command, form_of
from repro_kit.cli.common.values import build_choice, given, is_given, make_ui, merged
from repro_kit.errors import Exit, UsageError
from repro_kit.options.builds import VerifyOptions

if TYPE_CHECKING:
    from repro_kit.builds.catalog import BuildSelection
    from repro_kit.commands.bisect.plan import BisectRequest
    from repro_kit.commands.farm.nightly import NightlyRequest
    from repro_kit.commands.farm.place import FarmPlace


class BisectCommand(ReproCommand):
    """Takes SUBJECT among its options, or a command after ``--``."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The two forms of the command line."""
        return ["[OPTIONS]", "SUBJECT | -- COMMAND..."]

    def arranged(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember whether a command follows ``--``."""
        ctx.meta["repro_kit.form"] = "command" if "--" in args else "script"
        return args


@command("bisect", cls=BisectCommand)
@click.argument("words", nargs=-1, metavar="SUBJECT")
def bisect(ctx: click.Context, /, words: tuple[str, ...], **_: object) -> None:
    r"""Find the build with which SUBJECT (a case, bundle, repro.py or script) or COMMAND began to fail.

    \b
    repro-kit bisect train.repro --good 2.12.0 --bad 2.13.0
    repro-kit bisect train.repro.zip --good 2026-01-05 --bad 2026-02-20
    repro-kit bisect --git . --good v1.2 --bad main -- python train.py

    Exit 0: found; 3: no build fails; 1: no build works; 125: no build can be tested.
    The same command resumes an interrupted search.
    """
    from repro_kit.commands.bisect.command import bisect
    from repro_kit.session.system import interruptible

    values = merged(ctx)
    with interruptible():
        ctx.exit(bisect(_bisect_request(words, form_of(ctx) == "command", values), make_ui(values)))


def _bisect_request(words: tuple[str, ...], is_command: bool, values: dict[str, Any]) -> BisectRequest:
    """What the command line asks for. Raises ReproKitError for what cannot be meant."""
    from repro_kit.commands.bisect.plan import BisectRequest, axes_of
    from repro_kit.commands.bisect.subject import build_symptom
    from repro_kit.regressions.build import Mark

    return BisectRequest(
        words,
        is_command,
        _again(),
        axes_of(values["package"], values["good"], values["bad"]),
        _builds(values),
        find_fix=values["find_fix"],
        all_parents=values["all_parents"],
        timeout=values["timeout"] or BisectRequest.timeout,
        on_timeout=Mark(values["on_timeout"]),
        symptom=build_symptom(values["symptom"]) if values["symptom"] else None,
        any_failure=values["any_failure"],
        repeats=values["repeat"],
        patience=values["max_skips"] or BisectRequest.patience,
        spread=values["spread"] or 0,
        marks=values["mark"],
        log=values["log"],
        repo=values["repo"],
        directory=Path(values["place"]) if values["place"] else None,
        fresh=values["fresh"],
    )


def _builds(values: dict[str, Any]) -> BuildSelection:
    from repro_kit.builds.build_source import BuildCommand
    from repro_kit.builds.catalog import BuildSelection
    from repro_kit.runner.places import cache_home

    for file in values["constraint"]:
        if not Path(file).is_file():
            raise UsageError(f"There is no file {file}; --constraint takes one that pip would.")
    return BuildSelection(
        nightly=values["nightly"],
        index=values["index_url"],
        wheels=values["wheels"],
        pythons=values["pythons"],
        clone=values["clone"],
        build=BuildCommand(values["build"]),
        paths=values["paths"],
        pre=values["pre"],
        packages=values["packages"],
        constraints=tuple(str(Path(value).absolute()) for value in values["constraint"]),
        cache=(values["cache"] or cache_home()).absolute(),
        cache_limit=values["cache_size"],
        offline=values["offline"],
        keep=values["keep"],
    )


def _again() -> str:
    from repro_kit.builds.web import without_credentials

    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)  # the rest belongs to the user's command
    words = [word for word in sys.argv[1:end] if word not in ("--fresh", "--log")] + sys.argv[end:]
    return shlex.join(["repro-kit", *map(without_credentials, words)])


@command("nightly")
@click.argument("folder", type=click.Path(path_type=Path))
def nightly(ctx: click.Context, /, folder: Path, **_: object) -> None:
    r"""Run the cases and bundles in FOLDER on the newest build, and report what changed since the last run.

    A case that newly fails, fails differently or is fixed is bisected. Writes nightly.md and nightly.html.

    \b
    repro-kit nightly cases --yes
    repro-kit nightly cases --yes --nightly cu126

    Exit 0: nothing newly fails; 1: a new or different failure; 125: no build is available, it does not install, or no
    case can run on it.
    """
    from repro_kit.commands.farm.nightly import nightly
    from repro_kit.session.system import interruptible

    values = merged(ctx)
    with interruptible():
        ctx.exit(nightly(_nightly_request(folder, values), make_ui(values)))


def _nightly_request(folder: Path, values: dict[str, Any]) -> NightlyRequest:
    from repro_kit.builds.catalog import BuildSelection
    from repro_kit.builds.several import BuildChoice
    from repro_kit.commands.farm.nightly import NightlyRequest
    from repro_kit.runner.places import cache_home

    other = values["index_url"] or values["wheels"]
    selection = BuildSelection(
        nightly=values["nightly"] or (None if other else "cpu"),
        index=values["index_url"],
        wheels=values["wheels"],
        packages=values["packages"],
        cache=(values["cache"] or cache_home()).absolute(),
        cache_limit=values["cache_size"],
    )
    build = (values["build"],) if values["build"] else ()
    return NightlyRequest(
        folder,
        Path(values["state_folder"] or folder / ".nightly").absolute(),
        BuildChoice(build, None, values["package"], values["python"], selection, side="new"),
        values["timeout"] or NightlyRequest.timeout,
        not values["no_bisect"],
        values["notify"] or "",
    )


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

    Exit 0: nothing newly fails, or there is no new build; 1: a case fails that was fixed, or never failed before, or a
    number is worse; 125: no build is available, or so many cases show nothing at once that there is no verdict.
    """
    from repro_kit.commands.farm.run import FarmRun, parse_shard, run
    from repro_kit.session.system import interruptible

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
        values["twin"] or "",
        values["notify"] or "",
    )
    with interruptible():
        ctx.exit(run(_place(ctx), request, make_ui(values)))


@command("import", farm, short_help="Take up the results of tests (JUnit's XML).")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
def import_results(ctx: click.Context, /, files: tuple[Path, ...], **_: object) -> None:
    r"""Take up the results of tests that ran on a build, from JUnit's XML. Each test is a case. Nothing is run.

    \b
    pytest --junitxml nightly.xml
    repro-kit farm import nightly.xml --build 2.16.0.dev20261128 --twin stable.xml --stable 2.15.0

    Properties that are numbers are compared as well. Exit 0: nothing newly fails; 1: a test newly fails, or a number is
    worse; 125: so many tests show nothing at once that there is no verdict.
    """
    from repro_kit.commands.farm.junit import ImportRequest, import_results_of

    values = merged(ctx)
    if not values["build"]:
        raise UsageError("Give --build, the version of torch that the tests ran on.")
    request = ImportRequest(
        files,
        values["build"],
        values["line"],
        values["twins"],
        values["stable"] or "",
        values["notify"] or "",
    )
    ctx.exit(import_results_of(_place(ctx), request, make_ui(values)))


@command("status", farm, short_help="Show the states of the cases, or one case.")
@click.argument("cases", nargs=-1, metavar="[CASE]...")
def status(ctx: click.Context, /, cases: tuple[str, ...], states: tuple[str, ...], **_: object) -> None:
    """Show how many cases are in which state, and those that are not closed. With CASE: its verdicts and history."""
    from repro_kit.commands.farm.status import status
    from repro_kit.errors import UsageError
    from repro_kit.regressions.lifecycle import State

    for state in states:
        if state not in set(State):
            raise UsageError(f"--state {state} is none of {', '.join(State)}.")
    ctx.exit(status(_place(ctx), cases, make_ui(merged(ctx)), states=states))


@command("report", farm, short_help="Write the farm as a static site.")
def report(ctx: click.Context, /, output: Path | None, **_: object) -> None:
    """Write the farm as a site that loads nothing, and a Markdown text for each release.

    The site has a filterable list, a page for each case, an Atom feed and JSON. --issue keeps the text of the newest
    release in an issue: GitHub's `gh` replaces what the issue says, after a yes.
    """
    from repro_kit.bundle.story.issue_form import REPOSITORY
    from repro_kit.commands.farm.file import issue_link
    from repro_kit.commands.farm.site import SiteRequest, report

    values = merged(ctx)
    request = SiteRequest(output, issue_link(values["issue"] or "", values["repo"] or REPOSITORY))
    ctx.exit(report(_place(ctx), request, make_ui(values)))


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
    from repro_kit.commands.farm.status import untrack

    ctx.exit(untrack(_place(ctx), line, make_ui(merged(ctx))))


def _place(ctx: click.Context) -> FarmPlace:
    from repro_kit.commands.farm.place import FarmPlace

    return FarmPlace(Path(os.path.abspath(ctx.params["farm"])))  # noqa: PTH100 - without following links


@command("verify")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...", type=click.Path(path_type=Path))
def verify(ctx: click.Context, /, targets: tuple[Path, ...], **_: object) -> None:
    r"""Run a bundle, case or repro.py here, and check whether it still fails in the same way.

    A bundle may come from a stranger. repro-kit unpacks it with care, shows the code, and asks before it runs. The
    run has a scratch directory, private caches, few variables, and limits of time and memory, but your rights.
    Several targets make a table. --on and --releases run one bundle on several builds, and make their table.

    \b
    repro-kit verify train.repro.zip --python .venv/bin/python
    repro-kit verify --yes --against-nightly *.repro.zip
    repro-kit verify train.repro.zip --on 2.12.0,2.13.0

    \b
    Exit 0: same failure; 1: different failure; 3: passes; 125: cannot run here; 2: not a bundle, or refused.
    With several builds, the newest one decides. --expect passes, in CI: 0 if it passes, 1 if it fails.
    """
    from repro_kit.builds.interpreters import find_python
    from repro_kit.commands.verify import verify
    from repro_kit.session.system import interruptible

    values = merged(ctx)
    options = given(VerifyOptions, values)
    if options.timeout is not None:  # a file of settings says nothing against what a bundle asks for
        options = replace(options, timeout=ctx.params["timeout"], usual=options.timeout)
    if any(values[name] for name in ("on", "releases", "nightly", "index_url", "wheels")):
        ctx.exit(_on_builds(targets, values, options))
    for option in ("package", "markdown", "cache", "cache_size"):
        if is_given(ctx, option):
            flag, others = f"--{option.replace('_', '-')}", "--on, --releases, --nightly, --index-url or --wheels"
            raise UsageError(f"{flag} needs builds: give {others} as well.")
    python = options.python and find_python(options.python, Path.cwd(), os.environ)
    with interruptible():
        ctx.exit(verify(targets, replace(options, python=python), make_ui(values)))


def _on_builds(targets: tuple[Path, ...], values: dict[str, Any], options: VerifyOptions) -> Exit:
    from repro_kit.commands.verify import TableRequest, verify_on_builds
    from repro_kit.session.system import interruptible

    if options.against_nightly:
        raise UsageError("Give --against-nightly, or the builds, not both.")
    limits = (options.timeout, options.usual, options.memory)
    request = TableRequest(build_choice(values), *limits, values["markdown"], options.expect)
    with interruptible():
        return verify_on_builds(targets, request, make_ui(values))
