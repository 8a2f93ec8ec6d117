"""A farm from the command line, on the interpreter that runs the tests: its "builds" are those of a package it has."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import html5lib
import orjson
import pytest
from click.testing import CliRunner, Result

from repro_kit.bundle.archive.archive import CHECKSUMS, checksums, pack
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.cli.main import cli
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.status import judge_all
from repro_kit.commands.farm.told import notify_by
from repro_kit.regressions.build import Build
from repro_kit.regressions.release import twin_line
from repro_kit.regressions.store import HISTORY
from repro_kit.regressions.unit import UnitResult
from repro_kit.ui import Ui
from wheelhouse import BAD, GOOD, make_wheels

ON = ("--on", sys.executable, "--package", "click", "--yes")
FAILS = "raise ValueError('boom of the lowering')\n"
PASSES = "print('PASS')\n"
REPRO = "import frob\nfrob.answer()\nprint('PASS')\n"


def bundle(path: Path, repro: str, message: str = "boom of the lowering", **claim: object) -> Path:
    signature = {"kind": "runtime-error", "exceptions": ["ValueError"], "message": message}
    manifest = {"schema": 1, "torch": "2.13.0", "python": "3.11", "limit": 5.0, "signature": signature, **claim}
    files = {"repro.py": repro.encode(), MANIFEST: orjson.dumps(manifest)}
    pack(path, {**files, CHECKSUMS: checksums(files)})
    return path


def script(name: str, text: str) -> str:
    Path(name).mkdir()
    Path(name, "repro.py").write_text(text)
    return name


def program(name: str, text: str) -> str:
    """A command of the user's own."""
    Path(name).write_text(f"#!/bin/sh\n{text}\n")
    Path(name).chmod(0o755)
    return f"./{name}"


@pytest.fixture
def farm(project: Path) -> Callable[..., Result]:
    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, ["farm", *words], prog_name="repro-kit")

    return run


def told(result: Result) -> Any:
    return json.loads(result.stdout)


def states(farm: Callable[..., Result]) -> dict[str, str]:
    cases = told(farm("status", "--json", *(f"--state={state}" for state in ("new", "open", "closed", "duplicate"))))
    return {case["name"]: case["state"] for case in cases["cases"]}


def test_cases_are_added_run_once_and_judged(farm: Callable[..., Result], project: Path) -> None:
    bundle(project / "fails.repro.zip", FAILS)
    bundle(project / "passes.repro.zip", PASSES, message="another thing went wrong")
    added = farm("add", "fails.repro.zip", "passes.repro.zip")
    assert (added.exit_code, added.output.count("added")) == (0, 2)
    assert "the same files" in farm("add", "fails.repro.zip").output
    ran = farm("run", *ON, "--workers", "2", "--json")
    assert (ran.exit_code, told(ran)["units"]) == (0, 2), ran.output
    assert states(farm) == {"fails": "open", "passes": "new"}
    assert told(farm("run", *ON, "--json"))["units"] == 0
    shown = told(farm("status", "fails", "--json"))["cases"][0]
    assert [change["after"] for change in shown["history"]] == ["open"]
    assert shown["history"][0]["command"] == shown["repeat"]
    assert CliRunner().invoke(cli, [*shlex.split(shown["repeat"])[1:], "--yes"]).exit_code == 0
    assert list((project / "farm" / "results").iterdir()) == []


def test_a_duplicate_says_of_what_and_is_not_run(farm: Callable[..., Result], project: Path) -> None:
    bundle(project / "one.repro.zip", FAILS)
    bundle(project / "two.repro.zip", FAILS + "# another script\n")
    farm("add", "one.repro.zip")
    again = farm("add", "two.repro.zip")
    assert (again.exit_code, "two: duplicate; of one (new): equal signatures: ValueError" in again.output) == (0, True)
    assert told(farm("run", *ON, "--json"))["units"] == 1
    assert states(farm) == {"one": "open", "two": "duplicate"}


