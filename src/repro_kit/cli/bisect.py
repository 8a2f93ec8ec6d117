"""``repro-kit bisect``: find the build that broke the subject."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repro_kit.cli.common.base_command import ReproCommand, command, form_of
from repro_kit.cli.common.values import make_ui, merged
from repro_kit.errors import UsageError

if TYPE_CHECKING:
    from repro_kit.builds.catalog import BuildSelection
    from repro_kit.commands.bisect.request import BisectRequest


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
    from repro_kit.session.interrupts import interruptible

    values = merged(ctx)
    with interruptible():
        ctx.exit(bisect(_bisect_request(words, form_of(ctx) == "command", values), make_ui(values)))


def _bisect_request(words: tuple[str, ...], is_command: bool, values: dict[str, Any]) -> BisectRequest:
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
