"""Where builds come from: indexes, days, ends, the cache of wheels; no environment is made."""

from __future__ import annotations

import base64
import http.server
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from repro_kit.builds.build_source import Target, UnusableError, target_of
from repro_kit.builds.catalog import default_index
from repro_kit.builds.install import InterpreterSource, variables_of_uv
from repro_kit.builds.interpreters import installed
from repro_kit.builds.several import BuildChoice, lines_of
from repro_kit.builds.web import opened, with_credentials, without_credentials
from repro_kit.builds.wheel_cache import WheelCache
from repro_kit.builds.wheel_index import (
    WheelFile,
    builds_of,
    day_of,
    index_files,
    is_fitting,
    nightly_index,
    older,
    platform_of,
)
from repro_kit.errors import ReproKitError
from repro_kit.regressions.build import Build, NoSuchBuildError, resolve_build
from wheelhouse import GOOD, html_index, json_page, make_wheel, make_wheels

#: A Linux machine with Python 3.11, whatever the tests run on.
TARGET = Target("python", "python", (3, 11, 7))


def torch_wheel(version: str, python: str = "cp311", platform: str = "manylinux_2_28_x86_64", **more) -> WheelFile:
    name = f"torch-{version}-{python}-{python}-{platform}.whl"
    return WheelFile(name, f"https://example.org/{name.replace('+', '%2B')}", **more)


@pytest.fixture
def linux(monkeypatch):
    platforms = ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "linux_x86_64"]
    monkeypatch.setattr("repro_kit.builds.build_source.platform_tags", lambda: iter(platforms))
    return Target("python", "python", (3, 11, 7))


def test_the_best_wheel_of_each_version_that_fits(linux) -> None:
    files = [
        torch_wheel("2.10.0"),
        torch_wheel("2.9.1", requires_python=">=3.12"),
        torch_wheel("2.9.0", python="cp312"),
        torch_wheel("2.8.0", platform="macosx_11_0_arm64"),
        torch_wheel("2.7.0", platform="linux_x86_64"),
        torch_wheel("2.7.0", platform="manylinux_2_17_x86_64"),
        torch_wheel("2.6.0", yanked="broken"),
        torch_wheel("2.7.0rc1"),
        WheelFile("torch-2.5.0.tar.gz", "https://example.org/torch-2.5.0.tar.gz"),
        WheelFile("vision-1.0-py3-none-any.whl", "https://example.org/vision-1.0-py3-none-any.whl"),
    ]
    builds = builds_of("torch", files, linux)
    assert [build.name for build in builds] == ["2.6.0", "2.7.0rc1", "2.7.0", "2.10.0"]
    assert "manylinux_2_17" in (builds[2].url or "")
    wanted = [build.name for build in builds if is_fitting(build, pre=False, named=())]
    assert wanted == ["2.7.0", "2.10.0"]
    assert [it.name for it in builds if is_fitting(it, pre=False, named=("2.6.0",))] == ["2.6.0", "2.7.0", "2.10.0"]


def test_nightlies_go_by_day_several_a_day_by_version(linux) -> None:
    versions = ["2.9.0.dev20260103+cpu", "2.10.0.dev20260103+cpu", "2.10.0.dev20260101+cpu", "2.9.0.dev20260105+cpu"]
    builds = builds_of("torch", map(torch_wheel, versions), linux)
    assert [build.name for build in builds] == [versions[2], versions[0], versions[1], versions[3]]
    assert [build.date for build in builds] == ["2026-01-01", "2026-01-03", "2026-01-03", "2026-01-05"]
    assert resolve_build(builds, "2026-01-03", "old") == 1
    assert resolve_build(builds, "2026-01-03", "new") == 2
    assert resolve_build(builds, "2026-01-02", "old") == 1
    assert resolve_build(builds, "2026-01-02", "new") == 0
    assert resolve_build(builds, "2.10.0.dev20260103", "new") == 2
    assert resolve_build(builds, torch_wheel(versions[3]).url, "new") == 3
    for day, side in (("2025-12-31", "new"), ("2026-01-06", "old")):
        with pytest.raises(NoSuchBuildError, match="no build is from"):
            resolve_build(builds, day, side)


