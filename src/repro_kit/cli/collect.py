"""``repro-kit collect``: the whole pipeline."""

from __future__ import annotations

from typing import Any

import click

from repro_kit.cli.common.base_command import SubjectCommand, command
from repro_kit.cli.common.work import open_job, work
from repro_kit.options.commands import STAGES


@command("collect", cls=SubjectCommand)
@click.argument("subject", nargs=-1, type=click.Path())
def collect(ctx: click.Context, /, subject: tuple[str, ...], **given: Any) -> None:
    r"""Run a failing torch.compile script and make a verified, minimal bundle of its failure.

    Options go before the script; words after the script are its arguments. The same command resumes an interrupted
    run. SCRIPT may also be a .pt2 file of torch.export.save, which is compiled with AOTInductor, or a program that
    was captured before: an fx_graph_runnable, a script of PyTorch's minifier, or a TORCH_TRACE log or directory.

    \b
    repro-kit collect train.py --epochs 1
    repro-kit collect --check accuracy train.py        it raises nothing, but its results may be wrong
    repro-kit collect -m package.train
    repro-kit collect --timeout 120 -- pytest tests/test_model.py::test_compiled

    \b
    Exit 0: a verified bundle; 3: nothing failed; 4: it fails without torch.compile too; 5: the bundle is not
    verified; 6: rounding, which is no bug; 125: this machine cannot run it; 1: a stage failed; 2: bad input;
    130: interrupted, and the same command goes on.
    """
    from repro_kit.cli.output.ablation import AblationReport

    only, until, skip = given["only"], given["until"], given["skip"]
    if only and (until or skip):
        raise click.UsageError("--only cannot be combined with --until or --skip.", ctx)
    names = [name for name in STAGES if (name in only if only else name not in skip)]
    if until:
        names = [name for name in names if STAGES.index(name) <= STAGES.index(until)]
    if not names:
        raise click.UsageError("No stage is left to run.", ctx)
    job = open_job(ctx, subject, programs=True)
    work(ctx, job, names, again=only, report=AblationReport() if job.ui.verbose else None)
