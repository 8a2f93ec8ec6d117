"""The commands that run one stage: what they need is run before it where it is missing."""

from __future__ import annotations

import click

from repro_kit.cli.work import Job, work


def run_one(ctx: click.Context, job: Job, name: str) -> None:
    """Run stage `name` on the job's case, after those it needs and the case lacks."""
    work(ctx, job, [*missing(job, name), name], again=[name])


def missing(job: Job, name: str, *, uses: bool = False) -> list[str]:
    """The stages that stage `name` needs and the case lacks; with `uses`, those too whose results it would take."""
    from repro_kit.stages.registry import REGISTRY, prerequisites

    wanted = [*prerequisites(name), *(REGISTRY[name].uses if uses else ())]
    return [need for need in wanted if not _done(job, need)]


def _done(job: Job, name: str) -> bool:
    record = job.case.stage(name)
    return record is not None and record.status == "done"
