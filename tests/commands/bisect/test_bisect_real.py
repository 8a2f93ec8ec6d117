"""Real wheels, real environments: small packages with a planted regression."""

from __future__ import annotations

import functools
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from repro_kit.regressions.search_state import BisectState, read_state
from wheelhouse import BAD, GOOD, OTHER, commit_of, html_index, json_page, make_wheel, make_wheels

VERSIONS = [f"1.{number}" for number in range(12)]


def broken_from(turn: int, **others: str):
    """Modules of which those from number `turn` on fail; `others` by number: ``_5=OTHER``."""
    return lambda number: others.get(f"_{number}", BAD if number >= turn else GOOD)


def first_json(text: str):
    return json.JSONDecoder().raw_decode(text)[0]


def state_in(place: Path) -> BisectState:
    state = read_state(place)
    assert state is not None
    return state


@pytest.mark.slow
def test_the_first_bad_wheel_of_a_directory(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS, broken_from(8, _6=OTHER, _5=""))
    code, _ = bisect("use.py", "--wheels", "dist", "--good", "1.0", "--bad", "1.11", "--json", "-q")
    assert code == 0
    state = state_in(project / "use.bisect")
    assert state.current["1.8"].mark == "bad"
    assert state.current["1.8"].commit == commit_of("1.8")
    assert state.current["1.7"].mark == "good"
    answer = (project / "use.bisect" / "answer.md").read_text()
    assert answer.startswith("frob 1.8 is the first build that fails; frob 1.7 is the last one that still passes.")
    assert not list((project / "use.bisect" / "envs").iterdir()), "environments are removed"


@pytest.mark.slow
def test_what_cannot_be_judged_is_told_as_a_range(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS[:6], broken_from(4, _3=OTHER, _2=""))
    code, out = bisect("use.py", "--wheels", "dist", "--good", "1.0", "--json")
    told = first_json(out)
    assert (code, told["ending"]) == (0, "range")
    assert (told["last_good"]["name"], told["first_bad"]["name"]) == ("1.1", "1.4")
    assert told["skipped"] == ["1.2", "1.3"]
    assert any("KeyError" in note for note in told["notes"])


@pytest.mark.slow
def test_the_fix_is_found_and_the_older_end_looked_for(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS, lambda number: GOOD if number >= 9 else BAD)
    code, out = bisect("use.py", "--wheels", "dist", "--find-fix", "--bad", "1.2")
    assert (code, "frob 1.9 is the first build that no longer fails; frob 1.8" in out) == (0, True)
    code, out = bisect("use.py", "--wheels", "dist", "--find-fix", "--fresh", "--mark", "1.11=good")
    assert (code, "frob 1.9 is the first build that no longer fails; frob 1.8" in out) == (0, True)


def test_ends_that_are_alike_are_told_in_a_sentence(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS[:3], lambda number: GOOD)
    code, out = bisect("use.py", "--wheels", "dist", "--good", "1.0")
    assert (code, "frob 1.2 passes, so both ends have the same result" in out) == (3, True)


