"""Run the subject of a case under the probe, with private caches and its output in a directory of the case."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

from repro_kit.case.case import Case, note_start
from repro_kit.case.stage_results import Artifact
from repro_kit.probe.repro_probe.protocol.orders import Override, RunMode
from repro_kit.runner.compiler import take_libraries, take_probes
from repro_kit.runner.subject_start import command, private_caches, probe_environment
from repro_kit.runner.supervised import Run, launch
from repro_kit.trace import TraceSummary
from repro_kit.ui import Ui

_END = 4096  # bytes of output, in which the last line is
#: ANSI sequences, with those of a window's title; a character that a backspace takes away; other control characters.
_CONTROLS = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]|\x1b.|.?\x08|[^\t\r\n -\x7e\xa0-\U0010ffff]"
)


@dataclass(frozen=True)
class SubjectRun:
    """A run of the subject that is asked for: why it is made, how long it may take, and what is changed in it.

    `directory`: for the output. `probe`: options for the probe's `mode`. `findings`: the directory that the probe
    writes to, `directory`/probe by default. `without`: variables of the user's to remove. `copy_of`: a compiler cache
    to start with a copy of. `kernels`: where the libraries that the compiler built are kept. `argv`: what runs in the
    subject's place. `ui`: shows what it prints while it runs.

    The case records the start with `why`. An empty `why` is for what is not the user's command.
    """

    directory: Path
    _: KW_ONLY
    why: str
    timeout: float
    mode: RunMode = "observe"
    probe: Override | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    without: Collection[str] = ()
    findings: Path | None = None
    copy_of: Path | None = None
    kernels: Path | None = None
    on_tick: Callable[[float], None] | None = None
    on_interrupt: Callable[[float], None] | None = None
    argv: Sequence[str] | None = None
    ui: Ui | None = None

    def tick(self, seconds: float) -> None:
        """Look at the run, `seconds` after it began."""
        if self.on_tick is not None:
            self.on_tick(seconds)
        if self.ui is not None:
            self.ui.printed(last_line(self.directory))


def run_subject(case: Case, run: SubjectRun) -> Run:
    """Run the subject of the case as `run` asks."""
    with private_caches(case.file.subject.python, run.copy_of) as caches:
        users = {name: value for name, value in os.environ.items() if name not in run.without}
        full = {**users, **caches, **run.env}
        if run.why:
            note_start(case, run.why)
        ended = launch(
            run.argv or command(case.file.subject),
            cwd=Path(case.file.subject.cwd),
            env=probe_environment(full, run.mode, run.findings or run.directory / "probe", run.timeout, run.probe),
            timeout=run.timeout,
            stdout=run.directory / "stdout.txt",
            stderr=run.directory / "stderr.txt",
            on_tick=run.tick,
            on_interrupt=run.on_interrupt,
        )
        if ended.exit_status is not None and run.copy_of is None:
            cache = Path(caches["TORCHINDUCTOR_CACHE_DIR"])
            if case.file.subject.form != "command":
                take_probes(case.file.subject.python, cache)
            if run.kernels is not None:
                take_libraries(cache, run.kernels)
    return ended


def run_overridden(case: Case, run: SubjectRun, override: Override) -> Run:
    """Run the subject as `run` asks, with the probe's `override`. The trace goes to `run.directory`/trace."""
    trace = run.directory.absolute() / "trace"
    trace.mkdir(parents=True, exist_ok=True)
    traced = {"TORCH_TRACE": str(trace), **run.env}
    return run_subject(case, replace(run, mode="override", probe=override, env=traced))


def last_line(directory: Path) -> str:
    """The last line that the run in `directory` has printed, without what controls a terminal."""
    files = [path for name in ("stdout.txt", "stderr.txt") if (path := directory / name).is_file()]
    newest = max((path for path in files if path.stat().st_size), key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        return ""
    with newest.open("rb") as file:
        file.seek(max(0, newest.stat().st_size - _END))
        text = _CONTROLS.sub("", file.read().decode("utf-8", errors="ignore"))
    return next((line.strip() for line in reversed(re.split(r"[\r\n]", text)) if line.strip()), "")


def write_artifacts(case: Case, summary: TraceSummary) -> tuple[Artifact, ...]:
    """Write every `fx_graph_runnable` to a file of its own; a graph's forward and backward share a compile id."""
    written: list[Artifact] = []
    directory = case.path / "observe" / "artifacts" / "fx_graph_runnable"
    for runnable in summary.runnables:
        stem = runnable.compile_id.replace("/", "_").replace("!", "")
        stem += f"_rank{runnable.rank}" if runnable.rank is not None else ""
        path = directory / f"{stem}.py"
        count = 1
        while path.exists():
            count += 1
            path = directory / f"{stem}_{count}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(runnable.text, encoding="utf-8")
        written.append(Artifact(runnable.compile_id, str(path.relative_to(case.path)), runnable.rank))
    return tuple(written)
