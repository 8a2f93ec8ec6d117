"""Run the subject of a case under the probe, with private caches and its output in a directory of the case."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import Artifact
from repro_kit.case.starts import note_start
from repro_kit.probe.repro_probe.protocol.orders import Override, RunMode
from repro_kit.runner.compiler import take_probes
from repro_kit.runner.launch import Run, launch
from repro_kit.runner.subject_start import command, dump_before, private_caches, probe_environment
from repro_kit.trace import TraceSummary

_SLACK = 1.0  # most seconds between the clocks of the launcher and the probe


def run_subject(
    case: Case,
    directory: Path,
    *,
    why: str,
    timeout: float,
    mode: RunMode = "observe",
    probe: Override | None = None,
    env: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    findings: Path | None = None,
    copy_of: Path | None = None,
    on_tick: Callable[[float], None] | None = None,
    on_interrupt: Callable[[float], None] | None = None,
    argv: Sequence[str] | None = None,
) -> Run:
    """Run the subject, or `argv` in its place. The case records the start, and `why` it was made; not
    with an empty `why`, for what is not the user's command.

    `directory`: for the output. `probe`: options for the probe's `mode`. `findings`: the directory that the probe
    writes to, `directory`/probe by default. `without`: variables of the user's to remove.
    """
    with private_caches(case.path, case.file.subject.python, copy_of) as caches:
        users = {name: value for name, value in os.environ.items() if name not in without}
        full = {**users, **caches, **(env or {})}
        if why:
            note_start(case, why)
        ended = launch(
            argv or command(case.file.subject),
            cwd=Path(case.file.subject.cwd),
            env=probe_environment(full, mode, findings or directory / "probe", timeout, probe),
            timeout=timeout,
            stdout=directory / "stdout.txt",
            stderr=directory / "stderr.txt",
            on_tick=on_tick,
            on_interrupt=on_interrupt,
        )
        if ended.exit_status is not None and copy_of is None and case.file.subject.form != "command":
            take_probes(case.file.subject.python, Path(caches["TORCHINDUCTOR_CACHE_DIR"]))
    return _ended_by_the_timer(ended, timeout)


def run_overridden(
    case: Case,
    directory: Path,
    override: Override,
    *,
    why: str,
    timeout: float,
    env: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    copy_of: Path | None = None,
    on_tick: Callable[[float], None] | None = None,
    argv: Sequence[str] | None = None,
) -> Run:
    """Run the subject like `run_subject`, with the probe's `override`. The trace goes to `directory`/trace."""
    trace = directory.absolute() / "trace"
    trace.mkdir(parents=True, exist_ok=True)
    return run_subject(
        case,
        directory,
        why=why,
        timeout=timeout,
        mode="override",
        probe=override,
        env={"TORCH_TRACE": str(trace), **(env or {})},
        without=without,
        copy_of=copy_of,
        on_tick=on_tick,
        argv=argv,
    )


def _ended_by_the_timer(ended: Run, timeout: float) -> Run:
    """`ended`, as a time-out when the probe's timer killed the run: after an exec, SIGALRM ends the new program."""
    if ended.signal == "SIGALRM" and ended.seconds >= timeout - dump_before(timeout) - _SLACK:
        return replace(ended, signal=None, timed_out=True)
    return ended


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
