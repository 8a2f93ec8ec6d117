"""How the user's own command ended, which may differ from how repro.py ends."""

from __future__ import annotations

from collections.abc import Callable

from repro_kit.bundle.facts import without_private
from repro_kit.case.case import Case
from repro_kit.model.failure.tracebacks import short
from repro_kit.session.script.subject_check import is_program_alone
from repro_kit.stages.bundle.forms import CaseResults


def users_end(case: Case, results: CaseResults, redact: Callable[[str], str], *, code: bool) -> str:
    """``ended with exit status 1: ValueError: …``; empty for a case that was made of a program, which no command ran.

    `code`: whether the words of the user's own exceptions may be shown.
    """
    observation, observed = results.observation, results.observed
    if is_program_alone(case) or observed is None:
        return ""
    how = f"ended with exit status {observation.exit_status}"
    if observation.timed_out:
        how = f"was still running after {observation.seconds:.0f} s"
    elif observation.signal:
        how = f"was killed by {observation.signal}"
    said = "" if observed.failure.kind.policy.ends_process else _own_words(results, redact, code=code)
    if observed.source in ("trace", "log") and said:
        return f"{how}; it caught {said}"
    return f"{how}: {said}" if said else how


def _own_words(results: CaseResults, redact: Callable[[str], str], *, code: bool) -> str:
    """The command's own exception; of one that the user's code raises only its type, unless `code` may be shown."""
    observed = results.observed
    if observed is None or observed.source == "measured" or not observed.failure.exceptions:
        return ""
    root = observed.failure.exceptions[-1]
    if not observed.failure.kind.policy.compared:
        return without_private(results.facts, redact).failure_line
    line = redact(root.message).strip().partition("\n")[0] if code else ""
    return f"{short(root.type)}: {line}" if line else short(root.type)
