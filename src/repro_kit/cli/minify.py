"""``repro-kit minify``: reduce a captured program."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from repro_kit.cli.common.base_command import SubjectCommand, command
from repro_kit.cli.common.values import make_ui, merged
from repro_kit.cli.common.work import open_job, run_one_stage
from repro_kit.errors import UsageError
from repro_kit.session.options import REDUCTION


@command("minify", cls=SubjectCommand, own=(REDUCTION,))
@click.argument("subject", nargs=-1, type=click.Path())
def minify(ctx: click.Context, /, subject: tuple[str, ...], compile_id: str | None, history: bool, **_: object) -> None:
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
    if history:
        show_history(ctx, subject)
        return
    run_one_stage(ctx, open_job(ctx, subject, programs=True, compile_id=compile_id), "minify")


def show_history(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Print each accepted step: pass, statements, queries and seconds so far, script.

    Raises ReproKitError if the case has no reduction.
    """
    from repro_kit.case.case import Case
    from repro_kit.case.handles import REDUCTION, SOURCE_REDUCTION
    from repro_kit.model.serialize import to_data

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
