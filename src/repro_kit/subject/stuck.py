"""A compile that seems never to end: say so while it runs, and take it for the failure by a stated rule.

A compile is taken never to end when it has used `limit` CPU seconds, or has slept for as many seconds, while nothing
was written to torch's trace, to the recorded graphs, or to the program's output. The limit grows with the graph: 45 s
and half a second for each statement; four times that on an accelerator, since LLVM may take a minute for one large
kernel of Triton; ten times that under autotuning; 180 s where Dynamo has made no graph yet. A compile that gives signs
has a limit as a whole: 45 CPU seconds and a second for each statement since Dynamo had made the graph. A kernel that
Triton has ready is a sign. CPU seconds are counted, so that a busy machine is no hang. Where several processes compile,
such as the ranks of a job, those of one process count.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import psutil

from repro_kit.probe.repro_probe.protocol.failure_data import STACK_SIGNAL
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.supervised import EndedEarly
from repro_kit.trace import summarise
from repro_kit.ui import Ui

_Seconds: TypeAlias = dict[int, float]  # CPU seconds by process
_BASE, _EACH, _EACH_IN_ALL = 45.0, 0.5, 1.0  # seconds; seconds for each statement, without a sign and in all
_TRACING = 180.0  # seconds, without a graph
_AUTOTUNING, _ON_ACCELERATOR = 10, 4  # times the limit
_COMPUTING = (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
_ASLEEP = 0.05  # of one core: a process that waits for itself
_SPOKEN = 60.0  # seconds without a sign after which the live line says so
_LOOK = 2.0  # seconds between looks
_STACKS = 2.0  # seconds that the processes have to write down where they are
_ACCELERATOR = re.compile(r'"device": ?"(?:cuda|xpu|mps)\b')
_GRAPH = re.compile(r"of graph (\S+?)(?=[,\s]|$)")


class CompileWatch:
    """Watches one run whose trace, logs and findings go below `directory`."""

    def __init__(self, directory: Path, ui: Ui, doing: str, *, decides: bool) -> None:
        """`doing`: what runs, in words. `decides`: end the run by the rule above; else only say what is seen."""
        self._directory, self._ui, self._doing, self._decides = directory, ui, doing, decides
        self._looked = 0.0
        self._began = time.time()
        self._sign: float | None = None  # time of the last change of a file
        self._cpu: _Seconds = {}  # that the processes had used by then
        self._looks: list[tuple[float, _Seconds]] = []  # time of each look, and what the processes had used
        self._step: str | None = None
        self.reason = ""  # why the run was ended, in a sentence

    def tick(self, seconds: float) -> None:
        """Look; `seconds` since the run began. Raises EndedEarly where the rule says so."""
        if seconds - self._looked >= _LOOK:
            self._looked = seconds
            self._look()
        silent = self.silent
        if self._step and silent >= _SPOKEN:
            self._ui.progress(f"{self._step}: no sign for {silent:.0f} s")
        else:
            self._ui.progress(self._doing)
        if self._decides and self._step and self._is_stuck(silent):
            self.end(seconds)

    def interrupted(self, seconds: float) -> None:
        """Ctrl-C: where a compile seems stuck, offer to take that for the failure, which raises EndedEarly."""
        if not self._step or self.silent < _SPOKEN or self._ui.yes:
            return
        if self._ui.confirm(f"{self._step} has given no sign for {self.silent:.0f} s. Take that for the failure?"):
            self.reason = f"{self._step} was ended by you after {self.silent:.0f} s without a sign."
            self.end(seconds)

    @property
    def silent(self) -> float:
        """Seconds since the last sign."""
        return time.time() - (self._sign or self._began)

    def end(self, seconds: float) -> None:
        """Have the processes write down where they are, and raise EndedEarly."""
        for process in self._processes():
            with suppress(psutil.Error, OSError):
                os.kill(process.pid, STACK_SIGNAL or 0)
        until = time.monotonic() + _STACKS
        while time.monotonic() < until and not read_findings(self._directory / "probe").stacks:
            time.sleep(0.1)
        raise EndedEarly(seconds)

    def _look(self) -> None:
        self._looks.append((time.time(), self._used()))
        newest = max((path.stat().st_mtime for path in self._files()), default=None)
        if newest is not None and newest > (self._sign or 0):
            self._sign, self._cpu, self._step = newest, self._looks[-1][1], None
        elif self._step is None and self.silent >= min(_BASE, _SPOKEN) / 2:
            self._step = summarise(self._directory / "trace").open_step

    def _files(self) -> Iterator[Path]:
        yield from (self._directory / "trace").glob("*")
        yield from (self._directory / "probe").glob("events-*")
        yield from (path for name in ("stdout.txt", "stderr.txt") if (path := self._directory / name).exists())
        for process in self._processes():  # Triton makes a directory for each kernel that is ready
            with suppress(psutil.Error):
                kernels = process.environ().get("TRITON_CACHE_DIR")
                if kernels and (directory := Path(kernels)).is_dir():
                    yield directory

    def _is_stuck(self, silent: float) -> bool:
        graphs = self._graphs()
        limit = _limit(graphs, _EACH)
        used = self._used()
        silently = _most(used, self._cpu)
        if silent >= limit and (silently >= limit or self._sleeps(used, silent)):
            how = f"used {silently:.0f} CPU seconds" if silently >= limit else f"slept for {silent:.0f} s"
            self.reason = _ended_because(self._step, f"{how} without a sign", limit)
        elif graphs and (whole := _most(used, self._used_at(min(graphs)))) >= (limit := _limit(graphs, _EACH_IN_ALL)):
            self.reason = _ended_because(self._step, f"used {whole:.0f} CPU seconds for its graph", limit)
        return bool(self.reason)

    def _sleeps(self, used: _Seconds, silent: float) -> bool:
        """Whether no process computes: none has since the last sign, and none waits for a core of a busy machine."""
        together = sum(used.values()) - sum(self._cpu.get(pid, 0.0) for pid in used)
        return together <= _ASLEEP * silent and not any(map(_computes, self._processes()))

    def _graphs(self) -> dict[float, str]:
        """The recorded graphs of the compile under way, as JSON, by the time at which Dynamo had made each."""
        named = _GRAPH.search(self._step or "")
        graphs: dict[float, str] = {}
        for path in (self._directory / "probe").glob("graph-*.json") if named else ():
            with suppress(OSError, ValueError):
                text = path.read_text(encoding="utf-8")
                if _of_compile(json.loads(text), named.group(1) if named else ""):
                    graphs[path.stat().st_mtime] = text
        return graphs

    def _used_at(self, moment: float) -> _Seconds:
        """What the processes had used at the first look after `moment`."""
        return next((used for looked, used in self._looks if looked >= moment), self._cpu)

    def _processes(self) -> Iterator[psutil.Process]:
        for process in read_findings(self._directory / "probe").processes:
            with suppress(psutil.Error):
                yield psutil.Process(process.pid)

    def _used(self) -> _Seconds:
        """What each process that imported torch has used so far, with the compilers that it started."""
        processes = {process.pid: process for process in self._processes()}
        return {pid: _with_children(process, processes.keys()) for pid, process in processes.items()}


def _with_children(process: psutil.Process, apart: Collection[int]) -> float:
    """CPU seconds of the process and of those that it started, but for the processes `apart`."""
    with suppress(psutil.Error):
        times, children = process.cpu_times(), process.children()
        own: float = times.user + times.system + times.children_user + times.children_system
        return own + sum(_with_children(child, apart) for child in children if child.pid not in apart)
    return 0.0


def _computes(process: psutil.Process) -> bool:
    """Whether the process, or one that it started, runs or wants to."""
    with suppress(psutil.Error):
        return any(each.status() in _COMPUTING for each in (process, *process.children(recursive=True)))
    return False


def _most(used: _Seconds, before: _Seconds) -> float:
    """The CPU seconds of the process that has used most since `before`."""
    return max((seconds - before.get(pid, 0.0) for pid, seconds in used.items()), default=0.0)


def _limit(graphs: Mapping[float, str], each: float) -> float:
    """The limit in seconds of a compile of `graphs`, with `each` seconds for a statement."""
    if not graphs:
        return _TRACING
    statements = max(str(json.loads(text).get("code", "")).count("\n") for text in graphs.values())
    tuned = any("max_autotune" in text or "max-autotune" in text for text in graphs.values())
    on_accelerator = any(_ACCELERATOR.search(text) for text in graphs.values())
    return (_BASE + each * statements) * (_AUTOTUNING if tuned else _ON_ACCELERATOR if on_accelerator else 1)


def _ended_because(step: str | None, how: str, limit: float) -> str:
    return (
        f"{step} was taken never to end: it {how} (the limit for its graph is {limit:.0f} s). "
        "--timeout S waits for S seconds instead."
    )


def _of_compile(graph: dict[str, object], compile_id: str) -> bool:
    """Whether a recorded graph is of this compile id (``0/0``), whatever its attempt (``0/0_1``)."""
    return str(graph.get("compile_id", "")).partition("_")[0] == compile_id.partition("_")[0]
