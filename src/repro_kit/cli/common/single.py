"""Commands that run one stage, after the earlier stages whose results are missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from repro_kit.cli.common.work import Job, work

if TYPE_CHECKING:
    from repro_kit.pipeline.run import StageEnding


def run_one(
    ctx: click.Context, job: Job, name: str, report: Callable[[Job, StageEnding], StageEnding] | None = None
) -> None:
    """Run stage `name` on the job's case, after the stages that it needs and the case lacks.

    `report` may change how the command ends.
    """
    work(ctx, job, [*missing(job, name), name], again=[name], report=report)


def missing(job: Job, name: str, *, uses: bool = False) -> list[str]:
    """The stages that stage `name` needs and the case lacks; with `uses`, also those whose results are optional."""
    from repro_kit.pipeline.registry import REGISTRY, prerequisites

    wanted = [*prerequisites(name), *(REGISTRY[name].uses if uses else ())]
    return [need for need in wanted if not _done(job, need)]


def _done(job: Job, name: str) -> bool:
    record = job.case.stage(name)
    return record is not None and record.status == "done"
