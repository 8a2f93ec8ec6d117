"""Minify: reduce the captured program, or the script, to a smaller one that fails alike."""

from __future__ import annotations

from repro_kit.case.case import Case
from repro_kit.case.stage_results import CAPTURE
from repro_kit.graph import Program
from repro_kit.graph.effects import is_transform
from repro_kit.options.stages import MinifyOptions
from repro_kit.stages.minify import program_reduction, source_stage
from repro_kit.stages.minify.progress import ended
from repro_kit.stages.minify.results import write_reduction
from repro_kit.subject.subject_check import is_program_alone
from repro_kit.ui import Ui

_MOST_NAMED = 5  # other failures that are named


def run(case: Case, options: MinifyOptions, ui: Ui) -> None:
    """Write `minify/best.py`, its stored inputs, `minify.json`, the accepted steps and the other failures.

    Without a program, or with the option ``--source``, the script itself is reduced instead. It is reduced as well
    where the reduced program needs stored values, or has what torch.func becomes in a graph: no person writes that.
    """
    capture = case.current(CAPTURE)
    if options.source or capture is None or capture.subject == "script":
        source_stage.run(case, options, ui)
        return
    result, failure = program_reduction.reduced(case, options, ui, capture)
    write_reduction(case, result, failure)
    for number, (note, _) in enumerate(result.others[:_MOST_NAMED]):
        ui.detail(f"Another failure was met, and kept in minify/also/{number:03d}.py: {note}")
    words = ended(result, failure, "operator")
    lacks = why_script(result.program)
    if lacks and not is_program_alone(case):
        ui.note(f"{words}. {lacks}, so it is made smaller, too.")
        words = source_stage.reduce_beside_program(case, options, ui)
    ui.done(words)


def why_script(program: Program) -> str:
    """Why a reduced script would be a better reproducer than `program`, as half a sentence; "" if it would not."""
    if program.stored:
        return "That needs stored values; the script makes its values itself"
    if any(map(is_transform, (each for function in program.functions() for each in function.statements))):
        return "That has private calls in place of torch.func's; the script has torch.func's"
    return ""
