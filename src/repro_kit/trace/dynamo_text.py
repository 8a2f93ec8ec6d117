"""Parse graph breaks and guards as Dynamo words them, in artifacts and in logs."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from repro_kit.failure.failure import Frame
from repro_kit.trace.places import CompileRef, is_users, user_frame, users_own

_LINK = re.compile(r"https?://\S+?/(gb\d+)\S*")
_AT = re.compile(
    r"Graph break (?:\(user stack suppressed [^)]*\) )?in user code at (?P<file>.{1,500}):(?P<line>\d{1,9})$",
    re.MULTILINE,
)
_FRAME = re.compile(r'^ +File "(?P<file>.+)", line (?P<line>\d{1,9}), in (?P<function>.+)$')
_FIELDS = re.compile(r"^ {0,8}(?P<key>Explanation|Hint|Developer debug context): ?", re.MULTILINE)
_RAISED = re.compile(r"^(?:torch\.[\w.]*\.)?(?:Unsupported|UserError|[A-Z]\w+Error|\w+Exception): ", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_ANOTHER = "*** While handling this graph break, another graph break occurred: ***"
_SKIPPED = ("results in a skip", "fall back to eager", "Skipping the function and falling back to eager")
_STACKS = (
    "User code traceback:",
    "The graph break occurred in the following user code:",
    "from user code at:",
    "from user code:",
    "from user code at ",  # of torch 2.0, which begins the stack in the same line
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
    caller: Frame | None = (
        None  # the user's own line, where the break is in an installed package or in Python's library
    )
    opened: bool = False  # in a library's code that is compiled alone only since the graph broke at `caller`


def parse(text: str) -> GraphBreak:
    """Parse the artifact of a graph break, or its message in a log."""
    if text.lstrip().startswith(_TRACEBACK) and (at := _AT.search(text)):
        text = f"{text[at.start() :]}\n{text[: at.start()]}"  # its traceback comes first
    head = text.partition(_TRACEBACK)[0]
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
        caller=None if where is None or is_users(where.file) else users_own(stack),
    )


def _reason(text: str, head: str) -> str:
    """Torch's message, from the head or the end of a traceback."""
    if head.startswith("Graph break: ") and not head.startswith("Graph break: from user code"):
        return re.split(r" from user code at:?", head.partition(": ")[2])[0].rstrip(": ")  # torch before 2.5
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


_PLACE = re.compile(r"# (?P<file>[^\s#()]+\.\w+|<[\w ./-]+>):(?P<line>\d{1,9}) in (?P<function>[\w.<>]+)")
_SOURCE = re.compile(r"(?:[LG]\['[^']+'\]|\b[LG]\[\"[^\"]+\"\])(?:\.[A-Za-z_]\w*(?:\(\))?|\[[^\]]*\])*")
_MISMATCH = re.compile(
    r"tensor '(?P<source>.+?)' (?P<what>[\w ]+?) mismatch"
    r"(?: at index (?P<index>\d+))?\. expected (?P<expected>.+?)(?:, actual (?P<actual>.+?))?(?:\. (?P<remark>.*))?$"
)
#: torch/csrc/dynamo/guards.cpp, TENSOR_MATCH; torch has the odd quotation mark.
_NO_TENSOR = re.compile(
    r"expected type of '(?P<source>.+?)' to be (?P<expected>[^,]+?),? ?'? but found (?P<actual>.+)$"
)
#: torch says of requires_grad only what was expected.
_OTHER_GRAD = {"requires_grad=0": ("False", "True"), "requires_grad=1": ("True", "False")}
_CHECKED = re.compile(r"^___check_\w+\((?P<source>.+?), \d+\)(?:, type=(?P<expected>.+))?$")
_SIZE = re.compile(r"\.(?:size|stride|storage_offset)\(\)|\bsize mismatch")
_COMPARED = re.compile(r"^(?P<source>[^=<>!]+?) (?:==|is) (?P<value>.+)$")
#: torch/_dynamo/guards.py, SEQUENCE_LENGTH: of a container that was empty.
_EMPTY = re.compile(r"^not (?P<source>[LG]?(?:[A-Za-z_]\w*|\[)[^()]*)$")
_HINT = re.compile(r" \(HINT: (.*)\)$")
_STACK_FRAME = re.compile(
    r'^ +File "(?P<file>.+)", line (?P<line>\d{1,9}), in (?P<function>.+)(?:\n {4,}(?P<code>.*))?', re.M
)
_BARE = re.compile(
    r"(?<![\w.'\"(])(?!(?:not|len|type|hasattr|str|math|torch|utils_device)\b|___)"
    r"[A-Za-z_]\w*(?:\.\w+(?:\(\))?|\[[^\]]*\])*(?![\w.(\[])"
)
_ARGUMENT = re.compile(r"\((?:[^()]*?, )?(?P<name>(?!['\"\d])[A-Za-z_]\w*(?:\.\w+(?:\(\))?|\[[^\]]*\])*(?![\w.(\[]))")
_LOCAL = re.compile(r"^(?:[LG]\['|___|[A-Za-z_])")


