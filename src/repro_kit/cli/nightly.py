"""``repro-kit nightly``: run a folder of cases on the newest build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repro_kit.cli.common.base_command import command
from repro_kit.cli.common.values import make_ui, merged

if TYPE_CHECKING:
    from repro_kit.commands.farm.nightly import NightlyRequest


@command("nightly")
@click.argument("folder", type=click.Path(path_type=Path))
def nightly(ctx: click.Context, /, folder: Path, **_: object) -> None:
    r"""Run the cases and bundles in FOLDER on the newest build, and report what changed since the last run.

    A case that newly fails, fails differently or is fixed is bisected. Writes nightly.md and nightly.html.

    \b
    repro-kit nightly cases --yes
    repro-kit nightly cases --yes --nightly cu126

    Exit 0: nothing newly fails; 1: a new or different failure; 125: no build is available, or it does not install.
    """
    from repro_kit.commands.farm.nightly import nightly
    from repro_kit.session.interrupts import interruptible

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
    )
