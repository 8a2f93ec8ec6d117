"""Judge builds until the first build that fails is known. Every judgement is saved before the next build is judged.

`Bisection._judge_build` does all that happens to one build: install it (`builds/wheels/install.py`, or another source
of builds), run `repro.py` or a command on it (`run_build.py`), and call it good, bad or skipped (`classify_build.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from repro_kit.bisect import Build, Judgement, JudgeNext, Mark, SearchOutcome, following, next_step, steps_left
from repro_kit.bisect.changes import next_change
from repro_kit.bisect.state import BisectState
from repro_kit.bisect.store import write_state
from repro_kit.builds.build_source import BuildSource, Ready, UnusableError
from repro_kit.builds.wheels.install import file_name
from repro_kit.commands.bisect.classify_build import JudgedBuild, Rules, judge, verify
from repro_kit.commands.bisect.run_build import BuildOracle
from repro_kit.errors import UsageError
from repro_kit.files import write_atomic
from repro_kit.ui import Ui


class Bisection:
    """One search, with its state in a directory."""

    def __init__(
        self,
        directory: Path,
        state: BisectState,
        source: BuildSource,
        oracle: BuildOracle,
        rules: Rules,
        ui: Ui,
        spread: int = 0,
    ) -> None:
        self.state = state
        self._directory = directory
        self._source = source
        self._oracle = oracle
        self._rules = replace(rules, signature=state.signature, repeats=max(rules.repeats, state.repeats))
        self._ui = ui
        self._spread = spread  # builds that are judged to find every change; 0: one change is enough

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
        further = next_change(question, marks, self._spread) if self._spread else None
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
                at=datetime.now(UTC).isoformat(timespec="seconds"),
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
                with self._fetched_meanwhile():
                    judged = self._found(build, ready)
        except UnusableError as error:
            took = time.monotonic() - started
            return Judgement(build.name, Mark.SKIP, f"it does not install: {error}", install_seconds=took)
        write_atomic(self._directory / "logs" / f"{file_name(build.name)}.txt", judged.output.encode())
        return Judgement(
            build.name,
            judged.mark,
            judged.reason,
            runs=judged.runs,
            failures=judged.failures,
            other=judged.other,
            version=ready.version,
            commit=ready.commit,
            install_seconds=installed,
            oracle_seconds=judged.seconds,
        )

    def _found(self, build: Build, ready: Ready) -> JudgedBuild:
        def tick(text: str) -> None:
            self._ui.progress(f"{build.shown}: {text} ({self._left()})")

        if Mark.BAD in self.state.marks.values():
            return judge(self._oracle, ready, self._rules, tick)
        judged, self._rules = verify(self._oracle, ready, self._rules, tick)
        flaky = f"{judged.failures} of {judged.runs} runs" if 0 < judged.failures < judged.runs else ""
        self.state = replace(
            self.state, signature=self._rules.signature, repeats=self._rules.repeats, flaky=flaky or self.state.flaky
        )
        return judged

    @contextmanager
    def _fetched_meanwhile(self) -> Iterator[None]:
        """Download the builds that may come next while the oracle runs."""
        for index in following(self.state.question, self.state.marks):
            build = self.state.range[index]
            threading.Thread(target=self._source.fetch, args=(build,), name=f"fetch {build.name}", daemon=True).start()
        yield

    def _left(self) -> str:
        """Say what is left to do: ``about 4 steps left, 6 min``."""
        steps = steps_left(self.state.question, self.state.marks)
        if not steps:
            return "further changes" if self._spread else "no step left"
        judged = [judgement.seconds for judgement in self.state.judgements if judgement.runs]
        time_left = f", {_duration(steps * sum(judged) / len(judged))}" if judged else ""
        return f"about {steps} step{'s' if steps > 1 else ''} left{time_left}"


def make_directory(directory: Path) -> None:
    """Make the directory for results. Raises ReproKitError when that fails."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot make the directory {directory}: {error.strerror}; use another --output.") from error


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