class Guard:
    """Kinds of guards, in the user's terms."""

    SIZE = "size"
    RANK = "rank"
    STRIDE = "stride"
    DTYPE = "dtype"
    DEVICE = "device"
    GRAD = "requires_grad"
    DISPATCH = "dispatch keys"
    VALUE = "value"
    TYPE = "type"
    IDENTITY = "identity"
    PRESENCE = "presence"  # a key or attribute exists, a container has a length
    ALIASING = "aliasing"
    MARKING = "dynamic marking"
    STATE = "global state"
    BACKEND = "backend"
    OTHER = "other"


#: The kind of a guard by its text; the first match wins.
_KINDS = (
    (re.compile(r"size mismatch|\.size\(\)"), Guard.SIZE),
    (re.compile(r"rank mismatch|\.ndim\b|\.dim\(\)"), Guard.RANK),
    (re.compile(r"stride mismatch|\.stride\(\)|storage_offset\(\)"), Guard.STRIDE),
    (re.compile(r"dtype mismatch"), Guard.DTYPE),
    (re.compile(r"device (?:index )?mismatch"), Guard.DEVICE),
    (re.compile(r"requires_grad(?: mismatch|=)"), Guard.GRAD),
    (re.compile(r"[Dd]ispatch ?[Kk]ey(?:Set| set)? ?(?:set )?mismatch"), Guard.DISPATCH),
    (re.compile(r"^BACKEND_MATCH"), Guard.BACKEND),
    (re.compile(r"_dynamo_\w*(?:dynamic|static|unbacked)_indices|_dynamo_\w*range"), Guard.MARKING),
    (
        re.compile(
            r"[Dd]uplicate tensor|___check_no_alias|NO_TENSOR_ALIASING| is (?:not )?(?!None\b|True\b|False\b)[A-Za-z_]"
        ),
        Guard.ALIASING,
    ),
    (re.compile(r"___check_type_id|\btype\(|expected type|^TYPE_MISMATCH"), Guard.TYPE),
    (re.compile(r"___check_obj_id|___check_\w*id\b|\bid\("), Guard.IDENTITY),
    (
        re.compile(r"\blen\(|___dict_contains|hasattr\(|___dict_keys|\bin [LG]\[|\bnot in\b|list\(.*keys"),
        Guard.PRESENCE,
    ),
    (re.compile(r"GLOBAL_STATE|___check_(?:global_state|torch_fun)|grad_mode|(?:DEFAULT|CURRENT)_DEVICE"), Guard.STATE),
    (re.compile(r"==|\bis (?:None|True|False|not None)\b|isnan|!="), Guard.VALUE),
)  # fmt: skip

#: The kinds of guards on what is no tensor.
_OF_OBJECTS = (Guard.VALUE, Guard.TYPE, Guard.IDENTITY, Guard.PRESENCE)
_ACCESS = re.compile(r"(?:\.[A-Za-z_]\w*|\[[^\]]*\])$")


@dataclass(frozen=True)
class GuardText:
    """One guard: what it checks (`text`, without torch's comments), its source, and the user's line that caused it.

    `expected` and `actual` are set if torch names both. `note` is torch's remark (0/1 specialization, duck sizing, a
    hint).
    """

    text: str
    kind: str = Guard.OTHER
    source: str = ""
    expected: str = ""
    actual: str = ""
    where: Frame | None = None
    note: str = ""

    @property
    def size_related(self) -> bool:
        """Whether dynamic shapes could satisfy the guard."""
        return self.kind in (Guard.SIZE, Guard.STRIDE) and "rank mismatch" not in self.text

    @property
    def form(self) -> str:
        """The kind and, of a guard on an object of Python, where that is, and of which type: "value, str, attribute of
        a local".

        A program keeps it while names and values change.
        """
        if self.kind not in _OF_OBJECTS:
            return self.kind
        source = whole_source(self.source)
        scope = {"L": "local", "G": "global"}.get(source[:1], "")
        within = _ACCESS.search(source.partition("]")[2])
        access = ("item of a " if within[0].endswith("]") else "attribute of a ") if within else ""
        return ", ".join(filter(None, (self.kind, _type_of(self.expected), f"{access}{scope}" if scope else "")))


