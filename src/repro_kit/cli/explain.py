"""``repro-kit explain``: what a trace says, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from repro_kit.cli import options as shared
from repro_kit.cli.command import SubjectCommand, form_of
from repro_kit.cli.work import case_or_subject

#: As in explain/sections, which takes longer to import.
SECTIONS = (
    "advice",
    "failures",
    "breaks",
    "recompiles",
    "specializations",
    "shapes",
    "similar",
    "ranks",
    "guards",
    "overview",
)


class ExplainCommand(SubjectCommand):
    """Takes a log or a case too; options may follow those, since they have no arguments of their own."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The forms of a command, or something that is there already."""
        return [*super().collect_usage_pieces(ctx), "| LOG | CASE"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move a log or a case behind the options."""
        options, form, subject = self.split(args)
        if form == "script" and subject and not _is_script(subject[0]):
            args = [*options, *subject[1:], subject[0]]
            further = self.split(args)[2][:-1]
            if further:
                ctx.fail(f"{subject[0]} is no script, and takes no arguments: {' '.join(further)}")
        return super().parse_args(ctx, args)


def _is_script(word: str) -> bool:
    """Whether `word` is for `recognise` to judge: a Python file, or nothing that is there."""
    path = Path(word)
    if path.suffix in (".py", ".pyw") or not path.exists():
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline(500)
    return first.startswith(b"#!") and b"python" in first


@click.command("explain", cls=ExplainCommand, short_help="What a trace says, and what to do about it.")
@shared.subject_options
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Seconds for a run of the command."
)
@click.option(
    "--section",
    type=click.Choice((*SECTIONS, "all")),
    multiple=True,
    metavar="NAME",
    help=f"Show details (may be repeated): {', '.join(SECTIONS)}, all.",
)
@click.option(
    "--try", "try_", is_flag=True, help="Run the script again with each suggestion, and measure what it does."
)
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write all of it as one HTML page."
)
@shared.interface_options
@click.argument("subject", nargs=-1, type=click.Path())
@click.pass_context
def command(
    ctx: click.Context, /, subject: tuple[str, ...], section: Sequence[str], try_: bool, html: Path | None, **_: object
) -> None:
    r"""Say what was compiled, why it broke, recompiled or specialized, and what to do about it.

    SUBJECT is a script (run first, as it is), a TORCH_TRACE log or directory of logs, or a case.

    \b
    repro-kit explain train.py --epochs 1
    repro-kit explain --try train.py
    repro-kit explain /tmp/trace --section recompiles
    """
    from repro_kit.case import Case
    from repro_kit.cli.explain_view import show
    from repro_kit.errors import ReproKitError
    from repro_kit.explain.page import page
    from repro_kit.stages.explain import explain_case, explain_log
    from repro_kit.stages.interrupts import interruptible
    from repro_kit.stages.place import is_case

    cwd = Path.cwd()
    path = Path(subject[0]) if subject and form_of(ctx) == "script" and not _is_script(subject[0]) else None
    values = shared.merged(ctx)
    ui = shared.make_ui(values)
    with interruptible():
        if path is None or try_:
            if path is not None and not is_case(path):
                raise ReproKitError(f"--try runs the script again, and {path} is a log; give the script in its place.")
            job = case_or_subject(ctx, subject)
            explained = explain_case(job.case, job.options, ui, cwd, try_=try_, as_it_is=path is not None)
        elif is_case(path):
            explained = explain_case(Case.open(path), shared.make_options(values), ui, cwd, as_it_is=True)
        else:
            explained = explain_log(path, cwd)
    report = explained.report(cwd)
    if html is not None:
        _write(html, page(report))
        ui.note(f"The page: {html}")
    show(ui, report, section)
    ui.result(explained.as_json())


def _write(path: Path, text: str) -> None:
    from repro_kit.errors import ReproKitError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReproKitError(f"Cannot write {path}: {error.strerror}.") from error
