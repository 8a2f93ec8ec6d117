"""``kill -9`` at any moment, and the same command again: nothing finished is repeated, and the end is the same."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from repro_kit.case.case import Case
from repro_kit.case.stage_results import Reduction
from root import ROOT

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SRC = ROOT / "src"
TEXT = """# repro-kit program 1
import torch

RECIPE = {{'backend': 'mine'}}


def mine(gm, example_inputs):
    names = [str(node.target) for node in gm.graph.nodes]
    if any("sinh" in name for name in names) and any("erf" in name for name in names):
        raise ValueError("no such pair")
    return gm


def graph(x):
    v0 = torch.sinh(x)
{statements}
    last = torch.erf(v{count})
    return (last,)


def calls():
    x = torch.randn(4, 4)
    return [(x,)]
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [f"    v{at + 1} = torch.{('cos', 'relu', 'neg')[at % 3]}(v{at}) + v{max(0, at - 2)}" for at in range(6)]
    path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(TEXT.format(statements="\n".join(lines), count=len(lines)))
    return path


class Runs:
    """Starts ``repro-kit minify`` on one case, marked by an environment variable that every process inherits."""

    def __init__(self, program: Path, place: Path) -> None:
        self.case, self.program, self.tmp = place / "case.repro", program, place / "tmp"
        self.tmp.mkdir(parents=True)
        for shared in Path(tempfile.gettempdir()).glob(
            "torchinductor_*"
        ):  # precompiled headers; torch keeps them there
            (self.tmp / shared.name).symlink_to(shared)
        self.env = {**os.environ, "PYTHONPATH": str(SRC), "TMPDIR": str(self.tmp), "REPRO_TEST": str(place)}

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "repro_kit", "minify", "--python", sys.executable, "-j", "2"]
        return subprocess.Popen(
            [*command, "-o", str(self.case), str(self.program)],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def alive(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("REPRO_TEST") == self.env["REPRO_TEST"]:
                    found.append(process)
        return found

    def ended(self) -> bool:
        """Whether all processes end."""
        for _ in range(300):
            if not self.alive():
                return True
            time.sleep(0.1)
        return False

    def gone(self) -> bool:
        """Whether all processes end, and with them what they keep in the temporary directory."""
        return self.ended() and list(self.tmp.glob("repro-kit-*")) == []

    def answers(self) -> list[str]:
        """Keys of the journal's whole lines."""
        path = self.case / "minify" / "journal.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.is_file() else []
        return [entry["key"] for entry in map(json.loads, lines) if "key" in entry]

    def result(self) -> tuple[str, Reduction]:
        text = (self.case / "minify" / "best.py").read_text()
        return text, Case.open(self.case).read("minify/minify.json", Reduction)


@pytest.fixture(scope="module")
def whole(program: Path) -> Runs:
    """A run that nobody disturbed, at its end."""
    undisturbed = Runs(program, program.parent / "whole")
    out, _ = undisturbed.start().communicate()
    assert undisturbed.gone(), out
    return undisturbed


def moments(rng: random.Random) -> Iterator[tuple[int, float]]:
    """When the next kill comes: so many more answers in the journal, and seconds after that. The last never comes."""
    yield from [(0, rng.uniform(0.2, 1.5)), (0, rng.uniform(1.5, 6))]
    yield from [(rng.randrange(6, 16), rng.uniform(0, 0.3)) for _ in range(2)]
    yield sys.maxsize, 0.0


def test_killed_and_started_again_it_repeats_nothing_and_ends_alike(program: Path, whole: Runs, tmp_path: Path) -> None:
    killed = Runs(program, tmp_path / "killed")
    rng = random.Random(os.environ.get("REPRO_SEED", "0"))
    kills = 0
    for answers, seconds in moments(rng):
        before = killed.answers()
        process = killed.start()
        while len(killed.answers()) < len(before) + answers and process.poll() is None:
            time.sleep(0.02)
        time.sleep(seconds)
        if process.poll() is not None:
            assert process.returncode == 0, process.communicate()
            break
        process.kill()
        process.communicate()
        kills += 1
        # A directory made in the moment of the kill is unknown to the supervisor. The next run removes that directory.
        assert killed.ended(), [it.cmdline() for it in killed.alive()]
        assert killed.answers()[: len(before)] == before
        journal = killed.case / "minify" / "journal.jsonl"
        if journal.exists():
            with journal.open("ab") as file:
                file.write(b'{"key":"torn')
    assert kills > 1
    assert killed.gone()
    assert sorted(killed.answers()) == sorted(whole.answers())
    (text, one), (again, other) = whole.result(), killed.result()
    assert text == again
    assert (one.queries, one.statements_after, one.verified) == (other.queries, other.statements_after, other.verified)
    assert [step.file for step in one.steps] == [step.file for step in other.steps]
    assert one.verified


def victims(process: subprocess.Popen[str], whom: str) -> list[psutil.Process]:
    """The forking server below a running command, or the queries below that."""
    found = []
    with suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            if child.cmdline()[-1:] == ["fork"]:
                found += [child] if whom == "server" else child.children()
    return found


def test_a_killed_server_or_query_changes_nothing(program: Path, whole: Runs, tmp_path: Path) -> None:
    hurt = Runs(program, tmp_path / "hurt")
    process = hurt.start()
    killed: list[str] = []
    for whom in ("query", "server", "query"):
        enough = len(hurt.answers()) + 4
        found: list[psutil.Process] = []
        while process.poll() is None and not found:
            time.sleep(0.02)
            found = victims(process, whom) if len(hurt.answers()) >= enough else []
        for it in found[:1]:
            it.kill()
            killed.append(whom)
    out, _ = process.communicate()
    assert process.returncode == 0, out
    assert len(killed) == 3
    assert hurt.gone()
    assert hurt.result()[0] == whole.result()[0]
    assert hurt.answers() == whole.answers()
