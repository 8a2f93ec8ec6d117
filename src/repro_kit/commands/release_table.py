"""`verify --on` and `verify --releases`: run one bundle on several builds, and make the table of the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.bisect import Build
from repro_kit.builds.build_source import UnusableError
from repro_kit.builds.several import BuildChoice, BuildLine, lines_of, version_of
from repro_kit.case.case import Case
from repro_kit.case.handles import RELEASES
from repro_kit.case.stage_results import BuildsTried
from repro_kit.commands.verify import ANSWERS
from repro_kit.errors import Exit, UsageError
from repro_kit.farm.plan import RATE_RUNS
from repro_kit.farm.standing import passes_needed
from repro_kit.farm.table import ReleaseTable, release_table
from repro_kit.farm.unit import BuildVerdict, UnitOrder, verdict_of
from repro_kit.model.answers import TriedVariant
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.reduce.flaky import NO_RUNS, Tally
from repro_kit.runner.scratch import scratch
from repro_kit.session.case_paths import is_case
from repro_kit.session.strangers.build_unit import run_unit
from repro_kit.session.strangers.repro_run import START_MARGIN
from repro_kit.session.strangers.untrusted import Claim, UntrustedBundle, ask, claim_of, opened
from repro_kit.ui import Ui


@dataclass(frozen=True)
class TableRequest:
    """The builds, and how the bundle is run and shown."""

    choice: BuildChoice
    timeout: float | None = None  # seconds for one run; None: the bundle's own
    usual: float = 600.0  # seconds for a bundle that asks for none
    memory: float | None = None  # GiB for one run; None: most of the machine's
    markdown: bool = False


def verify_on_builds(targets: Sequence[Path], request: TableRequest, ui: Ui) -> Exit:
    """Run the bundle on each build, and show the table; the answer of the newest build decides the exit code.

    Untrusted code is shown first, and the user is asked. Raises ReproKitError when nothing can be run.
    """
    if len(targets) != 1:
        raise UsageError("Give one bundle with --on or --releases; `repro-kit farm` runs many bundles on many builds.")
    target = targets[0]
    if not target.exists():
        raise UsageError(f"{target} does not exist; give a bundle, a case or a repro.py.")
    with opened(target) as bundle, scratch() as environments:
        claim = claim_of(bundle.whole, target)
        with ui.stage("builds"):
            lines = lines_of(request.choice, environments)
            ui.done("; ".join(f"{line.name}: {len(line.chosen)} builds" for line in lines))
        try:
            ask(bundle, "each build", ui)
            tables = [(line, _table(line, bundle, claim, request, ui)) for line in lines]
        finally:
            for line in lines:
                line.source.close()
    for line, table in tables:
        if request.markdown:
            ui.print(table.as_markdown())
        else:
            ui.table(f"{target.name}: {line.name}", table.columns, table.rows)
            ui.print(table.sentence)
    _keep(target, claim, [table for _, table in tables])
    newest = max(tables, key=lambda each: version_of(each[0].chosen[-1]))[1].verdicts[-1].outcome
    ends = ANSWERS[newest][1]
    shown = [{"line": line.name, **table.as_json()} for line, table in tables]
    ui.result({"target": str(target), "answer": ANSWERS[newest][0], "lines": shown, "exit": int(ends)})
    return ends


def _keep(target: Path, claim: Claim, tables: Sequence[ReleaseTable]) -> None:
    """Keep the verdicts in the user's own case, so that a bundle made of it later names them."""
    case = Case.open(target) if is_case(target) else None
    if case is not None and case.is_own and claim.signature is not None:
        rows = [(name, verdict.partition(" ")[2]) for table in tables for name, verdict, *_ in table.rows]
        case.store(RELEASES, BuildsTried(claim.signature, tuple(TriedVariant(*row) for row in rows)))


def _table(line: BuildLine, bundle: UntrustedBundle, claim: Claim, request: TableRequest, ui: Ui) -> ReleaseTable:
    verdicts: list[BuildVerdict] = []
    for build in line.chosen:
        with ui.stage("verify"):
            ui.progress(f"{line.name} {build.shown}: getting it ready")
            tally = sum((verdict.tally for verdict in verdicts if verdict.fails), NO_RUNS)
            verdicts.append(_verdict(line, build, tally, bundle, claim, request))
            ui.done(f"{line.name} {build.shown}: {ANSWERS[verdicts[-1].outcome][0]}")
    names = {
        build.name: f"{request.choice.package} {build.version}" if build.python else build.shown  # no private path
        for build in line.chosen
    }
    return release_table(verdicts, claim.repeats, names)


def _verdict(
    line: BuildLine, build: Build, tally: Tally, bundle: UntrustedBundle, claim: Claim, request: TableRequest
) -> BuildVerdict:
    """Run the bundle on one build. A failure that came and went on earlier builds is run more often."""
    try:
        with line.source.ready(build) as ready:
            order = UnitOrder(
                "",
                line.name,
                build.name,
                0,
                str(bundle.directory),
                ready.python,
                dict(ready.variables),
                request.timeout or (claim.limit or request.usual) + START_MARGIN,
                passes_needed(tally, claim.repeats),
                1 if tally.failed else RATE_RUNS,
                claim.signature,
                request.memory,
            )
            return verdict_of(run_unit(order))
    except UnusableError as error:
        return BuildVerdict(build.name, RunOutcome.CANNOT_TELL, note=f"it does not install: {error}")
