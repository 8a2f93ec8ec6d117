"""``repro-kit bisect``: find the build that broke the subject."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repro_kit.cli.common import shared_options as shared
from repro_kit.cli.common.base_command import ReproCommand, form_of
from repro_kit.cli.common.numbers import COUNT, POSITIVE
from repro_kit.errors import UsageError

if TYPE_CHECKING:
    from repro_kit.builds.catalog import BuildSelection
    from repro_kit.commands.bisect.request import BisectRequest

_SIDES = click.Choice(["good", "bad", "skip"])


class BisectCommand(ReproCommand):
    """Takes SUBJECT among its options, or a command after ``--``."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The two forms of the command line."""
        return ["[OPTIONS]", "SUBJECT | -- COMMAND..."]

    def arranged(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember whether a command follows ``--``."""
        ctx.meta["repro_kit.form"] = "command" if "--" in args else "script"
        return args


@click.command("bisect", cls=BisectCommand, short_help="Find the nightly, release or commit that broke it.")
@click.option("--good", multiple=True, metavar="BUILD", help="A build that works: version, date, wheel, commit, path.")
@click.option("--bad", multiple=True, metavar="BUILD", help="A build that fails.  [default: the newest]")
@click.option("--find-fix", is_flag=True, help="Look for the first build that no longer fails.")
@click.option("--package", multiple=True, metavar="NAME", help="Package to vary.  [default: torch]")
@click.option("--nightly", metavar="PLATFORM", help="Nightlies for cpu, cu126, rocm6.4, xpu …")
@click.option("--index-url", metavar="URL", help="Builds of this index (also file://).  [default: releases on PyPI]")
@click.option("--wheels", type=click.Path(path_type=Path), metavar="DIR", help="Wheels in this directory.")
@click.option("--git", "clone", type=click.Path(path_type=Path), metavar="CLONE", help="Commits of a local clone.")
@click.option("--build", metavar="COMMAND", help="Builds a commit, in its work tree, for the interpreter $PYTHON.")
@click.option("--path", "paths", multiple=True, metavar="PATH", help="Only commits that touch this path.")
@click.option("--all-parents", is_flag=True, help="Search inside merged branches too.")
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="PATH",
    help="Python to install the builds for. Several interpreters are themselves the builds.",
)
@click.option("--pre", is_flag=True, help="Include pre-releases.")
@click.option("--with", "packages", multiple=True, metavar="REQUIREMENT", help="Also install this package.")
@click.option("--constraint", multiple=True, metavar="FILE", help="Constraints file for the installation.")
@click.option("--timeout", type=POSITIVE, metavar="S", help="Time limit of one run, in seconds.  [default: 600]")
@click.option(
    "--on-timeout", type=_SIDES, default="skip", help="Verdict for a build whose run times out.  [default: skip]"
)
@click.option("--check", "symptom", metavar="SYMPTOM", help="Symptom in place of a failure: accuracy, recompiles>N …")
@click.option("--any-failure", is_flag=True, help="Count every failure, not only the expected one.")
@click.option("--repeat", type=COUNT, default=1, metavar="N", help="Runs that must pass before a build is good.")
@click.option("--max-skips", type=COUNT, metavar="N", help="Stop after N untestable builds.  [default: 16]")
@click.option("--spread", type=COUNT, metavar="N", help="Judge N more builds, and find every change between them.")
@click.option("--mark", multiple=True, metavar="BUILD=MARK", help="Set a build's verdict: good, bad, skip or forget.")
@click.option("--log", is_flag=True, help="Show the verdicts and why each build was chosen. Run nothing.")
@click.option(
    "--repo", type=click.Path(path_type=Path), metavar="CLONE", help="Clone of PyTorch; its commits are ranked."
)
@click.option("--cache", type=click.Path(path_type=Path), metavar="DIR", help="Directory for downloaded wheels.")
@click.option(
    "--cache-size",
    type=POSITIVE,
    default=20.0,
    metavar="GIB",
    help="Size limit of the cache.  [default: 20]",
)
@click.option("--offline", is_flag=True, help="Use cached wheels only. No network.")
@click.option("--keep", is_flag=True, help="Keep the environments of the builds.")
@click.option(
    "-o", "--output", "place", metavar="DIR", help="Directory for the state.  [default: the case, or ./NAME.bisect]"
)
@click.option("--fresh", is_flag=True, help="Forget all verdicts, and start again.")
@shared.interface_options
@click.argument("words", nargs=-1, metavar="SUBJECT")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **_: object) -> None:
    r"""Find the build with which SUBJECT (a case, bundle, repro.py or script) or COMMAND began to fail.

    \b
    repro-kit bisect train.repro --good 2.12.0 --bad 2.13.0
    repro-kit bisect train.repro.zip --good 2026-01-05 --bad 2026-02-20
    repro-kit bisect --git . --good v1.2 --bad main -- python train.py

    Exit 0: found; 3: no build fails; 1: no build works; 125: no build can be tested.
    The same command resumes an interrupted search.
    """
    from repro_kit.commands.bisect.command import bisect
    from repro_kit.session.interrupts import interruptible

    values = shared.merged(ctx)
    with interruptible():
        ctx.exit(bisect(_request(words, form_of(ctx) == "command", values), shared.make_ui(values)))


def _request(words: tuple[str, ...], is_command: bool, values: dict[str, Any]) -> BisectRequest:
    """What the command line asks for. Raises ReproKitError for what cannot be meant."""
    from repro_kit.bisect.build import Mark
    from repro_kit.commands.bisect.request import BisectRequest, axes_of
    from repro_kit.commands.bisect.run_symptom import build_symptom

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
    from repro_kit.builds.wheels.web import without_credentials

    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)  # the rest belongs to the user's command
    words = [word for word in sys.argv[1:end] if word not in ("--fresh", "--log")] + sys.argv[end:]
    return shlex.join(["repro-kit", *map(without_credentials, words)])
