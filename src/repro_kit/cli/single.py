"""The commands that run one stage: what they need is run before it where it is missing."""

from __future__ import annotations

import click

from repro_kit.cli.work import Job, work


def run_one(ctx: click.Context, job: Job, name: str) -> None:
    """Run stage `name` on the job's case, after those it needs and the case lacks."""
    from repro_kit.stages.registry import prerequisites

    missing = [need for need in prerequisites(name) if not _done(job, need)]
    work(ctx, job, [*missing, name], again=[name])


def _done(job: Job, name: str) -> bool:
    record = job.case.stage(name)
    return record is not None and record.status == "done"
