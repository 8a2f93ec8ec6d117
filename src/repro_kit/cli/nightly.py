"""``repro-kit nightly``: run a folder of cases on the newest build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repro_kit.cli.common import shared_options as shared
from repro_kit.cli.common.base_command import ReproCommand
from repro_kit.cli.common.numbers import POSITIVE

if TYPE_CHECKING:
    from repro_kit.commands.farm.nightly import NightlyRequest


@click.command("nightly", cls=ReproCommand, short_help="Run a folder of cases on the newest build, every night.")
@click.option("--nightly", metavar="PLATFORM", help="Nightlies of torch for cpu, cu126, rocm6.4, xpu …  [default: cpu]")
@click.option("--index-url", metavar="URL", help="Builds of this index instead.")
@click.option("--wheels", type=click.Path(path_type=Path), metavar="DIR", help="Wheels in this directory instead.")
@click.option("--package", default="torch", metavar="NAME", help="Package whose builds are tested.  [default: torch]")
@click.option("--build", metavar="BUILD", help="Build to test.  [default: the newest]")
@click.option("--python", metavar="PATH", help="Python to install the build for.  [default: the active environment's]")
@click.option("--with", "packages", multiple=True, metavar="REQUIREMENT", help="Also install this package.")
@click.option("--timeout", type=POSITIVE, metavar="S", help="Time limit of one run, in seconds.  [default: 600]")
@click.option("--no-bisect", is_flag=True, help="Do not search for the build that changed a result.")
@click.option("--cache", type=click.Path(path_type=Path), metavar="DIR", help="Directory for downloaded wheels.")
@click.option(
    "--cache-size",
    type=POSITIVE,
    default=20.0,
    metavar="GIB",
    help="Size limit of the cache.  [default: 20]",
)
@click.option(
    "-o", "--output", "state_folder", metavar="DIR", help="Directory for results.  [default: FOLDER/.nightly]"
)
@shared.interface_options
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def command(ctx: click.Context, /, folder: Path, **_: object) -> None:
    r"""Run the cases and bundles in FOLDER on the newest build, and report what changed since the last run.

    A case that newly fails, fails differently or is fixed is bisected. Writes nightly.md and nightly.html.

    \b
    repro-kit nightly cases --yes
    repro-kit nightly cases --yes --nightly cu126

    Exit 0: nothing newly fails; 1: a new or different failure; 125: no build is available, or it does not install.
    """
    from repro_kit.commands.farm.nightly import nightly
    from repro_kit.session.interrupts import interruptible

    values = shared.merged(ctx)
    with interruptible():
        ctx.exit(nightly(_request(folder, values), shared.make_ui(values)))


def _request(folder: Path, values: dict[str, Any]) -> NightlyRequest:
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
    )
