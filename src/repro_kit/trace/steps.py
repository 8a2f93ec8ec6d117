"""Find the compile step that began and did not end: where a process hung or crashed."""

from __future__ import annotations

from dataclasses import dataclass, field

from repro_kit.trace.record import Record


@dataclass(frozen=True)
class OpenStep:
    """The steps in progress when the trace ended, the innermost last, as torch's timers name them."""

    compile_id: str | None
    rank: int | None
    steps: tuple[str, ...]
    after: str = ""  # last record of that compile

    def __str__(self) -> str:
        where = f" of graph {self.compile_id}" if self.compile_id else ""
        rank = f" on rank {self.rank}" if self.rank is not None else ""
        after = f", after {self.after}" if self.after else ""
        return f"{self.steps[-1]}{where}{rank}{after}"


@dataclass
class OpenSteps:
    """Follows the begin and end events (`chromium_event`) of each thread; without them, unfinished frames."""

    stacks: dict[tuple[str, int, int], list[tuple[str, str | None]]] = field(default_factory=dict)
    frames: dict[tuple[str, str], int | None] = field(default_factory=dict)
    ranks: dict[str, int | None] = field(default_factory=dict)
    last: dict[tuple[str, str | None], str] = field(default_factory=dict)
    newest: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Use the begin or end of a step, or a record that shows the progress of a compile."""
        self.ranks.setdefault(record.file, record.rank)
        if record.event == "chromium_event":
            self._event(record)
            return
        if record.compile_id is None:
            return
        frame = (record.file, record.compile_id)
        if record.event == "dynamo_start":
            self.frames[frame] = record.rank
        elif record.event == "compilation_metrics" or record.name == "dynamo_error":
            self.frames.pop(frame, None)
        if record.event in ("artifact", "dynamo_output_graph", "inductor_output_code") or "graph" in record.event:
            self.last[frame] = record.name

    def _event(self, record: Record) -> None:
        event = record.json()
        if not isinstance(event, dict) or event.get("ph") not in ("B", "E"):
            return
        tid = event.get("tid")
        thread = (record.file, record.pid, tid if isinstance(tid, int) else 0)
        stack = self.stacks.setdefault(thread, [])
        name = str(event.get("name"))
        if event["ph"] == "B":
            stack.append((name, record.compile_id))
            self.newest[thread] = record.time
        elif any(name == begun for begun, _ in stack):
            while stack.pop()[0] != name:
                pass

    def by_process(self) -> dict[int, OpenStep]:
        """The open step of each process that has one."""
        steps = {pid: self.open(pid) for _, pid, _ in self.stacks}
        return {pid: step for pid, step in steps.items() if step is not None}

    def open(self, pid: int | None = None) -> OpenStep | None:
        """The open step that began last, of all processes or of one."""
        begun = {thread: stack for thread, stack in self.stacks.items() if stack and pid in (None, thread[1])}
        if begun:
            thread = max(begun, key=lambda key: self.newest[key])
            stack = begun[thread]
            compile_id = next((stack_id for _, stack_id in reversed(stack) if stack_id), None)
            after = self.last.get((thread[0], compile_id), "")
            return OpenStep(compile_id, self.ranks.get(thread[0]), tuple(name for name, _ in stack), after)
        if self.frames and not self.stacks:
            (file, compile_id), rank = list(self.frames.items())[-1]
            return OpenStep(compile_id, rank, ("dynamo",), self.last.get((file, compile_id), ""))
        return None