@pytest.mark.parametrize(
    ("version", "day"),
    [
        ("2.2.0.dev20231116+cpu", "2023-11-16"),
        ("2.2.0", None),
        ("2.2.0.dev20239999", None),
        ("1.0.post20240229", "2024-02-29"),
    ],
)
def test_the_day_of_a_version(version, day) -> None:
    assert day_of(version) == day


def test_older_nightlies_are_found_by_their_likely_urls() -> None:
    url = "https://example.org/nightly/cpu/torch-2.12.0.dev20260401%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    listed = [Build("2.12.0.dev20260401+cpu", "2.12.0.dev20260401+cpu", "2026-04-01", url=url)]
    there = {
        "torch-2.12.0.dev20260330%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.11.0.dev20260320%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.10.0.dev20251201%2Bcpu-cp311-cp311-linux_x86_64.whl",
    }
    asked = []

    def exists(url: str) -> bool:
        asked.append(url)
        return url.rpartition("/")[2] in there

    found = older(listed, "2025-11-25", exists)
    assert [build.date for build in found] == ["2025-12-01", "2026-03-20", "2026-03-30"]
    assert found[0].version == "2.10.0.dev20251201+cpu"
    assert older(listed, "2026-04-01", exists) == []
    with pytest.raises(ReproKitError, match="more than"):
        older(listed, "2020-01-01", exists)


def test_platforms_of_nightlies() -> None:
    assert nightly_index("cu126").endswith("/nightly/cu126")
    assert nightly_index("rocm6.4").endswith("/nightly/rocm6.4")
    assert [platform_of(it) for it in ("2.13.0+cu126", "2.13.0+cpu", "2.13.0", None)] == ["cu126", "cpu", "cpu", "cpu"]


def test_an_index_of_files_and_what_is_none(tmp_path) -> None:
    wheels = make_wheels(tmp_path / "files", ["1.0", "1.1+cpu"], lambda number: GOOD)
    url = html_index(tmp_path, wheels, yanked=["1.0"])
    files = {file.filename: file for file in index_files(url, "Frob")}
    assert files[wheels[0].name].yanked == "broken"
    assert files[wheels[1].name].url == wheels[1].as_uri().replace("+", "%2B")
    assert files[wheels[1].name].sha256
    page = tmp_path / "other" / "frob" / "index.json"
    page.parent.mkdir(parents=True)
    page.write_bytes(json_page(wheels))
    assert [file.uploaded for file in index_files((tmp_path / "other").as_uri(), "frob")] == [
        "2026-01-01",
        "2026-01-02",
    ]
    with pytest.raises(ReproKitError, match=r"Cannot list nothing"):
        index_files(url, "nothing")


def test_credentials_reach_the_server_and_nothing_that_is_shown(tmp_path) -> None:
    wheel = make_wheel(tmp_path, "1.0", GOOD)
    seen = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization"))
            body = json_page([wheel]) if "simple" in self.path else wheel.read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        index = f"http://me:s%40cret@127.0.0.1:{server.server_port}/simple"
        build = builds_of("frob", index_files(index, "frob"), target_of(sys.executable))[0]
        WheelCache(tmp_path / "cache", 10**6, index=index).fetch(build)
        server.shutdown()
    assert seen == ["Basic " + base64.b64encode(b"me:s@cret").decode()] * 2
    assert "cret" not in (build.url or "")
    assert without_credentials(index) == f"http://127.0.0.1:{server.server_port}/simple"
    assert with_credentials("https://elsewhere.org/a.whl", index) == "https://elsewhere.org/a.whl"


def test_credentials_do_not_follow_a_redirection_to_another_host() -> None:
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization") is not None))
            elsewhere = {"/near": "/there", "/far": f"http://localhost:{server.server_port}/there"}.get(self.path)
            self.send_response(302 if elsewhere else 200)
            if elsewhere:
                self.send_header("Location", elsewhere)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for path in ("near", "far"):
            with opened(f"http://me:secret@127.0.0.1:{server.server_port}/{path}"):
                pass
        server.shutdown()
    assert seen == [("/near", True), ("/there", True), ("/far", True), ("/there", False)]


