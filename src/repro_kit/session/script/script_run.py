"""Run the case's script subject under the probe, with private caches, its output below a directory of the case."""

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
from repro_kit.runner.subject import command, dump_before, private_caches, probe_environment
from repro_kit.trace import TraceSummary

_SLACK = 1.0  # seconds between the launcher's clock and the probe's


def run_subject(
    case: Case,
    place: Path,
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
    argv: Sequence[str] | None = None,
) -> Run:
    """Run it, or `argv` in its place; the case notes the start, and `why` it was made.

    `probe` are the options of the probe's `mode`, `findings` where it writes (`place`/probe by default), `without`
    variables of the user's that it does not get.
    """
    with private_caches(case.path, case.file.subject.python, copy_of) as caches:
        users = {name: value for name, value in os.environ.items() if name not in without}
        full = {**users, **caches, **(env or {})}
        note_start(case, why)
        ran = launch(
            argv or command(case.file.subject),
            cwd=Path(case.file.subject.cwd),
            env=probe_environment(full, mode, findings or place / "probe", timeout, probe),
            timeout=timeout,
            stdout=place / "stdout.txt",
            stderr=place / "stderr.txt",
            on_tick=on_tick,
        )
        if ran.exit_status is not None and copy_of is None and case.file.subject.form != "command":
            take_probes(case.file.subject.python, Path(caches["TORCHINDUCTOR_CACHE_DIR"]))
    return _ended_by_the_timer(ran, timeout)


def run_overridden(
    case: Case,
    place: Path,
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
    """Run it as `run_subject` does, with the probe's `override` in force; its trace goes to `place`/trace."""
    trace = place.absolute() / "trace"
    trace.mkdir(parents=True, exist_ok=True)
    return run_subject(
        case,
        place,
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


def _ended_by_the_timer(ran: Run, timeout: float) -> Run:
    """`ran`, a time-out where the probe's timer killed it: one that replaced the user's program (exec) dies of that."""
    if ran.signal == "SIGALRM" and ran.seconds >= timeout - dump_before(timeout) - _SLACK:
        return replace(ran, signal=None, timed_out=True)
    return ran


def write_artifacts(case: Case, summary: TraceSummary) -> tuple[Artifact, ...]:
    """Write every `fx_graph_runnable`, one file each; forward and backward of a graph share a compile id."""
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
