"""The answer in words, and when it is part of a case's bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.commands.bisect.answer import as_json, as_markdown, make_report
from repro_kit.errors import Exit
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.regressions.build import Build, Judgement, Mark
from repro_kit.regressions.search import SearchOutcome, next_step
from repro_kit.regressions.search_state import SCHEMA, BisectState, write_state
from repro_kit.stages.bundle.further_runs import bisected
from repro_kit.stages.bundle.sharing import commits_in

BUILDS = tuple(Build(f"2.{number}.0", f"2.{number}.0", url=f"https://x.org/{number}.whl") for number in range(5))
STATE = BisectState(
    SCHEMA, "it", BUILDS, "torch", "releases", "use.py", good="2.0.0", bad="2.4.0", command="repro-kit bisect …"
)


def judged(state: BisectState, marks: str) -> BisectState:
    """`state` with a letter a build: g, b, s; a dot is one that was not judged."""
    words = {"g": Mark.GOOD, "b": Mark.BAD, "s": Mark.SKIP}
    for build, letter in zip(state.builds, marks, strict=True):
        if letter != ".":
            state = state.with_judgement(Judgement(build.name, words[letter], "a | <b>", commit=build.version))
    return state


def report_of(state: BisectState):
    outcome = next_step(state.question, state.marks)
    assert isinstance(outcome, SearchOutcome)
    return make_report(state, outcome)


@pytest.mark.parametrize(
    ("marks", "find_fix", "sentence", "code"),
    [
        ("ggbbb", False, "torch 2.2.0 is the first build that fails; torch 2.1.0 is the last one that still", Exit.OK),
        ("bbggg", True, "torch 2.2.0 is the first build that no longer fails; torch 2.1.0 is the last one", Exit.OK),
        ("gssbb", False, "The first build that fails is torch 2.3.0 or one of the 2 before it", Exit.OK),
        ("....g", False, "torch 2.4.0 passes, so both ends have the same result", Exit.NOTHING_FAILED),
        ("b...b", False, "torch 2.0.0 already fails, so both ends have the same result", Exit.FAILED),
        ("b...b", True, "torch 2.4.0 still fails, so both ends have the same result", Exit.FAILED),
        ("g...g", True, "torch 2.0.0 passes, so both ends have the same result", Exit.NOTHING_FAILED),
        ("sssss", False, "No build of torch at the newer end can be judged", Exit.CANNOT_RUN),
    ],
)
def test_the_answer_is_a_sentence_and_an_exit_code(marks, find_fix, sentence, code) -> None:
    ends = {"good": "2.4.0", "bad": "2.0.0"} if find_fix else {}
    report = report_of(judged(replace(STATE, find_fix=find_fix, **ends), marks))
    assert sentence in report.sentence
    assert (report.exit_code, as_json(report)["exit"]) == (code, code)
    assert report.sentence in as_markdown(report)


def test_markdown_has_both_sides_the_log_and_the_command() -> None:
    text = as_markdown(report_of(judged(STATE, "ggbbb")))
    assert "| first bad | [2.2.0](https://x.org/2.whl) |  | 2.2.0 |" in text
    assert "| `2.1.0` | good | a \\| &lt;b> |" in text
    assert text.rstrip().endswith("```\nrepro-kit bisect …\n```")


def test_a_mark_by_hand_that_contradicts_is_told() -> None:
    state = judged(STATE, "gbbgb")
    assert any("2.3.0 was judged like the older builds" in note for note in report_of(state).notes)


def test_only_an_answer_goes_into_the_bundle(tmp_path: Path) -> None:
    case = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), str(tmp_path), "python"), "2026-01-01")
    assert bisected(case) == ""
    signature = Signature(Kind.ACCURACY)
    case.update(signature=signature)
    state = replace(STATE, signature=signature)
    for marks, there in (("....g", False), ("g....", False), ("ggbbb", True)):
        write_state(case.path / "bisect", judged(state, marks))
        (case.path / "bisect" / "answer.md").write_text("the answer\n")
        assert bool(bisected(case)) == there
    assert commits_in(f"see {'0a' * 20} and 123") == ["0a" * 20]


def test_the_confidence_falls_with_every_build_that_may_pass_by_chance() -> None:
    always = judged(STATE, "ggbbb")
    assert as_json(report_of(always))["confidence"] == 1.0

    def rare(runs: int) -> float:
        state = STATE
        for build, mark in zip(BUILDS, (Mark.GOOD, Mark.GOOD, Mark.BAD, Mark.BAD, Mark.BAD), strict=True):
            counts = (runs, 0) if mark is Mark.GOOD else (4, 2)
            state = state.with_judgement(Judgement(build.name, mark, "", runs=counts[0], failures=counts[1]))
        report = report_of(state)
        assert any(f"With {report.confidence:.0%} confidence" in note for note in report.notes)
        return float(report.confidence)

    assert 0 < rare(1) < rare(3) < rare(8) < 1
    assert rare(8) > 0.97


def test_several_changes_are_named_with_their_confidence() -> None:
    state = replace(STATE, judgements=())
    runs = {"b": (Mark.BAD, 10, 5), "g": (Mark.GOOD, 8, 0)}
    for build, letter in zip(BUILDS, "bggbb", strict=True):
        mark, count, failures = runs[letter]
        state = state.with_judgement(Judgement(build.name, mark, "seen", runs=count, failures=failures))
    report = report_of(state)
    assert report.exit_code is Exit.OK
    assert report.sentence.startswith("torch 2.3.0 is the first build that fails; torch 2.2.0 is the last one")
    data = as_json(report)
    assert [(turn["before"], turn["after"], turn["fixed"]) for turn in data["changes"]] == [
        ("2.0.0", "2.1.0", True),
        ("2.2.0", "2.3.0", False),
    ]
    single = data["changes"][0]["confidence"]
    assert 0.9 < single < 1
    assert data["confidence"] == pytest.approx(single**2, abs=1e-3)
    assert "fails on 2.0.0, passes on 2.1.0, then passes on 2.2.0, fails on 2.3.0." in " ".join(report.notes)
    assert f"(by chance: {100 * (1 - single):.1f} %)" in as_markdown(report)