def test_what_is_refused_is_one_sentence_and_stops_nothing(farm: Callable[..., Result], project: Path) -> None:
    bundle(project / "good.repro.zip", FAILS)
    Path("text.zip").write_text("hello")
    added = farm("add", "missing.zip", "text.zip", "good.repro.zip", "--json")
    assert (added.exit_code, [each["outcome"] for each in told(added)["added"]]) == (
        2,
        ["not added", "not added", "added"],
    )
    for words, sentence in (
        (("status", "--farm", "nowhere"), "nowhere is not a farm"),
        (("status", "no-such-case"), "names no case"),
        (("status", "--state", "odd"), "--state odd is none of"),
        (("run",), "give --yes"),
        (("run", "--shard", "3/2", "--yes"), "--shard takes"),
        (("run", "--on", "/no/python", "--yes"), "does not exist"),
        (("run", "--on", f"0.1@{sys.executable}", "--package", "click", "--yes"), "now, not 0.1"),
    ):
        result = farm(*words)
        assert (result.exit_code, sentence in result.output.replace("\n", " ")) == (2, True), result.output


def test_a_damaged_history_and_a_missing_case_are_named(farm: Callable[..., Result], project: Path) -> None:
    farm("add", script("a", FAILS))
    (next((project / "farm" / "cases").glob("*/*")) / "repro.py").unlink()
    assert "its files in" in farm("run", *ON).output
    (project / "farm" / HISTORY).write_bytes(b"no database at all" * 100)
    result = farm("status")
    assert (result.exit_code, "cannot be used as the history" in result.output.replace("\n", " ")) == (2, True)


@pytest.mark.parametrize("schema", [1, 9])
def test_a_history_of_another_schema_is_refused(farm: Callable[..., Result], project: Path, schema: int) -> None:
    farm("add", script("a", FAILS))
    with closing(sqlite3.connect(project / "farm" / HISTORY)) as history:
        history.execute(f"PRAGMA user_version = {schema}")
    result = farm("status")
    assert (result.exit_code, f"another repro-kit (schema {schema}, " in " ".join(result.output.split())) == (2, True)


