"""What texts show besides tracebacks: last words of a process, faulthandler's stack, assert_close's numbers."""

from __future__ import annotations

import math
import re

from repro_kit.model.failure.failure import STATE, Difference, Frame

#: glibc's malloc/malloc.c; its assertions read otherwise before 2.36, and again since 2.38 (assert/assert.c).
_HEAP = re.compile(
    r"^.*?(?P<text>"
    r"(?:malloc|free|realloc|munmap_chunk|mremap_chunk|malloc_consolidate|calloc|_int_malloc|sysmalloc)\(\): .+"
    r"|Fatal glibc error: malloc.*|malloc\.c:\d+: .+: Assertion .*|break adjusted to free malloc space"
    r"|malloc_consolidate.*|double free or corruption.*|corrupted (?:size vs\. prev_size|double-linked list).*"
    r"|\*\*\* (?:stack smashing|buffer overflow) detected \*\*\*.*|munmap_chunk.*invalid pointer.*"
    r"|tcache_thread_shutdown.*)$",
    re.MULTILINE,
)
_TERMINATE = re.compile(
    r"^terminate called (?:after throwing an instance of '(?P<type>[^']+)'(?:\s+what\(\):\s+(?P<what>.*))?|.*)$",
    re.MULTILINE,
)
#: What each further thread prints at once that fails too, also within the message of the first.
_RECURSIVELY = "terminate called recursively\n"
_ASSERT = re.compile(r"^.*Assertion [`'].*' failed\.?.*$", re.MULTILINE)
_FATAL = re.compile(r"^Fatal Python error: (?P<what>.+)$", re.MULTILINE)
_FATAL_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating": "SIGFPE",
    "Illegal instruction": "SIGILL",
}
_STACK_HEAD = re.compile(r"^(?:(?P<current>Current )?[Tt]hread 0x[0-9a-f]+.*|Stack )\(most recent call first\):$")
_STACK_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+|\?\?\?) in (?P<function>.+)$')
_STACK_NOTE = re.compile(r"^  (?:Garbage-collecting$|<|\.\.\.)")  # CPython's Python/traceback.c

_NUMBER = r"(-?\d+\.?\d*(?:e[+-]?\d+)?|nan|inf)"
_MAX_ABS = re.compile(rf"(?:Greatest absolute|Absolute|Max absolute) difference(?: among violations)?: {_NUMBER}")
_MAX_REL = re.compile(rf"(?:Greatest relative|Relative|Max relative) difference(?: among violations)?: {_NUMBER}")
_SHARE = re.compile(r"Mismatched elements: (\d+) / (\d+)")
_ATTRIBUTE = re.compile(
    r"The values for attribute '([\w()]+)' do not match|\b(shape|dtype)s? (?:do not match|mismatch)"
)
#: What a `repro.py` compares besides values, by its names (bundle/repro/program_repro.py).
_COMPARED = re.compile(r"The failure occurred for item (?:\[\d+\])?\['(strides|requires_grad|aliases)'\]")
_FORMS = {"strides": "stride", "requires_grad": "requires_grad", "aliases": "alias"}
#: A compiled call that returns what eager returns (templates/compared_calls.py.j2).
OTHER_STATE = "leaves another Python state than in eager"
_STRUCTURE = re.compile(r"The length of the sequences mismatch: |\bNone mismatch: |has other parts than in eager: ")


def last_words(text: str) -> str:
    """The message of the heap checker, of C++'s terminate or of a C assertion in `text`; "" without one."""
    heap = _HEAP.search(text)
    if heap:
        return heap["text"]
    for ended in _TERMINATE.finditer(text.replace(_RECURSIVELY, "")):
        if ended["type"]:
            return f"{ended['type']}: {ended['what']}" if ended["what"] else ended[0]
    asserted = _ASSERT.search(text)
    return asserted[0].strip() if asserted else ""


def is_heap_message(text: str) -> bool:
    """Whether `text` holds a message of glibc's heap checks or of the stack protector."""
    return bool(_HEAP.search(text))


def signal_in(text: str) -> str | None:
    """The signal that ended the process according to `text`: ``SIGSEGV``; None when `text` shows no crash."""
    fatal = _FATAL.search(text)
    if fatal:
        return next((name for words, name in _FATAL_SIGNALS.items() if words in fatal["what"]), "SIGABRT")
    return "SIGABRT" if _HEAP.search(text) or _TERMINATE.search(text) else None


def faulthandler_stack(text: str) -> tuple[Frame, ...]:
    """The stack (outermost first) that faulthandler printed: of the current thread, else the last one with frames."""
    stacks: list[tuple[bool, list[Frame]]] = []
    reading: list[Frame] | None = None
    for line in text.splitlines():
        head = _STACK_HEAD.match(line)
        frame = _STACK_FRAME.match(line)
        if head:
            reading = []
            stacks.append((bool(head["current"]), reading))
        elif frame and reading is not None:
            number = int(frame["line"]) if frame["line"].isdigit() else 0
            reading.append(Frame(frame["file"], number, frame["function"]))
        elif not _STACK_NOTE.match(line):
            reading = None
    full = [(current, frames) for current, frames in stacks if frames]
    chosen = next((frames for current, frames in full if current), full[-1][1] if full else [])
    return tuple(reversed(chosen))


def difference_in(message: str) -> Difference | None:
    """The difference that ``torch.testing.assert_close`` or numpy.testing describes; None for other messages."""
    if OTHER_STATE in message:
        return Difference(STATE, "", detail=message[:500])
    attribute = _ATTRIBUTE.search(message)
    if attribute:
        name = (attribute[1] or attribute[2]).removesuffix("()")
        return Difference(name, "", detail=message[:500])
    compared = _COMPARED.search(message)
    if compared:
        return Difference(_FORMS[compared[1]], "", detail=message[:500])
    if _STRUCTURE.search(message):
        return Difference("structure", "", detail=message[:500])
    relative, absolute, share = _MAX_REL.search(message), _MAX_ABS.search(message), _SHARE.search(message)
    if not (relative or absolute or share):
        return None
    numbers = [float(match[1]) if match else 0.0 for match in (absolute, relative)]
    nan = any(map(math.isnan, numbers))
    return Difference(
        "nan" if nan else "value",
        "",
        max_abs=0.0 if nan else numbers[0],
        max_rel=0.0 if nan else numbers[1],
        fraction=int(share[1]) / max(int(share[2]), 1) if share else 0.0,
        detail=message[:500],
    )
