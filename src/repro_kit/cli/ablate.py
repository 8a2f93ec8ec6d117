"""``repro-kit ablate``: one stage of the pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from repro_kit.cli.common.base_command import SubjectCommand, command
from repro_kit.cli.common.work import missing, open_job, work
from repro_kit.session.options import ABLATION


@command("ablate", cls=SubjectCommand, own=(ABLATION,))
@click.argument("subject", nargs=-1, type=click.Path())
def ablate(ctx: click.Context, /, subject: tuple[str, ...], **given: Any) -> None:
    r"""Try backends, dynamic shapes, modes and settings, and name the layer of the stack at fault.

    SCRIPT may also be a case. Earlier stages run first if their results are missing. What was tried
    before is not tried again.

    \b
    repro-kit ablate train.repro
    repro-kit ablate --preset full --axis inductor.pattern_matcher=True,False train.repro
    repro-kit ablate --plan train.repro
    repro-kit ablate --expect layer=inductor train.py
    """
    from repro_kit.cli.output.ablation import AblationReport, show_plan

    report = AblationReport.asked(given["expect"], given["against"], given["markdown"])
    job = open_job(ctx, subject)
    changes: dict[str, Any] = {"workarounds": True} if given["workarounds"] is None else {}
    changes |= {"narrow": ""} if given["no_narrow"] else {}
    job = replace(job, options=job.options.with_(**changes))
    if given["plan"]:
        show_plan(job)
        return
    before = [name for name in missing(job, "ablate", uses=True) if name != "minify"]  # a matrix needs no reduction
    work(ctx, job, [*before, "ablate"], again=["ablate"], report=report)
