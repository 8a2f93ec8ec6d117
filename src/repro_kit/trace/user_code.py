"""Which of the user's functions the graphs of a trace come from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from repro_kit.trace.dynamo_text import parse
from repro_kit.trace.record import Record, ask

_AT = re.compile(r"^\s*# File: (?P<file>.+?):(?P<line>\d+) in (?P<function>[^,]+), code:")


@dataclass(frozen=True)
class CodeOrigin:
    """A statement of a graph, and the line that it was traced from."""

    compile_id: str
    statement: str
    file: str
    line: int
    function: str


@dataclass(frozen=True)
class CompiledFrame:
    """A frame that Dynamo compiled, from its code object, and the compile time."""

    compile_id: str
    name: str
    file: str
    first_line: int
    seconds: float = 0.0


@dataclass
class UserCode:
    """All origins and frames, in order. `breaks`: (file, line) of graph breaks."""

    origins: list[CodeOrigin] = field(default_factory=list)
    frames: list[CompiledFrame] = field(default_factory=list)
    breaks: list[tuple[str, int]] = field(default_factory=list)

    def see(self, record: Record) -> None:
        """Use the comments in a graph, the frame of a finished compile, the place of a graph break."""
        compile_id = record.compile_id or ""
        if record.event == "dynamo_output_graph" and record.payload:
            self.origins += _origins(compile_id, record.payload)
        elif record.event == "compilation_metrics":
            name, file, line = record.text("co_name"), record.text("co_filename"), int(record.number("co_firstlineno"))
            if name and file and line:
                seconds = record.number("entire_frame_compile_time_s")
                self.frames.append(
                    CompiledFrame(record.text("compile_id") or compile_id, name, file, line, float(seconds))
                )
        elif record.name == "dynamo_graph_break_reason" and record.payload:
            where = parse(record.payload).where
            self.breaks += [(where.file, where.line)] if where else []


def user_code(records: Iterable[Record]) -> UserCode:
    """The origins of the graphs in a trace."""
    return ask(UserCode(), records)


def _origins(compile_id: str, text: str) -> list[CodeOrigin]:
    """The statements in a graph's text, each with the comment before it."""
    origins: list[CodeOrigin] = []
    at: re.Match[str] | None = None
    for line in text.splitlines():
        comment = _AT.match(line)
        if comment:
            at = comment
        elif at is not None and " = " in line:
            origins.append(CodeOrigin(compile_id, line.strip(), at["file"], int(at["line"]), at["function"]))
    return origins
