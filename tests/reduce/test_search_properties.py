"""What holds of every search, whatever the oracle says."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro_kit.graph import Program, render
from repro_kit.graph.edits import Edit, apply
from repro_kit.graph.effects import Base
from repro_kit.graph.reducer import minify
from repro_kit.reduce import Answer, CannotReduce, Journal, Result, RunOutcome
from repro_kit.reduce.search import key_of
from synthetic import Synthetic, build, op_name

COUNT = 24
PLACES = st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=4, unique=True).map(sorted)
GROUPS = st.lists(st.frozensets(st.integers(0, 5), min_size=1, max_size=3), min_size=1, max_size=3)
MOODS = list(RunOutcome) + [RunOutcome.FAILS_ALIKE] * 2
FEW = settings(max_examples=12, deadline=None)


def planted(places: Sequence[int], seed: int) -> Program:
    return build(COUNT, {at: f"bug{number}" for number, at in enumerate(places)}, seed)


class AnyOf(Synthetic):
    """Fails alike when all operators of one group are there: monotone, with several smallest programs."""

    def __init__(self, groups: Sequence[frozenset[int]], jobs: int = 1) -> None:
        super().__init__([], jobs=jobs)
        self.groups = [{f"bug{number}" for number in group} for group in groups]

    def fails(self, program: Program) -> bool:
        names = {op_name(statement) for statement in program.graph.statements}
        return any(group <= names for group in self.groups)


class Moody(Synthetic):
    """Answers by the text's hash, in every way there is; alike only where the culprits are, but not always there."""

    def __init__(self, bugs: Sequence[str], seed: int, jobs: int = 1) -> None:
        super().__init__(bugs, jobs=jobs)
        self.seed = seed
        self.same: set[str] = set()

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        for program, answer in zip(programs, super().check(programs), strict=True):
            text = render(program)
            mood = random.Random(f"{self.seed} {text}").choice(MOODS)
            if len(program.graph.statements) == COUNT:
                mood = RunOutcome.FAILS_ALIKE  # the original
            if answer.outcome is not RunOutcome.FAILS_ALIKE and mood is RunOutcome.FAILS_ALIKE:
                mood = RunOutcome.PASSES
            if mood is RunOutcome.FAILS_ALIKE:
                self.same.add(text)
            yield Answer(mood, 0.01, f"note {mood}")


def ended(result: Result) -> tuple[object, ...]:
    """What must not depend on how a search was carried out."""
    history = [(it.name, it.statements, it.queries, it.program) for it in result.history]
    return result.program, result.queries, result.stopped, history, result.others, result.failed, result.runs


@FEW
@given(groups=GROUPS, places=st.permutations(range(COUNT)), seed=st.integers(0, 99), jobs=st.sampled_from([1, 2, 4]))
def test_a_monotone_failure_ends_one_minimal(groups, places, seed, jobs):
    oracle = AnyOf(groups, jobs)
    result = minify(planted(sorted(places[:6]), seed), oracle)
    assert result.stopped == "fixpoint"
    assert oracle.fails(result.program)
    base = Base(result.program)
    metadata = oracle.record(result.program)
    for at, statement in enumerate(result.program.graph.statements):
        smaller = [Edit(removed=frozenset({at}))]
        smaller += [Edit(bypass={statement.target: name}) for name in base.reads[at]]
        for edit in smaller:
            program = apply(base, edit, metadata)
            assert program is not None
            assert not oracle.fails(program), render(program)


@FEW
@given(places=PLACES, seed=st.integers(0, 999), jobs=st.sampled_from([1, 2, 4]))
def test_only_what_fails_alike_is_accepted(places, seed, jobs):
    oracle = Moody([f"bug{number}" for number in range(len(places))], seed, jobs)
    result = minify(planted(places, seed % 7), oracle)
    assert result.stopped == "fixpoint"
    texts = [render(it.program) for it in result.history]
    assert oracle.same.issuperset(texts)
    assert len(set(texts)) == len(texts)
    assert set(dict(result.others)) <= {"note other"}


@FEW
@given(places=PLACES, seed=st.integers(0, 99), jobs=st.sampled_from([1, 3]), cut=st.floats(0, 1), moody=st.booleans())
def test_a_search_resumed_at_any_byte_of_its_journal_ends_alike(places, seed, jobs, cut, moody):
    bugs = [f"bug{number}" for number in range(len(places))]
    program = planted(places, seed)

    def oracle() -> Synthetic:
        return Moody(bugs, seed, jobs) if moody else Synthetic(bugs, jobs=jobs)

    with TemporaryDirectory() as place:
        path = Path(place) / "journal.jsonl"
        whole = minify(program, oracle(), journal=Journal(path, about="this"))
        data = path.read_bytes()
        path.write_bytes(data[: int(cut * len(data))])
        known = Journal(path, about="this")
        resumed = oracle()
        again = minify(program, resumed, journal=known)
        assert ended(again) == ended(whole)
        assert path.read_bytes() == data
    original = key_of(render(program))
    answered = {
        line.split('"')[3] for line in data[: int(cut * len(data))].decode().splitlines(True) if line[-1] == "\n"
    }
    repeated = [key for key in (key_of(render(it)) for it in resumed.seen) if key in answered]
    assert [key for key in repeated if key != original] == []


@FEW
@given(places=PLACES, seed=st.integers(0, 99), path=st.booleans())
def test_what_is_left_does_not_depend_on_the_number_of_jobs(places, seed, path):
    """Nor does the text on their timing; but a bisection into more parts may come by another way to what is left."""
    bugs = [f"bug{number}" for number in range(len(places))]
    program = build(COUNT, dict(zip(places, bugs, strict=True)), seed, chain=path)
    results = [minify(program, Synthetic(bugs, path=path, jobs=jobs)) for jobs in (1, 2, 4, 4)]
    left = [[op_name(statement) for statement in result.program.graph.statements] for result in results]
    assert left == [bugs] * 4
    assert render(results[2].program) == render(results[3].program)


def test_answers_about_something_else_do_not_count(tmp_path):
    path = tmp_path / "journal.jsonl"
    program = planted([3, 17], 1)
    other = Journal(path, about="another signature")
    with pytest.raises(CannotReduce):
        minify(program, Synthetic(["absent"]), journal=other)
    counts = []
    for _ in range(2):
        oracle = Synthetic(["bug0", "bug1"])
        assert minify(program, oracle, journal=Journal(path, about="this")).statements_after == 2
        counts.append(oracle.count)
    assert counts[0] > 10
    assert counts[1] == 0
    assert len(Journal(path, about="another signature")) == len(other)
