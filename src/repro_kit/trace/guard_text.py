"""Parse guards as torch words them, in recompile reasons and in the printed guard tree."""

from __future__ import annotations

import re
from dataclasses import dataclass

from repro_kit.model.failure.failure import Frame

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
