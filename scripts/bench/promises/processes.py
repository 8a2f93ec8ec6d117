"""What is left behind: by a repro-kit that is killed at a random moment, and by a run that is refused."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from promises import Row
from repro_kit.case.case import Case
from repro_kit.case.stage_results import BundleResult
from repro_kit.diagnosis.cell import Ablation
from repro_kit.errors import ReproKitError
from samples import hard_to_kill

_SRC = Path(__file__).resolve().parents[3] / "src"
_ORPHAN = 5.0  # seconds that everything may take to be gone
_IN_A_ROW = 3  # kills of one case before a run comes to its end

_DAEMONS = """
import os, signal, subprocess, sys, time
subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM HUP; sleep 600; :"])
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    os.environ.clear()
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]])
"""
_ENDLESS = _DAEMONS + "time.sleep(600)\n"
_FAILS = (
    _DAEMONS
    + """
import torch

def broken(gm, example_inputs):
    if any("sinh" in str(node.target) for node in gm.graph.nodes):
        raise ValueError("no sinh here")
    return gm.forward

@torch.compile(backend=broken)
def f(x):
    return torch.erf(torch.sinh(torch.relu(x) + 1)) * 2

f(torch.ones(4))
"""
)
_PROGRAM = """# repro-kit program 1
import torch

RECIPE = {'backend': 'mine'}


def mine(gm, example_inputs):
    if any("sinh" in str(node.target) for node in gm.graph.nodes):
        raise ValueError("no sinh here")
    return gm


def graph(x):
    a = torch.relu(x)
    b = torch.sinh(a)
    c = torch.cos(b) + a
    return (c,)


def calls():
    x = torch.randn(4, 4)
    return [(x,)]
"""


@dataclass(frozen=True)
class Work:
    """A command of repro-kit's on a file of this text."""

    name: str
    text: str
    words: tuple[str, ...]
    has_arguments: bool = True


_WORKS = (
    Work("endless", _ENDLESS, ("observe", "--timeout", "3")),
    Work("minify", _PROGRAM, ("minify", "-j", "2"), has_arguments=False),
    Work("observe", _FAILS, ("observe",)),
    Work("collect", _FAILS, ("collect", "--yes", "--trace", "no", "--include-source")),
)


