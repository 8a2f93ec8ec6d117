"""What texts show: exception chains, the last words of a dying process, stacks of faulthandler, and differences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from repro_kit.failure.failure import STATE, Difference, ExceptionLink, Frame

_LOG_PREFIX = re.compile(
    r"^(?:\[(?:rank|default)\d*\]:? ?)*(?:[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+:\d+\] ?(?:\[!?[\w/]+\] ?)*)?"
)
_OF_TORCHS_LOG = re.compile(r"^(?:\[(?:rank|default)\d*\]:? ?)*[VDIWEC]\d{4} \d\d:\d\d:\d\d\.")
_HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^ +File "(?P<file>.+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
#: A frame whose path has the ends of lines in it.
_SPLIT_FRAME = re.compile(
    r'^ +File "(?:(?!", line \d).)*(?:\n(?! +File "|Traceback )(?:(?!", line \d).)*){1,20}", line \d+(?:, in .+)?$',
    re.MULTILINE,
)
_LINE_END = "\0"  # for one in a path
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:<locals>\.\w+)*)(?:: ?(?P<message>.*))?$")
_NAMED = re.compile(r"(?:Error|Exception|Failed|Unsupported|SymNode|LimitHit|Interrupt)$")
_MARKS = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}
_PYTEST_FRAME = re.compile(r"^(?P<file>[^\s:]+\.py):(?P<line>\d+): (?:in (?P<function>\S+)|.*)$")
_PYTEST_LINE = re.compile(r"^E( {3}|$)(?P<text>.*)$")
#: Lines that end a message in mixed output.
_AFTER = re.compile(
    r"^(?:[VDIWEC]\d{4} \d\d:\d\d:\d\d\.|malloc|free\(\)|double free|corrupted |terminate called|={5,}"
    r"|Fatal Python error|Exception ignored |\[rank\d+\]:\["
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.-]+:)"
)
_RECORD = re.compile(r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")  # of Python's logging, or another log
_IGNORED = re.compile("Exception ignored ")  # before a traceback that ends nothing: of a finalizer, often at exit

#: Wrapper exceptions: their message repeats the type and message of the exception inside.
_WRAPPERS = (
    "BackendCompilerFailed", "InductorError", "LoweringException", "InternalTorchDynamoError", "TorchRuntimeError",
    "SubprocException", "ChildFailedError", "SubgraphLoweringException",
)  # fmt: skip
_INNER = re.compile(r"^(?:backend=.* raised:\n)?(?P<type>[A-Za-z_][\w.]*):(?: |\n|$)(?P<message>.*)$", re.DOTALL)
_FAKE = re.compile(
    r"FX node with fake tensors: .*?got (?P<type>\w+)\((?P<quote>[\"'])(?P<message>.*?)(?P=quote)\)\.?(?:\n|$)",
    re.DOTALL,
)
_AGAIN = re.compile(r"Caught \w+ .*\.\nOriginal Traceback \(most recent call last\):\n")
#: Exceptions that say more than their own cause does ("returned non-zero exit status 1").
_FINAL = ("CppCompileError", "CUDACompileError", "CompilationError", "FailOnRecompileLimitHit")


def short(type_name: str) -> str:
    """``torch._inductor.exc.InductorError`` -> ``InductorError``."""
    return type_name.rsplit(".", 1)[-1]


def without_torchs_log(text: str) -> str:
    """`text` without the lines of torch's own log, in which each line has its prefix (torch/_logging/_internal.py)."""
    return "\n".join(line for line in text.splitlines() if not _OF_TORCHS_LOG.match(line))


def is_final(link: ExceptionLink) -> bool:
    """Whether only the message of `link` counts, not its frames: an error of a native compiler, or a limit."""
    return short(link.type) in _FINAL