def test_an_index_of_files_withdrawn_builds_and_companions(project, bisect, tmp_path) -> None:
    days = [f"2.0.dev2026010{day}" for day in (1, 2, 4, 5, 7, 8)]  # the 3rd and the 6th are missing
    files = tmp_path / "index" / "files"
    wheels = make_wheels(files, days, broken_from(3))
    companions = [make_wheel(files, day, GOOD, name="friend", requires=[f"frob=={day}"]) for day in days]
    url = html_index(tmp_path / "index", wheels, yanked=[days[1]])
    html_index(tmp_path / "index", companions, name="friend")
    (project / "use.py").write_text("import frob, friend.version\nassert frob.answer() == 42\n")
    ends = ("--good", "2026-01-01", "--bad", "2026-01-06")
    code, out = bisect("use.py", "--index-url", url, *ends, "--with", "friend>=2.0.dev0")
    assert (code, "frob 2.0.dev20260105 is the first build that fails; frob 2.0.dev20260104" in out) == (0, True)
    assert days[1] not in [build.name for build in state_in(project / "use.bisect").builds]


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and the index page as JSON; counts what was downloaded."""

    page = b""
    downloads: list[str]

    def do_GET(self) -> None:
        if not self.path.startswith("/simple/"):
            self.downloads.append(self.path.rpartition("/")[2])
            super().do_GET()
            return
        self.send_response(200 if self.path == "/simple/frob/" else 404)
        self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path):
    """A loopback server of the wheels in ``files``; (URL of the index, its handler)."""
    kind = type("Served", (Handler,), {"downloads": []})
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(kind, directory=str(tmp_path / "www"))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple", kind
        server.shutdown()


@pytest.mark.slow
def test_a_server_dates_downloads_once_and_offline_when_cached(project, bisect, served, tmp_path) -> None:
    url, handler = served
    wheels = make_wheels(tmp_path / "www" / "files", VERSIONS, broken_from(5))
    handler.page = json_page(wheels)
    code, out = bisect("use.py", "--index-url", url, "--good", "2026-01-01", "--bad", "2026-01-10")
    assert (code, "frob 1.5 (2026-01-06) is the first build that fails; frob 1.4 (2026-01-05)" in out) == (0, True)
    assert len(handler.downloads) == len(set(handler.downloads)), "nothing is downloaded twice"
    handler.page = b""
    handler.downloads.clear()
    code, _ = bisect("use.py", "--index-url", url, "--mark", "1.5=forget", "--offline")
    assert code == 0
    assert not handler.downloads
    code, out = bisect("use.py", "--index-url", url, "--fresh")
    assert (code, "Cannot list frob" in out or "is not a page" in out) == (2, True)


@pytest.mark.slow
def test_a_download_that_is_not_what_the_index_states_is_a_skip(project, bisect, served, tmp_path) -> None:
    url, handler = served
    wheels = make_wheels(tmp_path / "www" / "files", VERSIONS[:5], broken_from(3))
    handler.page = json_page(wheels)
    make_wheel(tmp_path / "www" / "files", "1.2", BAD)
    code, out = bisect("use.py", "--index-url", url, "--good", "1.0", "--json")
    assert code == 0
    state = state_in(project / "use.bisect")
    assert "checksum" in state.current["1.2"].reason
    assert first_json(out)["skipped"] == ["1.2"]


@pytest.mark.slow
def test_killed_it_goes_on_where_it_was(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS, broken_from(8))
    words = [sys.executable, "-m", "repro_kit", "bisect", "use.py", "--package", "frob", "--wheels", "dist"]
    words += ["--python", sys.executable, "--good", "1.0"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            state = read_state(project / "use.bisect")
            if state and len(state.judgements) >= 2:
                break
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    before = state_in(project / "use.bisect").judgements
    assert 2 <= len(before) < 6
    code, out = bisect("use.py", "--wheels", "dist")
    after = state_in(project / "use.bisect").judgements
    assert (code, after[: len(before)], "frob 1.8 is the first" in out) == (0, before, True), out
    assert not list((project / "use.bisect" / "envs").iterdir())


def test_the_log_and_a_mark_by_hand(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS[:6], broken_from(3))
    assert bisect("use.py", "--wheels", "dist", "--good", "1.0")[0] == 0
    code, out = bisect("use.py", "--log")
    assert code == 0
    assert "to verify the newer end" in out and "in the middle of" in out
    code, out = bisect("use.py", "--wheels", "dist", "--mark", "1.3=good")
    assert (code, "frob 1.4 is the first build that fails; frob 1.3" in out) == (0, True)
    code, out = bisect("use.py", "--wheels", "dist", "--mark", "1.3=perhaps")
    assert (code, "--mark takes" in out) == (2, True)


def test_a_mark_that_is_set_again_is_one_mark(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS[:4], broken_from(2))
    assert bisect("use.py", "--wheels", "dist", "--good", "1.0")[0] == 0
    for _ in range(2):
        assert bisect("use.py", "--wheels", "dist", "--mark", "1.3=bad")[0] == 0
    assert [judgement.build for judgement in state_in(project / "use.bisect").judgements if judgement.by_hand] == [
        "1.3"
    ]


def test_a_build_that_another_took_the_place_of_is_not_judged(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS[:3], broken_from(1))
    code, out = bisect("use.py", "--wheels", "dist", "--good", "1.0", "--with", "frob==1.0")
    assert (code, "frob 1.0 was installed in place of 1.2" in " ".join(out.split())) == (2, True), out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--index-url", "nonsense"), "is not a URL of a package index"),
        (("--index-url", "http://[bad"), "is not a URL of a package index"),
        (("--wheels", "dist", "--bad", "https://[bad/frob-3.0-py3-none-any.whl"), "is not a URL"),
        (("--wheels", "dist", "--bad", "frob-3.0-py3-none-any.whl"), "is not there"),
        (("--wheels", "dist", "--constraint", "nothing.txt"), "no file nothing.txt"),
        (("--wheels", "dist", "--repo", "nothing"), "is not a clone"),
        (("--wheels", "dist", "-o", "use.py"), "use another --output"),
        (("--wheels", "dist", "--mark", "good"), "--mark takes"),
    ],
)
def test_bad_input_is_told_before_anything_is_judged(project, bisect, words, told) -> None:
    make_wheels(project / "dist", VERSIONS[:2], broken_from(1))
    code, out = bisect("use.py", *words)
    assert (code, told in " ".join(out.split())) == (2, True), out
    assert not (project / "use.bisect").exists()


def test_judgements_hold_only_for_what_was_asked(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS[:2], broken_from(1))
    make_wheel(project / "dist", "1.0", GOOD, name="glub")
    assert bisect("use.py", "--wheels", "dist", "--good", "1.0")[0] == 0
    for more in (("--with", "glub"), ("--any-failure",), ("--find-fix",)):
        code, out = bisect("use.py", "--wheels", "dist", *more)
        assert (code, "another question" in " ".join(out.split())) == (2, True), out


def test_what_would_need_the_network_is_refused_offline(project, bisect) -> None:
    code, out = bisect("use.py", "--index-url", "https://example.org/simple", "--offline")
    assert (code, "have not been listed here yet" in out) == (2, True)


def test_an_end_that_others_wait_at_is_a_version(project, bisect) -> None:
    ends = ("--package", "glub", "--bad", "1.0", "--bad", "2026-01-05")
    code, out = bisect("use.py", "--wheels", "dist", *ends)
    assert (code, "2026-01-05 is not a version" in out) == (2, True), out


@pytest.mark.slow
def test_one_package_after_the_other(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS[:3], lambda number: GOOD)
    for number, version in enumerate(VERSIONS[:5]):
        make_wheel(project / "dist", version, BAD if number >= 2 else GOOD, name="glub", requires=["frob==1.0"])
    (project / "use.py").write_text("import frob, glub\nassert frob.answer() == glub.answer()\n")
    words = ("--package", "glub", "--wheels", "dist")
    ends = ("--good", "1.0", "--bad", "1.2", "--good", "1.0", "--bad", "1.4")
    code, out = bisect("use.py", *words, *ends)
    assert (code, "frob 1.0 already fails, so both ends have the same result" in out) == (0, True), out
    assert "glub 1.2 is the first build that fails; glub 1.1 is the last one" in out


@pytest.mark.slow
def test_a_failure_that_comes_and_goes_is_judged_by_repetition(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS[:5], broken_from(3))
    (project / "use.py").write_text(
        "import frob, pathlib\n"
        "count = pathlib.Path('count')\n"
        "number = int(count.read_text()) if count.exists() else 0\n"
        "count.write_text(str(number + 1))\n"
        "if number % 2:\n    assert frob.answer() == 42\n"
    )
    code, out = bisect("use.py", "--wheels", "dist", "--good", "1.0")
    assert (code, "frob 1.3 is the first" in out, "comes and goes" in out) == (0, True, True)
    assert state_in(project / "use.bisect").current["1.2"].runs > 1


def test_a_command_may_skip_and_time_out(project, bisect) -> None:
    make_wheels(project / "dist", VERSIONS[:5], broken_from(3))
    script = "import sys, frob.version, frob; from importlib.metadata import version\n"
    script += "if version('frob') == '1.2': sys.exit(125)\nif version('frob') == '1.1': sys.exit(124)\nfrob.answer()\n"
    (project / "use.py").write_text(script)
    ends = ("--wheels", "dist", "--good", "1.0", "--on-timeout", "good")
    code, _ = bisect(*ends, "--", "python", "use.py")
    state = state_in(project / "python.bisect")
    assert (code, state.current["1.2"].mark, state.current["1.1"].mark) == (0, "skip", "good")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "Nothing to run"),
        (["nowhere.py", "--good", "1.0"], "does not exist"),
        (["use.py", "--wheels", "nowhere"], "is not a directory"),
        (["use.py", "--wheels", "dist", "--good", "3.0"], "3.0 is none of the 3 builds"),
        (["use.py", "--wheels", "dist", "--good", "1.2", "--bad", "1.0"], "--find-fix"),
        (["use.py", "--wheels", "dist", "--nightly", "cpu"], "Give one source of builds"),
        (["use.py", "--nightly", "toaster"], "is not a platform of nightlies"),
        (["use.py", "--git", "nowhere"], "is not a clone"),
        (["use.py", "--good", "1.0", "--good", "1.1"], "at most once for each --package"),
        (["use.py", "--log"], "Nothing was judged yet"),
    ],
)
def test_bad_input_is_one_sentence(project, bisect, words, told) -> None:
    make_wheels(project / "dist", VERSIONS[:3], broken_from(2))
    code, out = bisect(*words)
    assert (code, told in out, "Traceback" in out) == (2, True, False), out
    assert not list(project.glob("*.bisect")), "nothing is left behind"
