"""Parse Python tracebacks in text into exception chains, and unwrap the wrapper exceptions of torch.compile.

Formats: CPython's `traceback` and `faulthandler`, pytest's long and short styles, and torch's log prefix before any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from repro_kit.model.failure.failure import ExceptionLink, Frame

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
    for line in [*lines, ""]:
        error, frame = _PYTEST_LINE.match(line), _PYTEST_FRAME.match(line)
        if error:
            message.append(error["text"])
            continue
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