def unwrap(links: Sequence[ExceptionLink]) -> tuple[ExceptionLink, ...]:
    """The chain, ending in its root cause.

    An inner exception that appears only in a wrapper's message becomes a link of its own, without frames (the wrapper
    has them). Links below a root cause that says more than they do are dropped. Where torch raises the exception of
    another process or thread again, the chain is that of the original.
    """
    chain = list(_raised_elsewhere(links) or links)
    wrapped = [index for index, link in enumerate(chain) if short(link.type) in _WRAPPERS]
    if wrapped:
        return tuple(chain[: wrapped[-1] + 1]) + _inside(chain[wrapped[-1]], chain[wrapped[-1] + 1 :])
    for index, link in enumerate(chain):
        if is_final(link):
            return tuple(chain[: index + 1])
    return tuple(chain)


def _raised_elsewhere(links: Sequence[ExceptionLink]) -> tuple[ExceptionLink, ...]:
    """The chain of the exception that torch raises again in another process or thread (`ExceptionWrapper` in
    torch/_utils.py: workers of a DataLoader, replicas of DataParallel); empty if it raises none.
    """
    again = next((link.message for link in reversed(links) if _AGAIN.match(link.message)), None)
    original = chains(again[again.index(_HEAD) :]) if again is not None else []
    return original[-1] if original else ()


def _inside(wrapper: ExceptionLink, below: Sequence[ExceptionLink]) -> tuple[ExceptionLink, ...]:
    """The exceptions that `wrapper` wraps, taken from the links `below` if they are the same."""
    inner = _named_in(wrapper.message)
    if inner is None:
        return unwrap(below) if below else ()
    for index, link in enumerate(below):
        if short(link.type) == short(inner.type):
            return tuple(below[: index + 1])
    deeper = _inside(inner, ()) if short(inner.type) in _WRAPPERS else ()
    return (inner, *deeper)


def _named_in(message: str) -> ExceptionLink | None:
    if _HEAD in message:
        inner = chains(message[message.index(_HEAD) :])
        return inner[-1][-1] if inner else None
    inner_error = _FAKE.search(message) or _INNER.match(message)
    return ExceptionLink(inner_error["type"], inner_error["message"]) if inner_error else None


@dataclass
class _Block:
    """One exception, while it is being parsed."""

    link: str = ""  # its relation to the block before: "cause", "context" or "" (none)
    frames: tuple[Frame, ...] = ()
    type: str = ""
    message: str = ""


def chains(text: str) -> list[tuple[ExceptionLink, ...]]:
    """Every chain of exceptions in `text`, in order, each from the outermost exception to the root cause.

    An exception that was only being handled when another was raised ("context") belongs to the chain only when the
    newer one comes from outside torch's compiler and the older one from inside (a user's ``except: raise``).
    """
    text = _SPLIT_FRAME.sub(lambda frame: frame[0].replace("\n", _LINE_END), text)
    blocks = list(_python_blocks([_LOG_PREFIX.sub("", line, count=1) for line in text.splitlines()]))
    blocks = blocks or _pytest_blocks(text.splitlines()) or _bare_block(text)
    grouped: list[list[_Block]] = []
    for block in blocks:
        older = grouped[-1][0].type if grouped else ""
        hides = older.startswith(("torch._dynamo.", "torch._inductor.")) and not block.type.startswith("torch.")
        if block.link and grouped and (block.link == "cause" or hides):
            grouped[-1].insert(0, block)
        elif block.link and grouped:
            grouped[-1] = [block]
        else:
            grouped.append([block])
    return [tuple(ExceptionLink(b.type, b.message, b.frames) for b in chain) for chain in grouped]


def _python_blocks(lines: Sequence[str]) -> Iterator[_Block]:
    index, link, end = 0, "", 0
    while index < len(lines):
        mark = _MARKS.get(lines[index].strip())
        if mark:
            bare = _without_traceback(lines[end:index])
            if bare is not None:
                bare.link = link
                yield bare
            link, end = mark, index + 1
        elif lines[index].strip() == _HEAD:
            indent = len(lines[index]) - len(lines[index].lstrip())
            ignored = index > 0 and _IGNORED.match(lines[index - 1]) is not None
            index, block = _python_block(lines, index + 1, indent)
            block.link, link = link, ""
            if block.type and not ignored:
                yield block
            end = index
            continue
        index += 1