def test_no_network_is_no_alarm(farm: Callable[..., Result], project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repro_kit.builds.web.FIRST_PAUSE", 0.0)
    farm("add", script("a", FAILS))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    words = ("--package", "frob", "--index-url", f"http://127.0.0.1:{port}/simple", "--python", sys.executable)
    result = farm("run", "--yes", *words, "--notify", program("tell", "cat >said"))
    assert (result.exit_code, "check the network" in " ".join(result.output.split())) == (125, True)
    said = json.loads(Path("said").read_text())
    assert (said["news"], said["exit"], "check the network" in said["sentence"]) == ("no verdicts", 125, True)


def test_a_history_of_the_version_before_is_opened(farm: Callable[..., Result], project: Path) -> None:
    farm("add", script("a", FAILS))
    with closing(sqlite3.connect(project / "farm" / HISTORY)) as history:
        history.executescript(
            "DROP TABLE nights; DROP TABLE last_seen; ALTER TABLE units DROP COLUMN metrics; PRAGMA user_version = 2"
        )
    assert states(farm) == {"a": "new"}
    with FarmPlace(project / "farm").writing(create=True) as store:
        assert store.last_night() == (None, {})


def test_a_killed_run_repeats_no_unit_that_has_ended(farm: Callable[..., Result], project: Path) -> None:
    log = project / "log"
    text = f"import time\nopen({str(log)!r}, 'a').write('%s ')\ntime.sleep(%s)\nraise ValueError('boom')\n"
    farm("add", script("a", text % ("a", 0)), script("b", text % ("b", 60)))
    words = [sys.executable, "-m", "repro_kit", "farm", "run", *ON]
    started = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while "b" not in (log.read_text() if log.exists() else "") and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    cases = (project / "farm" / "cases").glob("*/*/repro.py")
    for path in cases:
        path.write_text(path.read_text().replace("time.sleep(60)", "time.sleep(0)"))
    assert farm("run", *ON).exit_code == 0
    assert log.read_text().split() == ["a"] * 5 + ["b"] * 6  # five runs measure the rate


def test_the_table_of_verify(project: Path) -> None:
    script("a", FAILS)
    words = ["verify", "a", *ON]
    result = CliRunner().invoke(cli, [*words, "--json"])
    assert (result.exit_code, told(result)["answer"]) == (0, "SAME"), result.output
    assert told(result)["lines"][0]["builds"][0]["failed"] == 5
    shown = CliRunner().invoke(cli, [*words, "--markdown", "-q"])
    version = importlib.metadata.version("click")
    assert shown.output.startswith(f"| build | verdict | what was seen |\n|---|---|---|\n| click {version} |")
    again = CliRunner().invoke(cli, ["verify", "a", "--on", f"{version}@{sys.executable}", *ON[2:]])
    assert again.exit_code == 0
    several = CliRunner().invoke(cli, [*words, "a"])
    assert (several.exit_code, "Give one bundle" in several.output) == (2, True)


@pytest.mark.slow
def test_a_fix_is_found_closed_and_noticed_when_it_comes_back(farm: Callable[..., Result], project: Path) -> None:
    versions = [f"1.{number}" for number in range(6)]
    make_wheels(project / "dist", versions[:5], lambda number: BAD if number < 3 else GOOD)
    farm("add", script("a", REPRO))
    words = ("run", "--yes", "--wheels", "dist", "--package", "frob", "--python", sys.executable)
    ran = farm(*words, "--on", "1.0,1.4", "--json")
    changes = told(ran)["changes"]
    assert [(change["after"], change["evidence"]) for change in changes] == [
        ("closed", "frob wheels in dist: fails on 1.2, passes on 1.3")
    ]
    make_wheels(project / "dist", versions, lambda number: GOOD if number in (3, 4) else BAD)
    again = farm(*words, "--json")
    assert (again.exit_code, told(again)["changes"][0]["after"]) == (1, "reopened")
    farm("add", script("b", "import frob\nassert not hasattr(frob, 'broken')\n"))
    make_wheels(project / "dist", ["1.6"], lambda number: GOOD)
    assert farm(*words).exit_code == 0
    make_wheels(project / "dist", ["1.7"], lambda number: GOOD + "broken = True\n")
    newly = farm(*words, "--json")
    assert (newly.exit_code, [change["after"] for change in told(newly)["changes"]]) == (1, ["open"])
    assert "(began: passes on 1.6, fails on 1.7)" in told(newly)["changes"][0]["evidence"]
    result = CliRunner().invoke(
        cli,
        ["verify", "a", "--yes", "--wheels", "dist", "--package", "frob", "--releases", "1.2:1.3", "--json",
         "--python", sys.executable],
    )  # fmt: skip
    assert (result.exit_code, told(result)["lines"][0]["sentence"]) == (3, "It fails on 1.2, passes on 1.3.")


def test_shards_are_run_apart_and_merged(farm: Callable[..., Result], project: Path) -> None:
    names = [script(f"case{number}", f"raise ValueError('failure of number {number}')\n") for number in range(4)]
    for place in ("one", "two"):
        farm("add", *names, "--farm", place)
    ran = [
        told(farm("run", *ON, "--farm", place, "--shard", f"{number}/2", "--json"))
        for number, place in enumerate(("one", "two"), 1)
    ]
    assert sum(each["units"] for each in ran) == 4
    merged = farm("merge", "one", "two", "--json")
    assert (merged.exit_code, told(merged)["units"]) == (0, 4), merged.output
    assert states(farm) == dict.fromkeys(names, "open")
    assert told(farm("merge", "one", "--json"))["units"] == 0
    assert told(farm("run", *ON, "--json"))["units"] == 0
    assert farm("untrack", "click interpreters").exit_code == 0
    assert states(farm) == dict.fromkeys(names, "new")
    assert "is none of the tracked lines" in farm("untrack", "nightly cpu").output
    results = [told(farm("merge", "farm", "--farm", "three", "--json"))["units"] for _ in range(2)]
    assert results == [4, 0]  # those of a line that is not tracked, too


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "https://a b",
        "https://x/'onclick='",
        "",
        "http://u:p@h/",
        "https://a/\u202eb",
    ],
)
def test_a_strangers_link_is_merged_only_if_it_is_one(farm: Callable[..., Result], project: Path, link: str) -> None:
    bundle(project / "one.repro.zip", FAILS)
    farm("add", "one.repro.zip", "--farm", "theirs")
    write(project / "theirs", "UPDATE cases SET issue = ?", link)
    assert farm("merge", "theirs").exit_code == 0
    assert farm("report", "-o", "site").exit_code == 0
    page = next((project / "site" / "cases").iterdir()).read_text()
    assert ">issue<" not in page and (not link or link not in page)
    write(project / "theirs", "UPDATE cases SET issue = ?", "https://github.com/pytorch/pytorch/issues/1")
    assert farm("merge", "theirs").exit_code == 0 and farm("report", "-o", "site").exit_code == 0
    assert (
        'href="https://github.com/pytorch/pytorch/issues/1"' in next((project / "site" / "cases").iterdir()).read_text()
    )


