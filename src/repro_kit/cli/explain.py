"""``repro-kit explain``: what torch compiled, why it recompiled or broke the graph, and what to do."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repro_kit.cli.common.base_command import SubjectCommand, command, form_of
from repro_kit.cli.common.values import is_given, make_options, make_ui, merged
from repro_kit.cli.common.work import open_job

if TYPE_CHECKING:
    from repro_kit.commands.explain.explain_trace import TraceSource
    from repro_kit.ui import Ui

_OF_RUNS = ("output", "fresh", "timeout")


class ExplainCommand(SubjectCommand):
    """Accepts a log or a case too. Options may follow these, because they have no arguments of their own."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The forms of a command, or an existing log or case."""
        return [*super().collect_usage_pieces(ctx), "| LOG | CASE"]

    def arranged(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move a log or a case behind the options."""
        options, form, subject = self.split(args)
        if form == "script" and subject and not _is_script(subject[0]):
            args = [*options, *subject[1:], subject[0]]
            extra = self.split(args)[2][:-1]
            if extra:
                ctx.fail(f"{subject[0]} is not a script, and takes no arguments: {' '.join(extra)}")
        return super().arranged(ctx, args)


def _is_script(word: str) -> bool:
    """Whether `word` names a Python file, or nothing that exists; `recognise` then decides."""
    from repro_kit.subject.subject_check import is_python

    path = Path(word)
    return not path.exists() or is_python(path)


@command("explain", cls=ExplainCommand)
@click.argument("subject", nargs=-1, type=click.Path())
def explain(ctx: click.Context, /, subject: tuple[str, ...], **params: Any) -> None:
    r"""Explain what torch compiled, why the graph broke, recompiled or specialized, and what to do about it.

    SCRIPT runs first, unchanged. LOG is a TORCH_TRACE log, a directory of such logs, or the text of TORCH_LOGS. The
    directory may also hold the flight recorder's dumps of a distributed job.

    \b
    repro-kit explain train.py --epochs 1
    repro-kit explain --try train.py
    repro-kit explain /tmp/trace --section recompiles
    repro-kit explain /tmp/trace --artifact fx_graph_runnable -o graphs
    """
    from repro_kit.cli.output import explain_view as view
    from repro_kit.commands.explain.explain_trace import explain, try_advice
    from repro_kit.commands.intake.programs import holds_failed_program
    from repro_kit.session.system import interruptible

    _refuse_two_answers(params)
    written = _takes_output(params)
    directory = Path(params["output"] or "artifacts")
    if written:
        ctx.params["output"] = None
    cwd = Path.cwd()
    values = merged(ctx)
    ui = make_ui(values)
    options = make_options(values)
    with interruptible():
        source = _source(ctx, subject, ui)
        if params["list_"]:
            view.show_kinds(ui, source)
        elif written:
            view.write_artifacts(ui, source, params["kinds"], params["ids"], directory)
        elif params["against"] is not None:
            view.show_difference(ui, source, _there(params["against"]), cwd, params["section"], params["html"])
        else:
            case = source.case if params["try_"] else None
            explained = try_advice(source, case, options.observe.timeout, ui, cwd) if case else explain(source, cwd)
            view.show_explained(ui, explained, source, cwd, params["section"], params["html"])
            if source.case is None and explained.insights.failures and holds_failed_program(source.trace):
                ui.note(f"To run and reduce the graph that failed: {shlex.join(['repro-kit', 'collect', source.name])}")
        if params["perfetto"] is not None:
            view.write_perfetto(ui, source, params["perfetto"])
        if params["tlparse"] is not None:
            view.write_tlparse(ui, source, params["tlparse"])


def _refuse_two_answers(params: dict[str, Any]) -> None:
    """Raise ReproKitError if the options ask for more than one kind of answer."""
    from repro_kit.errors import UsageError

    asked = {
        "--list": params["list_"],
        "--artifact and --compile-id": _takes_output(params),
        "--against": params["against"] is not None,
        "--try": params["try_"],
    }
    several = [name for name, given in asked.items() if given]
    if len(several) > 1:
        raise UsageError(f"{' and '.join(several)} cannot be combined; use one at a time.")
    shown = [name for name, given in (("--section", params["section"]), ("--html", params["html"])) if given]
    if shown and (params["list_"] or _takes_output(params)):
        raise UsageError(f"{' and '.join(shown)} cannot be combined with {several[0]}; use one at a time.")


def _takes_output(params: dict[str, Any]) -> bool:
    return bool(params["kinds"] or params["ids"])


def _source(ctx: click.Context, subject: tuple[str, ...], ui: Ui) -> TraceSource:
    """The trace that the command line names, or the trace of a new run of its script."""
    from repro_kit.commands.explain.explain_trace import source_of_case
    from repro_kit.errors import UsageError
    from repro_kit.session.case_paths import is_case

    path = Path(subject[0]) if subject and form_of(ctx) == "script" and not _is_script(subject[0]) else None
    try_ = ctx.params["try_"]
    if path is None or (try_ and is_case(path)):
        job = open_job(ctx, subject)
        return source_of_case(job.case, job.options.observe, ui, as_it_is=path is not None)
    if try_:
        raise UsageError(f"--try runs the script again, but {path} is a log; give the script instead.")
    # --artifact has taken its --output away: the value is None then
    idle = [f"--{name}" for name in _OF_RUNS if is_given(ctx, name) and ctx.params[name] is not None]
    if idle:
        raise UsageError(f"{path} is not run, so leave out {' and '.join(idle)}.")
    return _there(path)


def _there(path: Path) -> TraceSource:
    """The existing log or case at `path`. Raises ReproKitError if it has no trace."""
    from repro_kit.case.case import Case
    from repro_kit.commands.explain.explain_trace import TraceSource, source_of_case
    from repro_kit.errors import UsageError
    from repro_kit.options.stages import ObserveOptions
    from repro_kit.session.case_paths import is_case
    from repro_kit.ui import SilentUi

    if not is_case(path):
        if not path.exists():
            raise UsageError(f"{path} does not exist; give a log, a directory of logs, or a case.")
        return TraceSource(path, str(path))
    return source_of_case(Case.open(path), ObserveOptions(), SilentUi(), as_it_is=True)
