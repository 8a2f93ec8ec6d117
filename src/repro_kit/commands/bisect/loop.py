"""Judge builds until the first build that fails is known. Every judgement is saved before the next build is judged.

`Bisection._judge_build` does all that happens to one build: install it (`builds/install.py`, or another source
of builds), run a `repro.py` or a command on it (`subject.py`) as often as its rules say (`regressions/unit.py`), and
call it good, bad or skipped.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

from repro_kit.builds.build_source import BuildSource, Ready, UnusableError
from repro_kit.builds.install import file_name
from repro_kit.commands.bisect.plan import BisectRequest
from repro_kit.commands.bisect.subject import BuildOracle
from repro_kit.errors import UsageError
from repro_kit.failure.failure import Status
from repro_kit.failure.signature import RunOutcome
from repro_kit.files import write_atomic
from repro_kit.reduce.flaky import Tally
from repro_kit.regressions.build import Build, Judgement, Mark
from repro_kit.regressions.search import JudgeNext, SearchOutcome, following, next_change, next_step, steps_left
from repro_kit.regressions.search_state import BisectState, write_state
from repro_kit.regressions.unit import UNDECIDED, UnitResult, UnitRules, now
from repro_kit.repro_run.run_unit import run_until_known
from repro_kit.repro_run.running import ReproRun
from repro_kit.ui import Ui

_VERIFY = 3  # runs on the failing end
_MARKS = {RunOutcome.PASSES: Mark.GOOD, RunOutcome.FAILS_ALIKE: Mark.BAD}


class Bisection:
    """One search, with its state in a directory."""

    def __init__(
        self,
        directory: Path,
        state: BisectState,
        source: BuildSource,
        oracle: BuildOracle,
        request: BisectRequest,
        ui: Ui,
    ) -> None:
        self.state = state
        self._directory = directory
        self._source = source
        self._oracle = oracle
        self._request = request
        self._repeats = max(request.repeats, state.repeats)  # runs that must all pass before a build is good
        self._ui = ui

    def run(self) -> SearchOutcome:
        """Judge builds until the answer is known. After an interruption, the next run continues the search."""
        write_state(self._directory, self.state)
        try:
            while isinstance(step := self._next(), JudgeNext):
                self._judge(self.state.range[step.index], step)
        finally:
            self._source.close()
        return step

    def _next(self) -> JudgeNext | SearchOutcome:
        question, marks = self.state.question, self.state.marks
        step = next_step(question, marks)
        further = next_change(question, marks, self._request.spread) if self._request.spread else None
        return step if isinstance(step, JudgeNext) or further is None else further

    def _judge(self, build: Build, ask: JudgeNext) -> None:
        started = time.monotonic()
        with self._ui.stage("bisect"):
            self._ui.progress(f"{build.shown}, {ask.why}: getting it ready ({self._left()})")
            judgement = self._judge_build(build)
            took = time.monotonic() - started
            judgement = replace(
                judgement,
                step=ask.why,
                at=now(),
                overhead_seconds=max(took - judgement.install_seconds - judgement.oracle_seconds, 0.0),
            )
            self.state = self.state.with_judgement(judgement)
            write_state(self._directory, self.state)
            self._ui.done(f"{build.shown}: {judgement.mark.upper()}, {judgement.reason} ({self._left()})")

    def _judge_build(self, build: Build) -> Judgement:
        """Install and judge `build`. A build that does not install is skipped."""
        started = time.monotonic()
        try:
            with self._source.ready(build) as ready:
                installed = time.monotonic() - started
                self.state = replace(self.state, repository=ready.repository or self.state.repository)
                self._fetch_meanwhile()
                unit = self._run(build, ready)
        except UnusableError as error:
            took = time.monotonic() - started
            return Judgement(build.name, Mark.SKIP, f"it does not install: {error}", install_seconds=took)
        mark = {**_MARKS, RunOutcome.FAILS_OTHERWISE: self._request.others}.get(unit.outcome, Mark.SKIP)
        return Judgement(
            build.name,
            mark,
            _reason(unit, mark),
            runs=unit.runs + (unit.outcome in UNDECIDED),
            failures=unit.failed,
            other=unit.note if unit.others else "",
            version=ready.version,
            commit=ready.commit,
            install_seconds=installed,
            oracle_seconds=unit.seconds,
        )

    def _run(self, build: Build, ready: Ready) -> UnitResult:
        """Run the unit of a build. Finished runs of an interrupted unit are in the state, and are not made again.

        The first build that fails is run more often: it shows the failure, if that is not known, and how often it
        occurs, which decides how often the other builds must pass.
        """
        verifies = Mark.BAD not in self.state.marks.values()
        runs = max(_VERIFY if verifies else 1, self._repeats)
        rules = UnitRules(
            self.state.signature,
            runs,
            runs if verifies else 1,
            learns=verifies and not self._request.any_failure,
            hangs=self._request.any_failure,
            on_timeout=self._request.on_timeout,
            persists=True,
        )
        begun = self.state.unfinished
        if begun is None or begun.build != build.name:
            begun = UnitResult(build.name)
        made: list[ReproRun] = []

        def run() -> ReproRun:
            number = begun.runs + len(made) + 1
            several = f"run {number} of up to {runs}" if runs > 1 else "run"
            self._ui.progress(f"{build.shown}: {f'verifying, run {number}' if verifies else several} ({self._left()})")
            made.append(self._oracle.run(ready))
            return made[-1]

        def keep(unit: UnitResult) -> None:
            self.state = replace(self.state, unfinished=unit)
            write_state(self._directory, self.state)
            if unit.passes or made[-1].verdict.status is not Status.PASS:
                write_atomic(self._directory / "logs" / f"{file_name(build.name)}.txt", made[-1].output.encode())

        unit = run_until_known(run, rules, begun, keep)
        if verifies:
            self._verified(unit, rules)
        return unit

    def _verified(self, unit: UnitResult, rules: UnitRules) -> None:
        tally = Tally(unit.failed, unit.runs)
        self._repeats = max(self._repeats, tally.repeats)
        self.state = replace(
            self.state,
            signature=rules.expected(unit),
            repeats=self._repeats,
            flaky=f"{tally.failed} of {tally.runs} runs" if tally.flaky else self.state.flaky,
        )

    def _fetch_meanwhile(self) -> None:
        """Download the builds that may come next while the oracle runs."""
        for index in following(self.state.question, self.state.marks):
            build = self.state.range[index]
            threading.Thread(target=self._source.fetch, args=(build,), name=f"fetch {build.name}", daemon=True).start()

    def _left(self) -> str:
        """Say what is left to do: ``about 4 steps left, 6 min``."""
        steps = steps_left(self.state.question, self.state.marks)
        if not steps:
            return "further changes" if self._request.spread else "no step left"
        judged = [judgement.seconds for judgement in self.state.judgements if judgement.runs]
        time_left = f", {_duration(steps * sum(judged) / len(judged))}" if judged else ""
        return f"about {steps} step{'s' if steps > 1 else ''} left{time_left}"


def _reason(unit: UnitResult, mark: Mark) -> str:
    """What was seen on a build, in one sentence."""
    if mark is Mark.GOOD and unit.others:
        return f"another failure, which counts as good: {unit.note}"
    if unit.runs < 2 or mark is Mark.SKIP:
        return unit.seen
    if mark is Mark.GOOD:
        return f"it passes {unit.runs} times of {unit.runs}"
    return f"{unit.seen} ({unit.failed} of {unit.runs} runs)"


def make_directory(directory: Path) -> None:
    """Make the directory for results. Raises ReproKitError when that fails."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot make the directory {directory}: {error.strerror}; use another --output.") from error


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