def test_a_strangers_farm_names_no_path_and_brings_no_link(farm: Callable[..., Result], project: Path) -> None:
    bundle(project / "one.repro.zip", FAILS)
    (project / "secret").write_text("a secret of mine")
    farm("add", "one.repro.zip", "--farm", "theirs")
    entry = next((project / "theirs" / "cases").glob("*/*"))
    (entry / "linked.txt").symlink_to(project / "secret")
    os.mkfifo(entry / "pipe")
    assert farm("merge", "theirs").exit_code == 0
    assert not list((project / "farm").rglob("linked.txt")) and not list((project / "farm").rglob("pipe"))
    write(project / "theirs", "UPDATE cases SET id = ?", "../../../secret")
    damaged = farm("merge", "theirs", "--farm", "another")
    assert damaged.exit_code == 2 and "is not the id of a case" in damaged.output
    write(project / "theirs", "UPDATE cases SET id = ?", "ab" * 32)
    (project / "theirs" / "cases" / "ab").symlink_to(project)
    (project / ("ab" * 32)).mkdir()
    assert "leads out of the farm" in farm("merge", "theirs", "--farm", "another").output


def write(farm: Path, change: str, value: str) -> None:
    """Change the history of a farm by hand."""
    with sqlite3.connect(farm / "history.sqlite") as history:
        history.execute(change, (value,))
    history.close()


def read(path: Path) -> str:
    """What a reader of the site gets to see of a file."""
    return "" if path.suffix == ".zip" else path.read_text()


def test_the_site_links_and_escapes_and_loads_nothing(farm: Callable[..., Result], project: Path) -> None:
    bundle(project / "one.repro.zip", FAILS)
    bundle(project / "<b>two.repro.zip", FAILS + "# another\n", message="boom of the lowering")
    farm("add", "one.repro.zip", "<b>two.repro.zip")
    farm("run", *ON)
    assert farm("report", "-o", "site").exit_code == 0
    site = project / "site"
    pages = [site / "index.html", *(site / "cases").iterdir()]
    assert len(pages) == 3
    for page in pages:
        html = html5lib.parse(page.read_text(), treebuilder="dom")
        for link in html.getElementsByTagName("a"):
            assert (page.parent / link.getAttribute("href")).is_file()
        assert not re.search(r"(src|href)=.?https?:", page.read_text())
    index = pages[0].read_text()
    assert "&lt;b&gt;two" in index and "<b>two" not in index
    assert index.count('<path class="fails"') == 2 and "duplicate of" in index  # one of them in the key
    assert not [path for path in site.rglob("*.*") if str(project) in (text := read(path)) or sys.executable in text]
    page = next(path.read_text() for path in pages[1:] if ">open<" in path.read_text())
    assert page.index("boom of the lowering&#39;)") < page.index("<table>")  # its code comes first
    assert {path.name for path in site.glob("files/*/*")} == {"repro.py", "bundle.repro.zip"}
    written = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    assert farm("report", "-o", "site").exit_code == 0
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == written
    feed = ElementTree.fromstring((site / "feed.atom").read_text())
    assert len(feed.findall("{http://www.w3.org/2005/Atom}entry")) == 2
    data = json.loads((site / "farm.json").read_text())
    assert [len(case["units"]) for case in data["cases"]] == [1, 0]
    assert json.loads(farm("export").stdout) == data
    Path("full").mkdir()
    Path("full", "mine.txt").write_text("precious")
    assert (farm("report", "-o", "full").exit_code, list(Path("full").iterdir())) == (2, [Path("full", "mine.txt")])