def parse_guard(text: str) -> GuardText:
    """Parse a guard with torch's comments: ``2 <= x.size()[0]  # if x.shape[0] < 10:  # a.py:3 in f (…)``."""
    line, _, stack = text.strip().partition("\nUser stack trace:\n")
    body, _, comment = line.partition("  # ")
    where, note = _comment(comment)
    hint = _HINT.search(body)
    body = _EMPTY.sub(r"len(\g<source>) == 0", _HINT.sub("", body).strip())
    where = _innermost(stack) or where
    note = note or (hint[1] if hint else "")
    kind = next((kind for pattern, kind in _KINDS if pattern.search(body)), Guard.OTHER)
    mismatch = _MISMATCH.search(body)
    if mismatch:
        dimension = (
            f".{'stride' if kind == Guard.STRIDE else 'size'}()[{mismatch['index']}]" if mismatch["index"] else ""
        )
        note = note or mismatch["remark"] or ""
        body = body.removesuffix(f". {mismatch['remark']}")
        expected, actual = mismatch["expected"], mismatch["actual"] or ""
        if not actual and expected in _OTHER_GRAD:
            expected, actual = _OTHER_GRAD[expected]
        return GuardText(body, kind, mismatch["source"] + dimension, expected, actual, where, note)
    other = _NO_TENSOR.search(body)
    if other:
        return GuardText(body, kind, other["source"], other["expected"], other["actual"], where, note)
    checked = _CHECKED.match(body)
    if checked:
        return GuardText(body, kind, checked["source"], checked["expected"] or "", "", where, note)
    compared = _COMPARED.match(body)
    return GuardText(body, kind, _source(body), compared["value"] if compared else "", "", where, note)


def _comment(comment: str) -> tuple[Frame | None, str]:
    """The user's line and torch's remark in a comment: ``CODE  # FILE:7 in f (…) and CODE  # FILE:8 in g (…)``.

    A part that torch attributes to 0/1 specialization or duck sizing is used only if there is no other part.
    """
    pairs: list[tuple[Frame, str]] = []
    start = 0
    for match in _PLACE.finditer(comment):
        code = comment[start : match.start()].rpartition(") and ")[2].rstrip(" #").strip()
        rest = comment[match.end() :].lstrip()
        note = _remark(rest.partition(") and ")[0]) if rest.startswith("(user code shown") else ""
        pairs.append((Frame(match["file"], int(match["line"]), match["function"], code), note))
        start = match.end()
    if not pairs:
        return None, _remark(comment)
    own = [pair for pair in pairs if not pair[1]] or pairs
    return own[-1]


def _remark(text: str) -> str:
    if "0/1 specialization" in text:
        return "0/1 specialization"
    return "duck sizing" if "duck sizing" in text else ""


def _innermost(stack: str) -> Frame | None:
    """The last frame of a stack as Python prints it."""
    matches = list(_STACK_FRAME.finditer(stack))
    if not matches:
        return None
    last = matches[-1]
    return Frame(last["file"], int(last["line"]), last["function"], (last["code"] or "").strip())


def _type_of(literal: str) -> str:
    """``str`` for ``'train'``; "" for what is no literal."""
    try:
        value = ast.literal_eval(literal)
    except (ValueError, SyntaxError):
        return ""
    return type(value).__name__


def _source(body: str) -> str:
    """The source of a guard: ``L['x'].size()[0]``, or torch's short form (``x.size()[0]``)."""
    match = _SOURCE.search(body)
    if match:
        return match[0]
    bare, inner = _BARE.search(body), _ARGUMENT.search(body)
    chosen = bare[0] if bare else (inner["name"] if inner else "")
    return chosen if _LOCAL.match(chosen or "") else ""


def whole_source(source: str) -> str:
    """``L['x'].size()[0]`` for ``x.size()[0]``: recompile reasons omit the scope of locals.

    ``___stack0`` is a local too: a value that a graph break hands over.
    """
    match = re.match(r"(?!___(?!stack\d))([A-Za-z_]\w*)(?=[.\[]|$)", source)
    if not match or match[1] in ("L", "G"):
        return source
    return f"L['{match[1]}']{source[match.end() :]}"


def is_shape(text: str) -> bool:
    """Whether a guard of the tree is about sizes (such guards come last, as lambdas over ``.size()``)."""
    return bool(_SIZE.search(text))
