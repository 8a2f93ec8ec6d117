"""The summary of a command on a case: what failed, where, how small the reproducer is, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from repro_kit.bundle.story.addressee import Addressee, addressee_of
from repro_kit.bundle.story.issue_form import FORM
from repro_kit.errors import Exit
from repro_kit.pipeline.summary import CaseSummary
from repro_kit.ui import Ui

_NAMED = 3  # other failures
_TITLES = {
    Exit.OK: "Verified: repro.py fails in a fresh process, and passes without torch.compile",
    Exit.UNVERIFIED: "NOT verified",
    Exit.FAILED: "No bundle",
}


def show(ui: Ui, outcome: CaseSummary, sentence: str, names: Sequence[str]) -> None:
    """Print the summary of a command on a case.

    `sentence` says why the pipeline ended early; `names` are the stages that were asked for.
    """
    if ui.unseen:
        ui.print(f"  {ui.unseen} more remark{'s' * (ui.unseen != 1)} with -v")
    if sentence and outcome.error is not None:
        ui.error(sentence)
    elif sentence:
        first, _, rest = sentence.partition("\n")  # the stage itself printed the first line, unless quiet
        kept = "What was recorded is in {}; you may remove it." if outcome.exit is not Exit.OK else "The case: {}"
        case = "" if ui.quiet else kept.format(outcome.case)
        ui.print("\n".join(filter(None, [first if ui.quiet else "", rest, case])))
    elif "bundle" in names:
        ui.panel(_title(outcome), [*_lines(outcome)])
    elif not ui.quiet:
        ui.print(f"The case: {outcome.case}")


def _title(outcome: CaseSummary) -> str:
    if outcome.exit is Exit.USER_BUG:
        return "Verified, and not a compiler bug" if outcome.verified else "NOT verified, and not a compiler bug"
    return _TITLES[outcome.exit]


def _lines(outcome: CaseSummary) -> Iterator[tuple[str, str]]:
    if outcome.title:
        yield "failed", outcome.title
    elif outcome.failure:
        yield "failed", f"{outcome.failure}: {outcome.signature}"
    if outcome.moved:
        yield "device", outcome.moved
    yield "where", outcome.sentence or (f"layer {outcome.layer}" if outcome.layer else "the layer is unknown")
    yield "size", _size(outcome)
    if outcome.passes_with and outcome.level == "program":
        yield "passes", f"after this change: {outcome.passes_with}"
    if outcome.workaround:
        yield "instead", f"{outcome.workaround} passes; repro-kit ablate {_quoted(outcome.case)} tries it on the script"
    if outcome.flaky:
        yield "flaky", outcome.flaky
    if outcome.exit is Exit.FAILED:
        yield "error", outcome.error or "a stage failed"
        yield "case", str(outcome.case)
        return
    why = outcome.reason or "repro.py did not fail the same way when it was checked"
    yield "bundle", str(outcome.bundle) if outcome.verified else f"{outcome.bundle}: NOT verified: {why}"
    if outcome.sources:
        yield "source", f"your source files are in it: {', '.join(outcome.sources)}"
    yield "issue", _issue(outcome)
    bundle = _quoted(outcome.bundle)
    yield "page", f"{Path(outcome.case or '.') / 'bundle' / 'report.html'}, or repro-kit show {bundle}"
    yield "check", f"repro-kit verify {bundle}"
    if outcome.others:
        yield "also", _others(outcome)


def _quoted(path: str | None) -> str:
    return shlex.quote(str(path))


def _issue(outcome: CaseSummary) -> str:
    """Where `issue.md` goes."""
    report = Path(outcome.case or ".") / "bundle" / "issue.md"
    to = addressee_of(outcome.layer, outcome.cause)
    if not to.takes_pytorch:
        return f"{report}, for {to.maintainer}: this is not a PyTorch bug"
    if not outcome.verified:
        form = FORM if to is Addressee.PYTORCH else to.maintainer
        return f"{report} says why the bundle is not verified; mend that before it goes to {form}"
    if to is Addressee.PYTORCH:
        return f"paste {report} into {FORM}; nothing needs to be attached"
    return f"{report}, first for {to.maintainer}; then for {FORM}"


def _size(outcome: CaseSummary) -> str:
    if outcome.level == "script" and (outcome.reason or outcome.statements is None):
        why = f": {outcome.reason}" if outcome.reason and outcome.verified else ""
        return f"not minimized; the bundle runs the script{why}"
    if outcome.statements is None:
        return "not minimized"
    before, after = outcome.statements_before, outcome.statements
    noun = "operator" if outcome.level == "program" else "statement"
    from_ = f", from {before}" if before not in (None, after) else ""
    minimal = "; nothing more can be removed" if outcome.minimal else ""
    stopped = f"; stopped by its {outcome.stopped}: --{outcome.stopped} allows more" if outcome.stopped else ""
    return f"{after} {noun}{'s' * (after != 1)}{from_}{minimal}{stopped}"


def _others(outcome: CaseSummary) -> str:
    listed = "; ".join(f"--failure {other.failure}: {other.signature}" for other in outcome.others[:_NAMED])
    more = len(outcome.others) - _NAMED
    return f"other failures; to take one: {listed}" + (f"; and {more} more" if more > 0 else "")
