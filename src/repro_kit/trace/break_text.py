"""Parse graph breaks as torch words them, in its artifact and in its log."""

from __future__ import annotations

import re
from dataclasses import dataclass

from repro_kit.model.failure.failure import Frame
from repro_kit.trace.places import CompileRef, user_frame

_LINK = re.compile(r"https?://\S+?/(gb\d+)\S*")
_AT = re.compile(r"Graph break in user code at (?P<file>.+):(?P<line>\d{1,9})$", re.MULTILINE)
_FRAME = re.compile(r'^ +File "(?P<file>.+)", line (?P<line>\d{1,9}), in (?P<function>.+)$')
_FIELDS = re.compile(r"^ {1,2}(?P<key>Explanation|Hint|Developer debug context): ?", re.MULTILINE)
_RAISED = re.compile(r"^(?:torch\.[\w.]*\.)?(?:Unsupported|UserError|[A-Z]\w+Error|\w+Exception): ", re.MULTILINE)
_ANOTHER = "*** While handling this graph break, another graph break occurred: ***"
_SKIPPED = ("results in a skip", "fall back to eager", "Skipping the function and falling back to eager")
_STACKS = (
    "User code traceback:",
    "The graph break occurred in the following user code:",
    "from user code at:",
    "from user code:",
)


@dataclass(frozen=True)
class GraphBreak:
    """One place where a graph ends.

    `kind` is torch's name for the break, `code` its number in torch's registry (``GB0124``). `skipped`: Dynamo could
    not resume after the break and left the whole frame to eager. `extra_graphs`: how many graphs were compiled from the
    code after the break.
    """

    kind: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    code: str = ""
    link: str = ""
    where: Frame | None = None
    stack: tuple[Frame, ...] = ()  # of the user's code, outermost first
    skipped: bool = False
    count: int = 0
    compiles: tuple[CompileRef, ...] = ()
    extra_graphs: int = 0


def parse(text: str) -> GraphBreak:
    """Parse the artifact of a graph break, or its message in a log."""
    head = text.partition("Traceback (most recent call last):")[0]
    stack = user_stack(head) or user_stack(text)
    where = user_frame(stack) or (stack[-1] if stack else None)
    at = _AT.search(head)
    if where is None and at:
        where = Frame(at["file"], int(at["line"]), "", "")
    reason, _, second = _reason(text, head).partition(_ANOTHER)
    kind, explanation, hints, context = _fields(reason)
    _, _, further, _ = _fields(second)
    link = _LINK.search(reason)
    return GraphBreak(
        kind,
        explanation,
        (*hints, *further),
        context,
        link[1].upper() if link else "",
        link[0] if link else "",
        where,
        stack,
        skipped=any(sign in head for sign in _SKIPPED),
    )


def _reason(text: str, head: str) -> str:
    """Torch's message, from the head or the end of a traceback."""
    if head.startswith("Graph break: ") and not head.startswith("Graph break: from user code"):
        return re.split(r" from user code at:?", head.partition(": ")[2])[0].strip()  # torch before 2.5
    for mark in ("Graph Break Reason: ", "Reason: "):
        if mark in head:
            reason = head.partition(mark)[2]
            return re.split(r"\n\s*\n?\s*User code traceback:", reason)[0].strip()
    raised = _RAISED.findall(text)
    if raised:
        reason = text.rpartition(raised[-1])[2]
        return re.split(r"\n\s*\nfrom user code:", reason)[0].strip()
    return head.strip()


def _fields(reason: str) -> tuple[str, str, tuple[str, ...], str]:
    """Kind, explanation, hints and context of a message. An old message has only a kind."""
    body = re.split(r"\n\s*(?:For more details about this graph break|Stack variable source attribution:)", reason)[0]
    parts = _FIELDS.split(body)
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", parts[0]) if part.strip()]
    kind = paragraphs[-1] if len(parts) > 1 and paragraphs else " ".join(parts[0].split())
    values: dict[str, list[str]] = {}
    for key, value in zip(parts[1::2], parts[2::2], strict=True):
        values.setdefault(key, []).append(" ".join(value.split()))
    explanation = " ".join(values.get("Explanation", ()))
    context = " ".join(values.get("Developer debug context", ()))
    return kind, explanation, tuple(values.get("Hint", ())), context


def user_stack(text: str) -> tuple[Frame, ...]:
    """The user's stack in a message, outermost frame first."""
    for mark in _STACKS:
        if mark in text:
            return _frames(text.partition(mark)[2])
    return ()


def _frames(text: str) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    for line in text.split("\n"):
        match = _FRAME.match(line)
        if match:
            frames.append(Frame(match["file"], int(match["line"]), match["function"]))
        elif frames and line.startswith("    ") and not frames[-1].code and line.strip(" ^~"):
            last = frames[-1]
            frames[-1] = Frame(last.file, last.line, last.function, line.strip())
        elif line.strip() and not line.startswith(" ") and frames:
            break
    return tuple(frames)
