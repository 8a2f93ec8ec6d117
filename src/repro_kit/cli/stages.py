"""``repro-kit collect`` and the commands that run one stage of the pipeline."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from repro_kit.cli.common.base_command import SubjectCommand, command
from repro_kit.cli.common.values import given, make_options, make_ui, merged
from repro_kit.cli.common.work import missing, open_job, run_one_stage, work
from repro_kit.cli.output.filing import Filing
from repro_kit.errors import UsageError
from repro_kit.options.commands import STAGES
from repro_kit.options.stages import ABLATION, BUNDLE, FAILURE, REDUCTION, RUN


@command("observe", cls=SubjectCommand, own=(RUN, FAILURE))
@click.argument("subject", nargs=-1, type=click.Path())
def observe(ctx: click.Context, /, subject: tuple[str, ...], **_: object) -> None:
    r"""Run the script once, unchanged, and record its failures, trace, logs and environment.

    SCRIPT may also be a case.

    \b
    repro-kit observe train.py --epochs 1
    """
    run_one_stage(ctx, open_job(ctx, subject), "observe")


@command("capture", cls=SubjectCommand, own=())
@click.argument("subject", nargs=-1, type=click.Path())
def capture(ctx: click.Context, /, subject: tuple[str, ...], **_: object) -> None:
    r"""Capture the failing graph as a standalone program, and check that the program fails on its own.

    SCRIPT may also be a case. Earlier stages run first if their results are missing.

    \b
    repro-kit capture train.repro
    """
    run_one_stage(ctx, open_job(ctx, subject), "capture")


@command("minify", cls=SubjectCommand, own=(REDUCTION,))
@click.argument("subject", nargs=-1, type=click.Path())
def minify(ctx: click.Context, /, subject: tuple[str, ...], **given: Any) -> None:
    r"""Reduce the captured program to a smaller one that fails in the same way.

    SCRIPT may also be a case, a program, an fx_graph_runnable, the repro.py or minifier_launcher.py of PyTorch's
    minifier, a .pt2 file of torch.export.save, or a TORCH_TRACE log or directory. Earlier stages run first if their
    results are missing.

    With --source, and if no graph fails in the same way, the script and the modules that it imports are reduced
    instead.

    \b
    repro-kit minify train.repro
    repro-kit minify --source train.py --epochs 1
    repro-kit minify program.py
    repro-kit minify --compile-id 2/0 /tmp/trace
    repro-kit minify --history train.repro
    """
    if given["history"]:
        show_history(ctx, subject)
        return
    job = open_job(ctx, subject, programs=True, compile_id=given["compile_id"], which=given["which"])
    run_one_stage(ctx, job, "minify")


def show_history(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Print each accepted step: pass, statements, queries and seconds so far, script.

    Raises ReproKitError if the case has no reduction.
    """
    from repro_kit.case.case import Case
    from repro_kit.case.stage_results import REDUCTION, SOURCE_REDUCTION
    from repro_kit.serialize import to_data

    if len(words) != 1:
        raise UsageError("--history needs one case: repro-kit minify --history train.repro")
    case = Case.open(Path(words[0]))
    handle = SOURCE_REDUCTION if case.holds(SOURCE_REDUCTION) else REDUCTION
    if not case.holds(handle):
        raise UsageError(f"{words[0]} holds no reduction; run `repro-kit minify {shlex.quote(words[0])}` first.")
    steps = case.load(handle).steps
    ui = make_ui(merged(ctx))
    rows = [
        [
            *(str(at), step.name.replace("_", " "), str(step.statements), str(step.queries), f"{step.seconds:.1f}"),
            str((case.path / handle.name).parent / step.file),
        ]
        for at, step in enumerate(steps)
    ]
    ui.table("", ["step", "pass", "statements", "queries", "seconds", "script"], rows)
    ui.result([to_data(step) for step in steps])


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


@command("bundle", cls=SubjectCommand, own=(BUNDLE,))
@click.argument("subject", nargs=-1, type=click.Path())
def bundle(ctx: click.Context, /, subject: tuple[str, ...], **_: object) -> None:
    r"""Check the reduced program in a fresh process, and pack the bundle.

    SCRIPT may also be a case. Earlier stages run first if their results are missing.

    \b
    repro-kit bundle train.repro
    """
    filing = given(Filing, ctx.params)
    filing.check()
    run_one_stage(ctx, open_job(ctx, subject), "bundle", report=filing)


@command("collect", cls=SubjectCommand)
@click.argument("subject", nargs=-1, type=click.Path())
def collect(ctx: click.Context, /, subject: tuple[str, ...], **given: Any) -> None:
    r"""Run a failing torch.compile script and make a verified, minimal bundle of its failure.

    Options go before the script; words after the script are its arguments. The same command resumes an interrupted
    run. SCRIPT may also be a .pt2 file of torch.export.save, which is compiled with AOTInductor, or a program that
    was captured before: an fx_graph_runnable, a script of PyTorch's minifier, or a TORCH_TRACE log or directory. The
    text of an issue (a Markdown file, or - for standard input) is told apart, and its program runs after a yes.

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
    job = open_job(ctx, subject, programs=True, which=given["which"])
    work(ctx, job, names, again=only, report=AblationReport() if job.ui.verbose else None)


@command("check")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
def check(ctx: click.Context, /, targets: tuple[str, ...], **_: object) -> None:
    r"""Check in CI that compiled code does what eager does, for each TARGET, and make a repro of what newly does not.

    TARGET is module:function (or path.py:function), a script, a test of pytest, a .pt2 file of torch.export.save, or
    the .json of an earlier check. The function takes no argument. It is compiled, or returns what is: (callable,
    arguments). Failures that the baseline has are known. GitHub's annotations, summary and outputs are written where
    its runner asks for them.

    \b
    repro-kit check models:encoder train.py tests/test_model.py::test_step
    repro-kit check --update-baseline models:encoder
    repro-kit check --check accuracy --check 'graph-breaks>0' --junit check.xml models:encoder
    repro-kit check arm.json --baseline x86.json       what fails on one machine alone

    Exit 0: nothing new; 1: a new failure; 2: bad input, or a target that could not be judged; 130: interrupted.
    """
    from repro_kit.commands.check import CheckRequest, check
    from repro_kit.session.system import interruptible

    values = merged(ctx)
    request = CheckRequest(
        targets,
        make_options(values),
        values["python"],
        values["checks"] or CheckRequest.checks,
        values["baseline"],
        update=values["update_baseline"],
        strict=values["strict"],
        reduce=values["reduce"],
        directory=values["directory"],
        junit=values["junit"],
        sarif=values["sarif"],
    )
    with interruptible():
        ctx.exit(check(request, make_ui(values)))
