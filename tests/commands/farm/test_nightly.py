"""A folder of cases on one build after the other."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repro_kit.builds.catalog import BuildSelection
from repro_kit.builds.several import BuildChoice
from repro_kit.cli.main import main
from repro_kit.commands.farm import nightly
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.regressions.news import NewsEvent, compare, grouped, remembered, settled
from repro_kit.regressions.unit import UnitOrder, UnitResult, UnitRules
from repro_kit.repro_run.run_unit import run_unit
from wheelhouse import BAD, GOOD, OTHER, make_wheel

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


def seen(state: RunOutcome, failure: Signature | None = None, build: str = "1") -> UnitResult:
    return UnitResult(build, state, failure=failure)


@pytest.mark.parametrize(
    ("before", "now", "event"),
    [
        (None, (RunOutcome.FAILS_ALIKE, FAILURE), NewsEvent.FIRST),
        ((RunOutcome.PASSES, None), (RunOutcome.FAILS_ALIKE, FAILURE), NewsEvent.NEWLY_FAILS),
        ((RunOutcome.PASSES, None), (RunOutcome.FAILS_OTHERWISE, ANOTHER), NewsEvent.NEWLY_FAILS),
        ((RunOutcome.FAILS_ALIKE, FAILURE), (RunOutcome.PASSES, None), NewsEvent.FIXED),
        ((RunOutcome.FAILS_ALIKE, FAILURE), (RunOutcome.FAILS_OTHERWISE, ANOTHER), NewsEvent.CHANGED),
        ((RunOutcome.FAILS_OTHERWISE, ANOTHER), (RunOutcome.FAILS_OTHERWISE, ANOTHER), NewsEvent.STILL_FAILS),
        ((RunOutcome.PASSES, None), (RunOutcome.PASSES, None), NewsEvent.STILL_PASSES),
        ((RunOutcome.FAILS_ALIKE, FAILURE), (RunOutcome.CANNOT_TELL, None), NewsEvent.CANNOT_TELL),
    ],
)
def test_what_has_become_of_a_case(before, now, event) -> None:
    last = {"a": seen(*before)} if before else {}
    assert [it.event for it in compare(last, {"a": seen(*now)})] == [event]


def test_one_regression_is_one_report() -> None:
    last = dict.fromkeys("abcd", seen(RunOutcome.PASSES))
    results = dict.fromkeys("ab", seen(RunOutcome.FAILS_ALIKE, FAILURE))
    results["c"] = seen(RunOutcome.FAILS_ALIKE, ANOTHER)
    results |= dict.fromkeys("de", seen(RunOutcome.PASSES))
    groups = grouped(compare(last, results))
    assert [(group.event, group.names) for group in groups] == [
        (NewsEvent.NEWLY_FAILS, ["a", "b"]),
        (NewsEvent.NEWLY_FAILS, ["c"]),
        (NewsEvent.FIRST, ["e"]),
        (NewsEvent.STILL_PASSES, ["d"]),
    ]


def test_a_build_that_cannot_run_a_case_is_passed_over() -> None:
    last = dict.fromkeys(("a", "gone"), seen(RunOutcome.PASSES))
    assert remembered(last, {"a": seen(RunOutcome.CANNOT_TELL, build="2")}) == {"a": seen(RunOutcome.PASSES)}


def test_the_farm_remembers_the_last_night_alone(tmp_path: Path) -> None:
    with FarmPlace(tmp_path / "farm").writing(create=True) as store:
        assert store.last_night() == (None, {})
        for build in ("1", "2"):
            kept = {"a": seen(RunOutcome.FAILS_ALIKE, FAILURE, build), "b": seen(RunOutcome.PASSES, build=build)}
            with store.writing():
                store.end_night(build, kept)
            assert store.last_night() == (build, kept)


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
    assert "1.0.dev20260105 is the first build that fails like this" in told["groups"][0]["bisected"]
    assert "is the last one that fails differently" in told["groups"][0]["bisected"]
    code, told = night("1.0.dev20260107", code=OTHER)
    assert (code, [it["event"] for it in told["groups"]]) == (0, ["still fails"])
    code, told = night("1.0.dev20260108", code=GOOD)
    assert (code, [it["event"] for it in told["groups"]]) == (0, ["newly fixed"])
    assert "1.0.dev20260108 is the first build that no longer fails" in told["groups"][0]["bisected"]
    with pytest.raises(SystemExit):
        main(["farm", "status", "one", "--farm", "cases/.nightly", "--json"])
    (case,) = json.JSONDecoder().raw_decode(capsys.readouterr().out)[0]["cases"]
    assert (case["state"], case["tables"][0]["line"]) == ("closed", "frob wheels in dist")
    judged = [build["build"] for build in case["tables"][0]["builds"]]
    assert {f"1.0.dev2026010{day}" for day in range(1, 9)} >= set(judged) > {"1.0.dev20260103", "1.0.dev20260108"}


@pytest.fixture
def night(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[], tuple[int, dict]]:
    """A night on the interpreter of the tests: the build is the version of a package that it has."""

    def run() -> tuple[int, dict]:
        with pytest.raises(SystemExit) as ended:
            main([*NIGHT, "--json"])
        return int(ended.value.code or 0), json.JSONDecoder().raw_decode(capsys.readouterr().out)[0]

    return run


NIGHT = ("nightly", "cases", "--yes", "--build", sys.executable, "--package", "click", "--no-bisect")


def test_the_state_that_an_earlier_night_left_is_read(night: Callable[[], tuple[int, dict]], project: Path) -> None:
    (project / "cases" / "one").mkdir(parents=True)
    (project / "cases" / "one" / "repro.py").write_text("raise ValueError('boom')")
    (project / "cases" / ".nightly").mkdir()
    state = {"build": "1.0", "cases": {"one": {"build": "1.0", "state": "pass"}}}
    (project / "cases" / ".nightly" / "state.json").write_text(json.dumps(state))
    code, result = night()
    assert (code, result["before"], result["groups"][0]["event"]) == (1, "1.0", "newly fails")
    code, result = night()
    assert (code, result["groups"][0]["event"], result["news"]) == (0, "still fails", "no new build")
    (project / "cases" / "one" / "repro.py").write_text("import sys\nprint('CANNOT RUN: no disk')\nsys.exit(125)\n")
    code, result = night()
    assert (code, result["news"]) == (125, "no verdicts")


def test_a_killed_night_goes_on(night: Callable[[], tuple[int, dict]], project: Path) -> None:
    log = project / "log"
    for name, seconds in (("a", 0), ("b", 60)):
        (project / "cases" / name).mkdir(parents=True)
        text = f"import time\nopen({str(log)!r}, 'a').write('{name} ')\ntime.sleep({seconds})\n"
        (project / "cases" / name / "repro.py").write_text(text)
    words = [sys.executable, "-m", "repro_kit", *NIGHT]
    started = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while "b" not in (log.read_text() if log.exists() else "") and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    for path in (project / "cases" / ".nightly" / "cases").glob("*/*/repro.py"):
        path.write_text(path.read_text().replace("time.sleep(60)", "time.sleep(0)"))
    code, result = night()
    assert (code, result["groups"][0]["cases"], log.read_text().split()) == (0, ["a", "b"], ["a", "b", "b"])


def test_what_comes_and_goes_is_no_news() -> None:
    before = seen(RunOutcome.FAILS_ALIKE, FAILURE)

    def settle(*states: RunOutcome) -> tuple[RunOutcome, str] | None:
        signatures = {RunOutcome.FAILS_ALIKE: FAILURE}
        result = settled(before, [seen(state, signatures.get(state)) for state in states])
        return result and (result.outcome, result.seen)

    passes, fails, unknown = RunOutcome.PASSES, RunOutcome.FAILS_ALIKE, RunOutcome.CANNOT_TELL
    assert settle() is None
    assert settle(fails) == (fails, "")
    assert settle(passes, unknown) is None
    assert settle(passes, fails) == (fails, "comes and goes: in another run it passes")
    assert settle(passes, unknown, passes) == (passes, "")


HANG = Signature(Kind.TIMEOUT)


@pytest.mark.parametrize(
    ("expected", "before", "state", "event"),
    [
        (HANG, None, RunOutcome.FAILS_ALIKE, NewsEvent.FIRST),
        (HANG, seen(RunOutcome.PASSES), RunOutcome.FAILS_ALIKE, NewsEvent.NEWLY_FAILS),
        (FAILURE, None, RunOutcome.CANNOT_TELL, NewsEvent.CANNOT_TELL),  # it may only be slow
        (FAILURE, seen(RunOutcome.PASSES), RunOutcome.FAILS_OTHERWISE, NewsEvent.NEWLY_FAILS),
        (FAILURE, seen(RunOutcome.FAILS_ALIKE, FAILURE), RunOutcome.FAILS_OTHERWISE, NewsEvent.CHANGED),
        (FAILURE, seen(RunOutcome.FAILS_OTHERWISE, HANG), RunOutcome.FAILS_OTHERWISE, NewsEvent.STILL_FAILS),
        (None, None, RunOutcome.CANNOT_TELL, NewsEvent.CANNOT_TELL),
        (None, seen(RunOutcome.PASSES), RunOutcome.FAILS_ALIKE, NewsEvent.NEWLY_FAILS),
    ],
)
def test_a_time_out_is_a_hang_where_it_ended_before(expected, before, state, event, project: Path) -> None:
    (project / "repro.py").write_text("import time\ntime.sleep(60)\n")
    rules = UnitRules(expected, hangs=before is not None)
    unit = run_unit(UnitOrder("a", "releases", "2", 0, str(project), sys.executable, timeout=0.5, rules=rules))
    last = {"a": before} if before else {}
    (news,) = compare(last, {"a": seen(unit.outcome, unit.failure or expected)})
    assert (unit.outcome, news.event) == (state, event)


@pytest.mark.parametrize(
    ("before", "now", "option"),
    [
        ((RunOutcome.PASSES, None), (RunOutcome.FAILS_ALIKE, FAILURE), ""),
        ((RunOutcome.PASSES, None), (RunOutcome.FAILS_OTHERWISE, ANOTHER), "--any-failure"),
        ((RunOutcome.FAILS_OTHERWISE, ANOTHER), (RunOutcome.PASSES, None), "--any-failure --find-fix"),
    ],
)
def test_the_command_to_repeat_asks_what_was_asked(before, now, option) -> None:
    choice = BuildChoice(selection=BuildSelection(index="https://me:secret@example.org/simple"))
    watch = nightly.NightlyRequest(Path("cases"), Path(), choice)
    news = compare({"a": seen(*before)}, {"a": seen(*now)})[0]
    words = ["repro-kit bisect cases/a --package torch --index-url https://example.org/simple", option]
    assert nightly.bisect_command(watch, news, good="1", bad="2") == " ".join(
        [*filter(None, words), "--good 1 --bad 2"]
    )


def test_no_network_is_no_alarm(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repro_kit.builds.web.FIRST_PAUSE", 0.0)
    (project / "cases" / "one").mkdir(parents=True)
    (project / "cases" / "one" / "repro.py").write_text(REPRO)
    (project / "cases" / "damaged.zip").write_bytes(b"this is not a bundle")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    words = ["cases", "--yes", "--index-url", f"http://127.0.0.1:{port}/simple", "--python", sys.executable]
    (project / "tell").write_text("#!/bin/sh\ncat >said\n")
    (project / "tell").chmod(0o755)
    with pytest.raises(SystemExit) as ended:
        main(["nightly", *words, "--notify", "./tell"])
    assert json.loads(Path("said").read_text())["news"] == "no verdicts"
    told = " ".join(capsys.readouterr().err.split())
    assert (ended.value.code, "check the network" in told, "damaged.zip is left out" in told) == (125, True, True)


def test_every_form_of_a_bundle_is_a_subject(tmp_path: Path) -> None:
    for name in ("a.zip", "b.tar.gz", "c.tgz", "notes.txt"):
        (tmp_path / name).touch()
    assert list(nightly.subjects_in(tmp_path)) == ["a.zip", "b.tar.gz", "c.tgz"]


def test_a_folder_without_cases(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "empty").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["nightly", "empty"])
    assert (ended.value.code, "holds no case" in capsys.readouterr().err) == (2, True)
