"""What `ablate` prints besides the stage's own output: the plan, expectations, a comparison, Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from repro_kit.bundle.archive.archive import FORMS, LARGEST_SHOWN, read_one
from repro_kit.diagnosis.cell import Ablation
from repro_kit.diagnosis.report import Expectation, changes, parse_expectation
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.files import read_plain
from repro_kit.serialize import from_data

if TYPE_CHECKING:
    from repro_kit.commands.intake.open_case import Job
    from repro_kit.pipeline.run import StageEnding

_FILE = "ablation.json"  # of a case, and of a bundle


@dataclass(frozen=True)
class AblationReport:
    """What the command does with the finished ablation."""

    expectations: tuple[Expectation, ...] = ()
    against: Ablation | None = None
    markdown: bool = False

    @classmethod
    def asked(cls, expect: tuple[str, ...], against: str | None, markdown: bool) -> AblationReport:
        """Read the command's options. Raises ReproKitError for an unknown expectation or an unreadable file."""
        try:
            expectations = tuple(map(parse_expectation, expect))
        except ValueError as error:
            raise UsageError(f"--expect: {error}") from error
        return cls(expectations, read_ablation(Path(against)) if against else None, markdown)

    def __call__(self, job: Job, ending: StageEnding) -> StageEnding:
        """Print the ablation. The command fails if an expectation is not met."""
        from repro_kit.case.stage_results import ABLATION

        ablation = job.case.current(ABLATION)
        if ablation is None:
            return ending
        _show(ablation, job)
        if ending.exit_code is not Exit.OK:
            return ending
        if self.against is not None:
            _compare(self.against, ablation, job)
        if self.markdown and not job.ui.json:
            from repro_kit.bundle.pages.markdown import markdown

            job.ui.print(markdown(ablation))
        unmet = [why for expectation in self.expectations if (why := expectation.unmet(ablation))]
        return type(ending)(Exit.FAILED, " ".join(unmet)) if unmet else ending


def _show(ablation: Ablation, job: Job) -> None:
    """Print the ways to compile that were tried, the chain of evidence, and the workarounds."""
    from repro_kit.stages.ablate.narrow import chain
    from repro_kit.stages.ablate.table import show, show_workarounds

    if ablation.cells:
        show(ablation, job.ui)
    if ablation.chain is not None:
        chain.show(ablation.chain, job.ui)
    if ablation.workarounds:
        show_workarounds(ablation.workarounds, job.ui)


def show_plan(job: Job) -> None:
    """Print the cells that would run, and about how long they take."""
    from repro_kit.case.stage_results import OBSERVATION
    from repro_kit.stages.ablate.stage import planned
    from repro_kit.stages.ablate.table import plan_rows, plan_sentence

    if not job.case.holds(OBSERVATION):
        raise UsageError(
            f"{job.case.path} was not observed yet, so the cells are not known; run ablate without --plan."
        )
    work = planned(job.case, job.options.ablate, job.ui)
    job.ui.print(plan_sentence(work.plans, work.cells))
    for row in plan_rows(work.plans, work.cells):
        job.ui.print(f"  {row}")


def read_ablation(path: Path) -> Ablation:
    """Read the ablation of a file, a case or a bundle. Raises ReproKitError if there is none."""
    try:
        if path.name.endswith(FORMS):
            data = read_one(path, _FILE) or b""
        else:
            data = read_plain(path / _FILE if path.is_dir() else path, LARGEST_SHOWN)
        return from_data(orjson.loads(data), Ablation)
    except ReproKitError as error:
        raise UsageError(f"--against: {error}") from error
    except OSError as error:
        raise UsageError(f"--against: {path} cannot be read: {error.strerror}.") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"--against: {path} holds no ablation; give an ablation.json, a case or a bundle.") from error


def _compare(before: Ablation, after: Ablation, job: Job) -> None:
    differing = changes(before, after)
    ours, theirs = after.torch or "this torch", before.torch or "the other torch"
    if not differing:
        job.ui.note(f"Nothing differs from the other ablation ({theirs} there, {ours} here).")
        return
    rows = [
        [difference.what, difference.before or "no such cell", difference.after or "no such cell"]
        for difference in differing
    ]
    job.ui.table("What differs", ["", f"torch {theirs}", f"torch {ours}"], rows)
    job.ui.notes.extend(
        f"{difference.what}: {difference.before or 'no cell'} there, {difference.after or 'no cell'} here"
        for difference in differing
    )