def test_a_bundle_that_lacks_what_it_needs_says_so(farm: Callable[..., Result], project: Path) -> None:
    lacks = bundle(project / "a.repro.zip", FAILS, needs=["the source files train.py and 1 more"])
    added = farm("add", str(lacks)).output
    assert "only with the source files train.py and 1 more, which it lacks: its README.md says" in added
    assert "lacks" not in farm("add", str(bundle(project / "b.repro.zip", PASSES))).output


LINE, OLD = "click interpreters", "0.1@/old/bin/python"


def passed_before(project: Path, *, twin: bool = False) -> None:
    """Every case of the farm has passed on an older build; so has its twin."""
    lines = [LINE, twin_line(LINE)] if twin else [LINE]
    place = FarmPlace(project / "farm")
    with place.writing() as store:
        with store.writing():
            for line in lines:
                results = [
                    UnitResult(OLD, passed=3, case=case.id, line=line, at="2026-01-01") for case in store.cases()
                ]
                store.list_builds(line, "--package click", [Build(OLD, "0.1")], tracked=line == LINE)
                store.record(results)
        judge_all(place, store)


def test_what_cannot_run_all_at_once_is_no_verdict_and_is_run_again(farm: Callable[..., Result], project: Path) -> None:
    cannot = "import sys\nprint('CANNOT RUN: no space left')\nsys.exit(125)\n"
    farm("add", *(script(f"case{number}", f"{cannot}# {number}\n") for number in range(4)))
    passed_before(project)
    told_by = ("--notify", f'{sys.executable} -c \'import sys; open("told", "w").write(sys.stdin.read())\'')
    down = farm("run", *ON, *told_by, "--json")
    assert (down.exit_code, told(down)["news"], told(down)["changes"]) == (125, "no verdicts", []), down.output
    assert told(down)["outages"][0]["cases"] == 4 and json.loads(Path("told").read_text())["exit"] == 125
    Path("told").unlink()
    for path in (project / "farm" / "cases").glob("*/*/repro.py"):
        path.write_text(PASSES)
    again = farm("run", *ON, *told_by, "--json")
    assert (again.exit_code, told(again)["units"], told(again)["outages"]) == (0, 4, []), again.output
    quiet = farm("run", *ON, *told_by)
    assert (quiet.exit_code, "There is no new build" in quiet.output, Path("told").exists()) == (0, True, False)


def test_what_fails_on_the_stable_build_too_is_not_torchs(farm: Callable[..., Result], project: Path) -> None:
    farm("add", script("a", FAILS))
    passed_before(project, twin=True)
    ran = farm("run", *ON, "--twin", sys.executable, "--json")
    (change,) = told(ran)["changes"]
    assert (ran.exit_code, change["newly_fails"], change["whose"]) == (1, True, "the app or its packages"), ran.output
    assert "| stable build |" in farm("status", "a").output
    assert farm("report").exit_code == 0
    page = next((project / "farm" / "report" / "cases").iterdir()).read_text()
    assert "<td>✗ fails</td><td>✗ fails</td>" in page and "/old/" not in page


def test_a_failing_command_that_tells_somebody_changes_no_exit_code(farm: Callable[..., Result], project: Path) -> None:
    farm("add", script("a", FAILS))
    for refused, sentence in (("'", "--notify takes a command"), ("no-such", "--notify: there is no program no-such;")):
        ran = farm("run", *ON, "--notify", refused)
        assert (ran.exit_code, sentence in ran.output) == (2, True), ran.output
    tell = program("tell", "echo no network >&2; exit 3")
    ran = farm("run", *ON, "--notify", tell)
    assert (ran.exit_code, "Perhaps nobody was told: ./tell failed (no network)." in ran.output) == (0, True), (
        ran.output
    )


