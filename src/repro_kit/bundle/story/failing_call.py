"""The call at which Dynamo stopped: read off the traceback of the user's code, and found in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_USER_CODE = "\nfrom user code:"
_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<within>.*)\n'
    r"(?P<indent> *)(?P<text>\S.*)(?:\n(?P<marks>[ ~^]*[~^]))?",
    re.MULTILINE,
)

_REDUCED = re.compile(r"(?:^|/)(?:repro|reduced)\.py$")
_MODULE = "<module>"
_HEADERS = ("def ", "async def ", "class ", "@")  # where code stands that Dynamo has made of a whole function


@dataclass(frozen=True)
class Spot:
    """A place in a source. `columns`: the part of `text` that Python marks; none where the whole line fails."""

    line: int = 0  # 0: not known
    text: str = ""  # of the line, without its indentation
    columns: tuple[int, int] | None = None
    is_exact: bool = False  # a line that raised by itself: what Python does not mark there is not at fault


NOWHERE = Spot()


def stopped_at(log: str) -> Spot:
    """Where Dynamo stopped in the user's code, as the output of a run tells."""
    found = [*_FRAME.finditer(log.rpartition(_USER_CODE)[2])] if _USER_CODE in log else []
    if not found:
        return NOWHERE
    return _spot(found[-1])


def raised_at(log: str) -> Spot:
    """Where a function of a reduced script raised as it ran; nowhere where that is not known to the line."""
    own = [frame for frame in _FRAME.finditer(log) if _REDUCED.search(frame["file"])]
    if not own or own[-1]["within"] == _MODULE or own[-1]["text"].startswith(_HEADERS):
        return NOWHERE
    return replace(_spot(own[-1]), is_exact=True)


def checked_by(log: str) -> str:
    """The line of a reduced script, outside of its functions, that ended the run; "" if there is none."""
    own = [frame for frame in _FRAME.finditer(log) if _REDUCED.search(frame["file"])]
    return own[-1]["text"] if own and own[-1]["within"] == _MODULE else ""


def _spot(frame: re.Match[str]) -> Spot:
    before, marks = len(frame["indent"]), (frame["marks"] or "").rstrip()
    columns = (len(marks) - len(marks.lstrip()) - before, len(marks) - before) if marks else None
    return Spot(int(frame["line"]), frame["text"].rstrip(), columns)


def calls_at(spot: Spot, calls: Sequence[ast.Call], source: str) -> list[ast.Call]:
    """Those of `calls` that stand at `spot`, the one that failed first: what is marked, then what is outermost."""
    there = [call for call in calls if spot.line and call.lineno <= spot.line <= (call.end_lineno or call.lineno)]
    inner = {id(node) for call in there for node in _below(call)}
    there.sort(key=lambda call: id(call) in inner)
    lines = source.splitlines()
    text = lines[spot.line - 1] if 0 < spot.line <= len(lines) else ""
    if spot.columns is None or text.strip() != spot.text:
        return there
    indent = len(text) - len(text.lstrip())
    marked = [call for call in there if _columns(call, spot.line, indent, len(text)) == spot.columns]
    return marked or ([] if spot.is_exact else there)


def _below(call: ast.Call) -> Iterator[ast.AST]:
    return (node for node in ast.walk(call) if node is not call)


def _columns(call: ast.Call, line: int, indent: int, longest: int) -> tuple[int, int]:
    """The columns of `call` in `line`, counted from the indentation; a call of several lines ends with its first."""
    start = call.col_offset if call.lineno == line else indent
    end = call.end_col_offset or longest if call.end_lineno == line else longest
    return start - indent, end - indent