class Place:
    """A directory with one case of `work`, and the runs on it, marked so that all their processes are found."""

    def __init__(self, work: Work, directory: Path) -> None:
        self.work, self.directory, self.tmp = work, directory, directory / "tmp"
        self.tmp.mkdir(parents=True)
        self.mark = f"mark-{directory.name}-{random.getrandbits(64):x}"
        (directory / "file.py").write_text(work.text, encoding="utf-8")
        for shared in Path(tempfile.gettempdir()).glob("torchinductor_*"):  # headers that torch has compiled
            (self.tmp / shared.name).symlink_to(shared)

    def start(self) -> subprocess.Popen[bytes]:
        """The command, which goes on where the last one was killed."""
        words = [*self.work.words, "--python", sys.executable, "-o", "case.repro", "file.py"]
        env = {**os.environ, "PYTHONPATH": str(_SRC), "TMPDIR": str(self.tmp), "REPRO_TEST": self.mark}
        return subprocess.Popen(
            [sys.executable, "-m", "repro_kit", *words, *([self.mark] if self.work.has_arguments else [])],
            cwd=self.directory,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def alive(self) -> list[int]:
        """Every process that belongs to a run."""
        pids = set(hard_to_kill.marked(self.mark))
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("REPRO_TEST") == self.mark:
                    pids.add(process.pid)
        return sorted(pids)

    def left(self) -> list[str]:
        """Scratch directories, private caches and half-written files."""
        leftovers = self.tmp.glob("repro-kit-*")
        return [str(path) for path in (*leftovers, *self.directory.rglob(".*.part"))]

    def outcome(self, exit_code: int) -> dict[str, object]:
        """What a run must have come to, however often it was killed before."""
        case = Case.open(self.directory / "case.repro")
        state_now: dict[str, object] = {"exit": exit_code, "signature": case.file.signature}
        state_now["stages"] = [(stage.name, stage.status) for stage in case.file.stages]
        for name in ("capture/program.py", "minify/best.py"):
            state_now[name] = (case.path / name).read_text(encoding="utf-8") if case.has(name) else None
        with suppress(ReproKitError):
            state_now["layer"] = case.read("ablation.json", Ablation).layer
        with suppress(ReproKitError):
            state_now["verified"] = case.read("bundle.json", BundleResult).verified
        return state_now


def measure(size: str, scratch: Path) -> list[Row]:
    """Kills at random moments, hard-to-kill processes, refused runs."""
    rng = random.Random(os.environ.get("REPRO_SEED", "0"))
    # tests/cli/test_kill.py kills a reduction many times, and tests/runner/test_supervised.py has every form of daemon.
    kills = {"endless": 1} if size == "small" else {work.name: 25 for work in _WORKS}
    runs, ends = [], []
    for work in _WORKS:
        if work.name in kills:
            broken, wrong = _killed(work, kills[work.name], scratch / work.name, rng)
            runs += broken
            ends += wrong
    forms = [(form, whom) for form in hard_to_kill.FORMS for whom in hard_to_kill.VICTIMS]
    forms = forms[:: len(forms) // 3] if size == "small" else forms
    return [
        _row("no process is left 5 s after repro-kit or its supervisor is killed at a random moment", runs),
        _row("the run that goes on after kills ends as one that was not killed, and leaves nothing", ends),
        _row("no form of daemon outlives a kill", list(_forms(forms, scratch / "forms"))),
        _row("a run that is refused for another at work changes nothing", list(_refused(scratch / "refused"))),
    ]


def _row(promise: str, results: Sequence[str]) -> Row:
    """A row of results, each empty or what went wrong."""
    broken = tuple(result for result in results if result)
    return Row(promise, len(results), len(results) - len(broken), broken=broken)


def _killed(work: Work, kills: int, scratch: Path, rng: random.Random) -> tuple[list[str], list[str]]:
    """The results of so many kills, and of the runs that came to their end after some of them."""
    whole = Place(work, scratch / "whole")
    started = time.monotonic()
    expected = whole.outcome(whole.start().wait())
    seconds = time.monotonic() - started
    runs: list[str] = []
    ends: list[str] = []
    while len(runs) < kills:
        attempt = Place(work, scratch / f"killed-{len(ends)}")
        for _ in range(min(_IN_A_ROW, kills - len(runs))):
            survivors = _kill_once(attempt, rng, seconds)
            if survivors is not None:
                runs.append(survivors)
        exit_code = attempt.start().wait()
        problems = [f"left: {name}" for name in attempt.left()]
        if attempt.outcome(exit_code) != expected:
            problems.append(f"another result: {attempt.outcome(exit_code)}, not {expected}")
        ends.append(f"{work.name}: {'; '.join(problems)}" if problems else "")
    return runs, ends


def _kill_once(attempt: Place, rng: random.Random, seconds: float) -> str | None:
    """Start a run and kill it; what is alive 5 s later. None when the run had ended before."""
    process = attempt.start()
    whom = rng.choice(("repro-kit", "repro-kit", *hard_to_kill.VICTIMS))
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=rng.uniform(0.05, seconds))
        return None
    supervisors = hard_to_kill.supervisors(process.pid)
    if whom != "repro-kit" and supervisors:  # one of the two that keep watch, and repro-kit before it can do anything
        with suppress(ProcessLookupError):
            os.kill(supervisors[hard_to_kill.VICTIMS.index(whom) - 1], signal.SIGKILL)
    process.kill()
    process.wait()
    if hard_to_kill.wait_until(lambda: not attempt.alive(), seconds=_ORPHAN):
        return ""
    orphans = attempt.alive()
    for pid in orphans:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return f"{attempt.work.name}, {whom} killed: {len(orphans)} processes left"


def _forms(forms: Sequence[tuple[str, str]], scratch: Path) -> Iterator[str]:
    scratch.mkdir()
    for form, whom in forms:
        left = hard_to_kill.outlived(scratch, form, whom)
        yield f"{form}, {whom} killed: {len(left)} processes left" if left else ""


def _refused(scratch: Path) -> Iterator[str]:
    """Commands on a case whose lock another process holds."""
    attempt = Place(Work("refused", "import time\n", ("observe",)), scratch)
    attempt.start().wait()
    before = state(scratch)
    for words in (("observe",), ("observe", "--fresh"), ("collect", "--fresh"), ("explain",), ("minify",)):
        attempt.work = Work("refused", "", words)
        with (scratch / "case.repro" / ".lock").open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            exit_code = attempt.start().wait()
        changed = state(scratch) != before
        yield f"{' '.join(words)}: exit {exit_code}, {'changed' if changed else 'unchanged'}" * (
            changed or exit_code != 2
        )


def state(directory: Path) -> dict[str, tuple[int, int, str]]:
    """Everything below `place`: mode, time of the last change, and digest, by name."""
    entries = {}
    for path in sorted((directory, *directory.rglob("*"))):
        seen = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        entries[str(path)] = (seen.st_mode, seen.st_mtime_ns, digest)
    return entries