def _without_traceback(lines: Sequence[str]) -> _Block | None:
    """The exception at the end of `lines`. Python prints no head for an exception that has no frames."""
    for index in reversed(range(len(lines))):
        head = _EXCEPTION.match(lines[index])
        if head and _NAMED.search(head["type"]):
            return _Block("", (), head["type"], "\n".join([head["message"] or "", *lines[index + 1 :]]).strip())
    return None


def _python_block(lines: Sequence[str], index: int, indent: int) -> tuple[int, _Block]:
    """Parse the frames and the message below a traceback's head. Returns the index of the next line, and the block."""
    frames: list[Frame] = []
    while index < len(lines):
        line = lines[index][indent:]
        frame = _FRAME.match(line)
        if frame:
            file = frame["file"].replace(_LINE_END, "\n")
            frames.append(Frame(file, int(frame["line"]), frame["function"] or ""))
        elif line.startswith("    ") and frames and not frames[-1].code:
            frames[-1] = replace(frames[-1], code=line.strip())
        elif line[:1] not in (" ", ""):
            break
        index += 1
    if index >= len(lines):
        return index, _Block(frames=tuple(frames))
    head = _EXCEPTION.match(lines[index][indent:])
    if not head:
        return index, _Block(frames=tuple(frames))
    message = [head["message"] or ""]
    index += 1
    while index < len(lines) and not _ends_message(lines, index):
        message.append(lines[index][indent:] if not lines[index][:indent].strip() else lines[index])
        index += 1
    return index, _Block("", tuple(frames), head["type"], "\n".join(message).strip())


def _ends_message(lines: Sequence[str], index: int) -> bool:
    line = lines[index].strip()
    if _RECORD.match(lines[index]):
        return True
    return line in _MARKS or bool(_AFTER.match(line)) or (line == _HEAD and not lines[index].startswith("  "))


def _pytest_blocks(lines: Sequence[str]) -> list[_Block]:
    """The exceptions in pytest's long and short styles: lines begin with ``E``, frames are ``file.py:7: in name``."""
    blocks: list[_Block] = []
    frames: list[Frame] = []
    message: list[str] = []
    link = ""
    for line in [*lines, "."]:
        error, frame = _PYTEST_LINE.match(line), _PYTEST_FRAME.match(line)
        if error:
            message.append(error["text"])
            continue
        if message and not line.strip():
            continue  # in the long style, the frame that raises comes after the message and a blank line
        if frame:
            frames.append(Frame(frame["file"], int(frame["line"]), frame["function"] or ""))
        if message:
            blocks += _pytest_block(message, frames, link)
            message, link = [], ""
            frames = []
        if _MARKS.get(line.strip()):
            link = _MARKS[line.strip()]
        elif line.startswith("____"):
            frames = []
    return blocks


def _bare_block(text: str) -> list[_Block]:
    """`text` as one exception without a traceback (``TYPE: REASON``, as torch's metrics have it)."""
    first, _, rest = text.strip().partition("\n")
    head = _EXCEPTION.match(first)
    if not head or not _NAMED.search(head["type"]):
        return []
    return [_Block("", (), head["type"], f"{head['message'] or ''}\n{rest}".strip())]


def _pytest_block(message: list[str], frames: Sequence[Frame], link: str) -> list[_Block]:
    head = _EXCEPTION.match(message[0].strip())
    if head and (head["message"] is not None or head["type"][:1].isupper()):
        text = "\n".join([head["message"] or "", *message[1:]]).strip()
        return [_Block(link, tuple(frames), head["type"], text)]
    return [_Block(link, tuple(frames), "AssertionError", "\n".join(message).strip())]


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
