"""Sixty nights of a farm, made by a seeded script that knows the truth: what the farm says of them, held against it.

python scripts/bench/release_farm.py --seed 1

Forty cases run on sixty builds, each also on the stable build (its twin). In two nights the machine is at fault; three
cases fail since the app changed, five since torch did; two are no longer run; one is flaky; two compile more slowly.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.site import SiteRequest, report
from repro_kit.commands.farm.status import FarmJudge, alarms_of, judge_all
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.reduce.flaky import MEASURE
from repro_kit.regressions.build import Build
from repro_kit.regressions.groups import CaseFacts
from repro_kit.regressions.metrics import worse
from repro_kit.regressions.release import Whose, twin_line
from repro_kit.regressions.store import FarmCase, FarmStore, Transition
from repro_kit.regressions.unit import UnitResult
from repro_kit.ui import SilentUi

LINE, STABLE = "nightly cpu", "2.15.0"
CASES, BUILDS = 40, 60
_OPERATORS = ("conv2d", "softmax", "index_put", "cumsum", "bmm", "roll", "pad", "amax")
_RATE = 0.3  # of the flaky case


@dataclass(frozen=True)
class Truth:
    """What happens in the nights; builds by their number, cases by theirs."""

    outages: tuple[int, ...]
    apps: dict[int, int]  # a case, and the first build on which the app breaks it
    torchs: dict[int, int]
    silent: dict[int, int]  # a case, and the first build on which it is no longer run
    flaky: int
    slower: dict[int, int]
    hangs: tuple[int, ...] = ()  # cases that are about a hang, which an outage seems to show
    days: tuple[str, ...] = field(default=())


def truth(dice: random.Random) -> Truth:
    """Where everything happens. A regression may begin right after an outage."""
    cases = dice.sample(range(CASES), 15)
    outages = tuple(sorted(dice.sample(range(10, BUILDS - 10), 2)))
    nights = [night for night in range(6, BUILDS - 6) if night not in outages]
    first = date(2026, 9, 1)
    return Truth(
        outages,
        {case: dice.choice(nights) for case in cases[:3]},
        {cases[3]: outages[0] + 1 if outages[0] + 1 in nights else nights[0]}
        | {case: dice.choice(nights) for case in cases[4:8]},
        {case: dice.choice(nights) for case in cases[8:10]},
        cases[10],
        {case: dice.choice(nights) for case in cases[11:13]},
        tuple(cases[13:15]),
        tuple(f"2.16.0.dev{first + timedelta(night):%Y%m%d}" for night in range(BUILDS)),
    )


def facts_of(case: int, known: Truth) -> CaseFacts:
    """The facts of a case: a hang, a wrong result, or an exception."""
    operator = _OPERATORS[case % len(_OPERATORS)]
    if case in known.hangs:
        return CaseFacts(Signature(Kind.TIMEOUT), culprit=f"#1 {operator}")
    if case % 3:
        return CaseFacts(Signature(Kind.ACCURACY, difference="value"), "inductor", "lowerings", f"#1 aten.{operator}")
    frames = (f"lowering.py:{operator}_{case}",)
    return CaseFacts(Signature(Kind.COMPILE_ERROR, ("TypeError",), f"no size of number {case}", frames), "inductor")


def night(number: int, known: Truth, dice: random.Random, *, attempt: int = 0) -> Iterator[UnitResult]:
    """What one night shows on its build, and on the stable one. Attempts after the first run when all is well again."""
    is_down = number in known.outages and attempt == 0
    spared = set(dice.sample(range(CASES), CASES // 5)) if is_down else set()
    for case in range(CASES):
        if known.silent.get(case, BUILDS) <= number:
            continue
        for twin in (False, True):
            ids = {"case": identity(case), "line": twin_line(LINE) if twin else LINE, "attempt": attempt}
            made = {**ids, "at": f"{date(2026, 9, 1) + timedelta(number)}T13:00:00+00:00"}
            if is_down and case not in spared:
                yield _down(known.days[number], case, known, number, made)
                continue
            failed, runs = _runs(case, number, known, dice, is_twin=twin)
            outcome = RunOutcome.FAILS_ALIKE if failed else RunOutcome.PASSES
            seconds = dice.gauss(20 + case, 1.5) * (1.5 if known.slower.get(case, BUILDS) <= number else 1)
            yield UnitResult(
                known.days[number], outcome, failed, runs - failed, seconds=4.0 * runs,
                metrics=(("compile_seconds", round(seconds, 2)), ("graph_breaks", float(case % 3))), **made,
            )  # fmt: skip


def _down(build: str, case: int, known: Truth, number: int, made: dict[str, object]) -> UnitResult:
    """A run while the machine is at fault: it does not end in one night, and does not install in the other."""
    if number == known.outages[0]:
        return UnitResult(build, RunOutcome.CANNOT_TELL, note="it does not install: no space left", **made)
    if case in known.hangs:
        return UnitResult(build, RunOutcome.FAILS_ALIKE, 1, 0, "it ran longer than 600 s", **made)
    return UnitResult(build, RunOutcome.CANNOT_TELL, note="it ran longer than 600 s", **made)


def _runs(case: int, number: int, known: Truth, dice: random.Random, *, is_twin: bool) -> tuple[int, int]:
    """How many runs fail, of how many: a failure is measured by some more, as `farm run` does."""
    if case == known.flaky:
        failed = sum(dice.random() < _RATE for _ in range(3))
        return (failed + sum(dice.random() < _RATE for _ in range(MEASURE - 3)), MEASURE) if failed else (0, 3)
    broken = known.apps.get(case, BUILDS) <= number or (not is_twin and known.torchs.get(case, BUILDS) <= number)
    return (3, 3) if broken else (0, 3)


def identity(case: int) -> str:
    """The id of a case in the farm."""
    return hashlib.sha256(str(case).encode()).hexdigest()


@dataclass
class Replay:
    """A farm after the nights, and what it said in each."""

    place: FarmPlace
    known: Truth
    alarms: dict[int, list[str]] = field(default_factory=dict)  # by night: names of cases

    def run(self, dice: random.Random) -> None:
        """Let the nights pass. An outage is made good by the next night, as `farm run` does it."""
        with self.place.writing(create=True) as store:
            self._begin(store)
            for number in range(BUILDS):
                due = [number - 1] if number - 1 in self.known.outages else []
                with store.writing():
                    for late in due:
                        store.record(night(late, self.known, dice, attempt=1))
                    store.record(night(number, self.known, dice))
                before = {case.id: case for case in store.cases()}
                changes = judge_all(self.place, store)
                self.alarms[number] = _named(alarms_of(changes, before), before)

    def _begin(self, store: FarmStore) -> None:
        builds = [Build(day, day, f"{day[-8:-4]}-{day[-4:-2]}-{day[-2:]}") for day in self.known.days]
        with store.writing():
            for case in range(CASES):
                facts = facts_of(case, self.known)
                store.add(FarmCase(identity(case), f"case-{case}", "bench", "2026-09-01", facts, since="2026-09-01"))
            store.list_builds(LINE, "--nightly cpu", builds)
            stable = [Build(build.name, STABLE, build.date) for build in builds]
            store.list_builds(twin_line(LINE), f"--on {STABLE}", stable, tracked=False)

    def mistakes(self) -> list[str]:
        """Where the farm says something else than the truth."""
        with self.place.reading() as store:
            return [*self._of_alarms(store), *self._of_cases(store), *self._of_report(store)]

    def _of_alarms(self, store: FarmStore) -> Iterator[str]:
        names = {case.id: case.name for case in store.cases()}
        stands_for = {case.name: names.get(case.original or "", case.name) for case in store.cases()}
        expected = {**self.known.apps, **self.known.torchs}
        raised = {name: number for number in reversed(self.alarms) for name in self.alarms[number]}
        for number in self.known.outages:
            known = {self.known.flaky, *(case for case, first in expected.items() if first == number)}
            wrong = [name for name in self.alarms[number] if int(name[5:]) not in known]
            yield from (f"the outage of night {number} raised an alarm for {name}" for name in wrong)
        for case, number in expected.items():
            told = raised.get(stands_for[f"case-{case}"])  # of two that broke alike in one night, one stands for both
            if told != number:
                yield f"case-{case} broke in night {number}; the alarm was in {told}"
        often = [number for number, names in self.alarms.items() if f"case-{self.known.flaky}" in names]
        if len(often) > 1:
            yield f"the flaky case raised an alarm in the nights {often}"
        known = {*expected, self.known.flaky}
        yield from (f"{name} raised an alarm for nothing" for name in raised if int(name[5:]) not in known)

    def _of_cases(self, store: FarmStore) -> Iterator[str]:
        judge = FarmJudge(self.place, store)
        for case in store.cases():
            number = int(case.name[5:])
            results = judge.results(case)
            standing = judge.standing(case, results)
            owner = Whose.APP if number in self.known.apps else Whose.TORCH if number in self.known.torchs else None
            first = {**self.known.apps, **self.known.torchs}.get(number)
            seen = (standing.began[1].before.build, standing.began[1].after.build) if standing.began else None
            if number != self.known.flaky:
                wanted = (self.known.days[first - 1], self.known.days[first]) if first is not None else None
                if seen != wanted:
                    yield f"{case.name}: broke between {wanted}, the farm says {seen}"
                if owner and (standing.attribution is None or standing.attribution.whose is not owner):
                    yield f"{case.name}: is of {owner}, the farm says {standing.attribution}"
            is_silent = case.state == "stale"
            if is_silent != (number in self.known.silent):
                yield f"{case.name}: silent is {number in self.known.silent}, the farm says {case.state}"
            if (case.state == "flaky") != (number == self.known.flaky):
                yield f"{case.name}: flaky is {number == self.known.flaky}, the farm says {case.state}"
            slower = {each.after for each in worse(results.get(LINE, ()))}
            expected = {self.known.days[self.known.slower[number]]} if number in self.known.slower else set()
            if slower != expected:
                yield f"{case.name}: slower since {expected}, the farm says {slower}"

    def _of_report(self, store: FarmStore) -> Iterator[str]:
        reports = [self.written() for _ in range(2)]
        if reports[0] != reports[1] or len(reports[0]) != 1:
            yield f"the report is not one text, or not the same when it is written again: {sorted(reports[0])}"
        text = next(iter(reports[0].values()), "")
        missing = [
            name for name in (f"case-{case}" for case in {**self.known.apps, **self.known.torchs}) if name not in text
        ]
        yield from (f"the report does not name {name}" for name in missing)

    def written(self) -> dict[str, str]:
        """The reports of releases that the site has, by name."""
        report(self.place, SiteRequest(), SilentUi())
        return {path.name: path.read_text() for path in (self.place.directory / "report").glob("release-*.md")}


def _named(changes: list[Transition], cases: dict[str, FarmCase]) -> list[str]:
    return [cases[change.case].name for change in changes]


def replay(directory: Path, seed: int) -> Replay:
    """A farm in `directory` that has seen the nights of this seed."""
    dice = random.Random(seed)
    made = Replay(FarmPlace(directory), truth(dice))
    made.run(dice)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many seeds, from --seed on")
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.seeds):
        started = time.process_time()
        with tempfile.TemporaryDirectory() as directory:
            made = replay(Path(directory) / "farm", seed)
            mistakes = made.mistakes()
            (name, text), *_ = made.written().items()
        print(f"seed {seed}: {len(mistakes)} mistakes, {time.process_time() - started:.1f} CPU s")
        print("\n".join(f"  {mistake}" for mistake in mistakes))
        if options.seeds == 1:
            print(f"\n{name}:\n\n{text}")


if __name__ == "__main__":
    main()