def test_what_a_server_forbids_is_not_asked_for_again() -> None:
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ReproKitError, match="401 Unauthorized; check --index-url"):
            index_files(f"http://127.0.0.1:{server.server_port}/simple", "frob")
        server.shutdown()
    assert seen == ["/simple/frob/"]


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("--index-url=https://me:secret@example.org/simple", "--index-url=https://example.org/simple"),
        ("frob @ https://token@example.org/a.whl", "frob @ https://example.org/a.whl"),
        ("https://example.org/a@1.whl", "https://example.org/a@1.whl"),
    ],
)
def test_no_credentials_in_what_is_shown(word: str, shown: str) -> None:
    assert without_credentials(word) == shown


def test_what_a_kill_has_left_of_a_download_goes(tmp_path) -> None:
    cache = WheelCache(tmp_path, 10**6)
    for name, age in (("now", 5), ("long-ago", 5000)):
        part = tmp_path / name / ".part-abc"
        part.parent.mkdir()
        part.write_bytes(b"half a wheel")
        os.utime(part, (time.time() - age,) * 2)
    cache.trim()
    assert [path.parent.name for path in tmp_path.glob("*/.part-*")] == ["now"]


@pytest.mark.parametrize(
    ("value", "url"), [("https://x.org/a=b", "https://x.org/a=b"), ("own=https://x.org", "https://x.org")]
)
def test_the_index_that_uv_is_told_of(monkeypatch, value: str, url: str) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", value)
    assert default_index() == url


def test_what_a_build_needs_comes_from_the_index_that_lists_it() -> None:
    pip_alone = {"PIP_INDEX_URL": "https://mirror/simple", "VIRTUAL_ENV": "/home/me/env"}
    assert variables_of_uv(pip_alone) == {
        "PIP_INDEX_URL": "https://mirror/simple",
        "UV_DEFAULT_INDEX": "https://mirror/simple",
    }
    both = {"PIP_INDEX_URL": "https://mirror/simple", "UV_INDEX_URL": "https://other/simple"}
    assert variables_of_uv(both) == both


def test_the_least_recently_used_wheels_go_first(tmp_path) -> None:
    source = [make_wheel(tmp_path / "src", f"1.{number}", GOOD) for number in range(4)]
    cache = WheelCache(tmp_path / "cache", 3 * source[0].stat().st_size)
    served = {path.name: path.read_bytes() for path in source}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(served[self.path[1:]])

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        builds = [Build(path.name, url=f"http://127.0.0.1:{server.server_port}/{path.name}") for path in source]
        for age, build in zip((30, 20, 10), builds, strict=False):
            path = cache.fetch(build)
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
        cache.fetch(builds[0])  # used again, and therefore the youngest
        with cache.using(builds[1]):
            cache.fetch(builds[3])
            assert [cache.has(build) for build in builds] == [True, True, False, True], "one in use stays"
        server.shutdown()
    with pytest.raises(UnusableError, match="--offline"):
        WheelCache(tmp_path / "cache", 10**6, offline=True).fetch(builds[2])


def test_interpreters_as_they_are() -> None:
    found = installed(sys.executable, "packaging", os.environ)
    assert found is not None and found.version and found.repository == "https://github.com/pypa/packaging"
    source = InterpreterSource([sys.executable], "packaging", os.environ)
    with source.ready(source.builds()[0]) as ready:
        assert ready.python == sys.executable
    with pytest.raises(ReproKitError, match="has no nonexistent"):
        InterpreterSource([sys.executable], "nonexistent", os.environ)


def test_interpreters_go_from_the_oldest_version_to_the_newest(tmp_path) -> None:
    pythons = []
    for version in ("1.10", "1.2"):
        python = tmp_path / version / "bin" / "python"
        python.parent.mkdir(parents=True)
        wheel = make_wheel(tmp_path / "wheels", version, GOOD)
        python.write_text(f'#!/bin/sh\nPYTHONPATH={wheel} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        pythons.append(str(python))
    (line,) = lines_of(BuildChoice(on=tuple(pythons), package="frob"), tmp_path / "environments")
    assert [build.version for build in line.chosen] == ["1.2", "1.10"]


def test_the_target_is_the_python_outside_of_any_environment() -> None:
    target = target_of(sys.executable)
    assert target.version == sys.version_info[:3]
    assert Path(target.base).resolve() == Path(sys._base_executable).resolve()
    with pytest.raises(ReproKitError, match="does not work as a Python"):
        target_of("/bin/true")
