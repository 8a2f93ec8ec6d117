"""A folder of cases on one build after the other."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from wheelhouse import BAD, GOOD, OTHER, make_wheel

from repro_kit.bisect.news import CaseRun, Event, Known, Memory, State, compare, grouped, remembered
from repro_kit.cli.main import main
from repro_kit.model.failure import Kind
from repro_kit.model.signature import Signature

FAILURE = Signature(Kind.RUNTIME_ERROR, ("RuntimeError",), "the planted failure")
ANOTHER = Signature(Kind.RUNTIME_ERROR, ("KeyError",), "something else")

REPRO = """import sys
try:
    import frob
except ImportError as error:
    print(f"CANNOT RUN: {error!r}")
    sys.exit(125)
frob.answer()
print("PASS")
"""


@pytest.mark.parametrize(
    ("before", "now", "event"),
    [
        (None, (State.FAILS, FAILURE), Event.FIRST),
        ((State.PASSES, None), (State.FAILS, FAILURE), Event.NEWLY_FAILS),
        ((State.PASSES, None), (State.OTHER, ANOTHER), Event.NEWLY_FAILS),
        ((State.FAILS, FAILURE), (State.PASSES, None), Event.FIXED),
        ((State.FAILS, FAILURE), (State.OTHER, ANOTHER), Event.CHANGED),
        ((State.OTHER, ANOTHER), (State.OTHER, ANOTHER), Event.STILL_FAILS),
        ((State.PASSES, None), (State.PASSES, None), Event.STILL_PASSES),
        ((State.FAILS, FAILURE), (State.UNKNOWN, None), Event.UNKNOWN),
    ],
)
def test_what_has_become_of_a_case(before, now, event) -> None:
    memory = Memory(cases={"a": Known("1", *before)} if before else {})
    assert [it.event for it in compare(memory, [CaseRun("a", *now)])] == [event]


def test_one_regression_is_one_report() -> None:
    memory = Memory(cases={name: Known("1", State.PASSES) for name in "abcd"})
    runs = [CaseRun(name, State.FAILS, FAILURE) for name in "ab"]
    runs += [CaseRun("c", State.FAILS, ANOTHER), CaseRun("d", State.PASSES), CaseRun("e", State.PASSES)]
    groups = grouped(compare(memory, runs))
    assert [(group.event, group.names) for group in groups] == [
        (Event.NEWLY_FAILS, ["a", "b"]),
        (Event.NEWLY_FAILS, ["c"]),
        (Event.FIRST, ["e"]),
        (Event.STILL_PASSES, ["d"]),
    ]


def test_a_build_that_cannot_run_a_case_is_passed_over() -> None:
    memory = Memory(cases={"a": Known("1", State.PASSES), "gone": Known("1", State.PASSES)})
    memory = remembered(memory, [CaseRun("a", State.UNKNOWN)], "2")
    assert dict(memory.cases) == {"a": Known("1", State.PASSES)}
    assert memory.build == "2"


@pytest.mark.slow
def test_a_week_of_builds(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        (project / "cases" / name).mkdir(parents=True)
        (project / "cases" / name / "repro.py").write_text(REPRO)

    def night(*versions: str, code: str) -> tuple[int, dict]:
        for version in versions:
            make_wheel(project / "dist", version, code)
        words = ["nightly", "cases", "--yes", "--wheels", "dist", "--package", "frob", "--python", sys.executable]
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        return int(ended.value.code or 0), json.JSONDecoder().raw_decode(capsys.readouterr().out)[0]

    code, told = night("1.0.dev20260101", code=GOOD)
    assert (code, [it["event"] for it in told["groups"]]) == (0, ["seen for the first time"])
    make_wheel(project / "dist", "1.0.dev20260102", GOOD)
    code, told = night("1.0.dev20260103", "1.0.dev20260104", code=BAD)
    assert (code, [(it["event"], it["cases"]) for it in told["groups"]]) == (1, [("newly fails", ["one", "two"])])
    assert "1.0.dev20260103 is the first build that fails" in told["groups"][0]["bisected"]
    assert "**newly fails**" in (project / "cases" / ".nightly" / "nightly.md").read_text()
    assert "newly fails" in (project / "cases" / ".nightly" / "nightly.html").read_text()
    code, told = night("1.0.dev20260105", "1.0.dev20260106", code=OTHER)
    assert (code, [it["event"] for it in told["groups"]]) == (1, ["changed its signature"])
    assert "1.0.dev20260105 is the first build that fails" in told["groups"][0]["bisected"]
    code, told = night("1.0.dev20260107", code=OTHER)
    assert (code, [it["event"] for it in told["groups"]]) == (0, ["still fails"])
    code, told = night("1.0.dev20260108", code=GOOD)
    assert (code, [it["event"] for it in told["groups"]]) == (0, ["newly fixed"])
    assert "1.0.dev20260108 is the first build that no longer fails" in told["groups"][0]["bisected"]


def test_a_folder_without_cases(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "empty").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["nightly", "empty"])
    assert (ended.value.code, "holds no case" in capsys.readouterr().err) == (2, True)
