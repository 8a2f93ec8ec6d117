"""``repro-kit nightly``: a folder of cases on the newest build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repro_kit.cli.common import shared_options as shared
from repro_kit.cli.common.base_command import ReproCommand

if TYPE_CHECKING:
    from repro_kit.commands.nightly import Watch


@click.command("nightly", cls=ReproCommand, short_help="Run a folder of cases on the newest build, every night.")
@click.option("--nightly", metavar="PLATFORM", help="Nightlies for cpu, cu126, rocm6.4, xpu …  [cpu]")
@click.option("--index-url", metavar="URL", help="Builds of this index in their place.")
@click.option("--wheels", type=click.Path(path_type=Path), metavar="DIR", help="Wheels of a directory in their place.")
@click.option("--package", default="torch", metavar="NAME", help="What is built.  [torch]")
@click.option("--build", metavar="BUILD", help="This build.  [default: the newest]")
@click.option("--python", metavar="PATH", help="Python to install it for.  [default: the active environment's]")
@click.option("--with", "packages", multiple=True, metavar="REQUIREMENT", help="Install this as well.")
@click.option("--timeout", type=shared.POSITIVE, metavar="S", help="Seconds for one run.  [600]")
@click.option("--no-bisect", is_flag=True, help="Do not look for the build where it changed.")
@click.option("--cache", type=click.Path(path_type=Path), metavar="DIR", help="Where wheels are kept.")
@click.option("--cache-size", type=shared.POSITIVE, default=20.0, metavar="GIB", help="How much is kept.  [20]")
@click.option("-o", "--output", "place", metavar="DIR", help="State and summaries.  [FOLDER/.nightly]")
@shared.interface_options
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def command(ctx: click.Context, /, folder: Path, **_: object) -> None:
    r"""Run the cases and bundles in FOLDER on the newest build, and tell what has changed since the last run.

    What newly fails, fails differently or is fixed is bisected. Writes nightly.md and nightly.html.

    \b
    repro-kit nightly cases --yes
    repro-kit nightly cases --yes --nightly cu126

    Exit 0: nothing new fails; 1: something does; 125: no build to be had, or it does not install.
    """
    from repro_kit.commands.nightly import nightly
    from repro_kit.session.interrupts import interruptible

    values = shared.merged(ctx)
    with interruptible():
        ctx.exit(nightly(_watch(folder, values), shared.make_ui(values)))


def _watch(folder: Path, values: dict[str, Any]) -> Watch:
    from repro_kit.builds.catalog import BuildSelection
    from repro_kit.builds.wheels.wheel_cache import default_cache
    from repro_kit.commands.nightly import Watch

    other = values["index_url"] or values["wheels"]
    where = BuildSelection(
        nightly=values["nightly"] or (None if other else "cpu"),
        index=values["index_url"],
        wheels=values["wheels"],
        packages=values["packages"],
        cache=(values["cache"] or default_cache()).absolute(),
        cache_limit=values["cache_size"],
    )
    return Watch(
        folder,
        Path(values["place"] or folder / ".nightly").absolute(),
        where,
        values["package"],
        values["build"],
        values["python"],
        values["timeout"] or Watch.timeout,
        not values["no_bisect"],
    )