def test_a_command_that_tells_somebody_ends_in_time(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repro_kit.commands.farm.told.NOTIFY_SECONDS", 0.2)
    told_by, said = program("tell", "sleep 600 & sleep 600"), StringIO()
    notify_by(told_by, {"news": "regression", "changes": ["x" * (1 << 20)]}, Ui(out=StringIO(), err=said))
    assert "./tell took longer than 0.2 s, and was ended." in said.getvalue()


JUNIT = """<testsuites><testsuite timestamp="2026-11-0{day}T01:00:00+00:00">{tests}</testsuite></testsuites>"""
TESTS = {
    "passes": '<testcase classname="m" name="passes" time="1"/>',
    "fails": '<testcase classname="m" name="t" time="1"><failure message="assert 1 == 2">trace</failure></testcase>',
    "well": '<testcase classname="m" name="t" time="1"/>',
    "known": '<testcase classname="m" name="x"><skipped type="pytest.xfail" message="bug"/></testcase>',
    "setup": '<testcase classname="m" name="s"><error message="failed on setup with &quot;OSError&quot;"/></testcase>',
}


def test_time_outs_all_at_once_are_no_verdict_and_an_error_in_all_is_one(
    farm: Callable[..., Result], project: Path
) -> None:
    def night(day: int, inside: str) -> Result:
        tests = "".join(f'<testcase classname="m" name="t{number}">{inside}</testcase>' for number in range(4))
        Path("n.xml").write_text(JUNIT.format(day=day, tests=tests))
        return farm("import", "n.xml", "--build", f"2.16.0.dev2026110{day}", "--json")

    assert [night(day, "").exit_code for day in (1, 2, 3)] == [0, 0, 0]
    down = night(4, '<failure message="Failed: Timeout &gt;60.0s"/>')
    assert (down.exit_code, told(down)["news"], told(down)["changes"]) == (125, "no verdicts", []), down.output
    broken = night(5, '<failure message="TypeError: not a size"/>')
    assert (broken.exit_code, len(told(broken)["changes"])) == (1, 4), broken.output


def test_results_of_tests_are_imported_once(farm: Callable[..., Result], project: Path) -> None:
    def night(day: int, *names: str, twin: str = "well") -> Result:
        Path("n.xml").write_text(JUNIT.format(day=day, tests="".join(TESTS[name] for name in names)))
        Path("s.xml").write_text(JUNIT.format(day=day, tests=TESTS[twin]))
        words = ("--build", f"2.16.0.dev2026110{day}", "--twin", "s.xml", "--stable", "2.15.0", "--json")
        return farm("import", "n.xml", *words)

    for day in (1, 2, 3):
        assert night(day, "passes", "well", "known", "setup").exit_code == 0
    broken = night(4, "passes", "fails", "known", "setup")
    assert (broken.exit_code, told(broken)["changes"][0]["whose"]) == (1, "torch"), broken.output
    assert told(night(4, "passes", "fails", "known", "setup"))["news"] == "no new build"
    states = {case["name"]: case["state"] for case in told(farm("status", "--json"))["cases"]}
    assert states == {"m::t": "open", "m::x": "open", "m::passes": "new", "m::s": "stale"}
    assert "has no case to run" in farm("run", *ON).output
    assert "has no script here" in farm("file", "m::t").output
    merged = farm("merge", "farm", "--farm", "other", "--json")
    assert (merged.exit_code, told(merged)["units"], told(farm("status", "--farm", "other", "--json"))["counts"]) == (
        0,
        20,
        told(farm("status", "--json"))["counts"],
    ), merged.output
    for text, sentence in (("<html/>", "begins with <html>"), ("no", "not JUnit"), ("<!DOCTYPE a><a/>", "entities")):
        Path("bad.xml").write_text(text)
        result = farm("import", "bad.xml", "--build", "1")
        assert (result.exit_code, sentence in result.output.replace("\n", " ")) == (2, True), result.output
    assert "Give --build" in farm("import", "n.xml").output
