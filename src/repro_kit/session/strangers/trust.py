"""A case from another machine or user runs nothing, and chooses no interpreter, without the user's consent."""

from __future__ import annotations

import shlex
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.errors import UsageError
from repro_kit.runner.subject_start import command
from repro_kit.session.strangers.loaded_code import LoadedCode
from repro_kit.ui import Ui

_SHOWN_PARTS = 40


def agree(case: Case, ui: Ui) -> None:
    """Ask for consent before running what a case from another machine or user names; the case records a yes.

    Raises ReproKitError without consent.
    """
    if case.is_own:
        return
    subject = case.file.subject
    shown_command = f"`{shlex.join(command(subject))}` in {subject.cwd}"
    origin = f"{case.path} was not made by you on this machine"
    if not ui.confirm(f"{origin}. Run {shown_command}, and the programs in the case, with your rights?"):
        raise UsageError(f"{origin}, and would run {shown_command}; look at the case, and give --yes if you trust it.")
    case.accept()


def agree_to_trace(path: Path, ui: Ui) -> None:
    """Ask for consent before running the graph that a trace holds: a trace says nothing about who made it.

    Raises ReproKitError without consent.
    """
    if not ui.confirm(f"Run the graph that {path} holds, which is code, with your rights?"):
        raise UsageError(
            f"{path} holds the code of a graph, which would run with your rights; look at the code "
            f"(repro-kit explain --artifact fx_graph_runnable {path}), and give --yes if you trust it."
        )


def agree_to_load(loaded: LoadedCode, ui: Ui) -> None:
    """Show what of an archive runs when torch loads it, and ask for consent. Raises ReproKitError without consent."""
    if ui.yes:
        return
    ui.print("\n".join([f"{loaded.path} holds", *(f"  {line}" for line in loaded.lines[:_SHOWN_PARTS])]))
    more = len(loaded.lines) - _SHOWN_PARTS
    if more > 0:
        ui.print(f"  and {more} more {'part' if more == 1 else 'parts'}")
    how = "torch loads all of these" if not loaded.is_data else "torch loads the pickles with weights_only=True"
    if not ui.confirm(f"Load and run the program in {loaded.path} with your rights ({how})?"):
        raise UsageError(
            f"Nothing was loaded: {loaded.path} holds a program that torch would run with your rights "
            f"({loaded.lines[0]}); give --yes if you trust it."
        )
