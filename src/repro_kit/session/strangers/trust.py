"""A case that came from elsewhere runs nothing, and chooses no interpreter, without a yes."""

from __future__ import annotations

import shlex

from repro_kit.case.case import Case
from repro_kit.errors import UsageError
from repro_kit.runner.subject_start import command
from repro_kit.ui import Ui


def agree(case: Case, ui: Ui) -> None:
    """Ask before anything that a case from elsewhere names is run; a yes is noted in the case.

    Raises ReproKitError without one.
    """
    if case.is_own:
        return
    subject = case.file.subject
    what = f"`{shlex.join(command(subject))}` in {subject.cwd}"
    question = f"{case.path} was not made by you on this machine. Run {what}, and the programs in it, with your rights?"
    if not ui.confirm(question):
        raise UsageError(
            f"{case.path} was not made by you on this machine, and would run {what}; look at it, and give --yes if you "
            "trust it."
        )
    case.accept()
