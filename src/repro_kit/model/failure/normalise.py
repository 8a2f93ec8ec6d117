"""Normalise messages, so that two sightings of one failure compare equal, and compare normalised messages.

Only the first paragraph of a message counts. Addresses, numbers, paths, sizes, dtypes, generated names and the user's
variables are removed. What names the fault stays: operators, attributes, functions in a native compiler's error.
"""

from __future__ import annotations

import re
from collections import Counter

#: Where a message ends and torch's notes about it begin.
_NOTES = re.compile(
    r"\n\s*(?:from user code:|Set TORCHDYNAMO_VERBOSE|target: |args\[0\]:|While executing |Original traceback"
    r"|Found from|Exception raised from |User Stack |Developer debug context|You can suppress this exception|frame #\d"
    r"|Minifier script|Search for [`']\w+' in https|CUDA kernel errors might"
    r"|Compile with `TORCH_USE|The above operation failed|Caused by: )"
    r"|[.!]? For more (?:information|details|debugging)"
)
#: What CPython adds if a recursion reaches its limit. The place is chance.
AT_DEPTH = re.compile(r"(?<=maximum recursion depth exceeded) (?:in|while) .*")
_ERROR_LINE = re.compile(r"^.*?(?:fatal )?error: ?(?P<text>.+)$", re.MULTILINE)
#: torch's list of the reasons why a dimension cannot be dynamic. Its headline says no more than that there are some.
_VIOLATION = re.compile(r"^Constraints violated [^\n]*\n\s*- (?P<text>.+)$", re.MULTILINE)
#: torch's message under `error_on_recompile`. Which function it was, and where, changes while a program shrinks.
_RECOMPILED = re.compile(
    r"^Recompiling function [^\n]*\n\s*triggered by [^\n]*\n\s*- (?:[\d/]+: )?(?P<text>.+)$", re.MULTILINE
)
_EXPLANATION = re.compile(r"^\s*Explanation: (?P<text>.+)$", re.MULTILINE)
#: What pytest advises below a failed assertion: how to see the rest of it.
_ADVICE = re.compile(r"^.*\b[Uu]se '?-vv?'? to (?:show|get (?:more|the full) diff)[^\S\n]*(?:\n|\Z)", re.MULTILINE)
_TRITON = re.compile(r"^at \d+:\d+:")

_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": "'", "”": "'", '"': "'", "`": "'"})
_DTYPES = (
    r"(?:torch\.|c10::|at::)?(?:b?float\d+\w*|float|double|half|BFloat16|Half|Double|Float|Long|long(?: long)?"
    r"|u?int\d+(?:_t)?|unsigned|Int|Short|Char|Byte|Bool|bool|complex\w*|Complex\w*|short|(?:un)?signed char|int)\b"
    r"(?: int)?"
)
_DTYPE_PREFIX = re.compile(r"\b(?:at_|c10_)?(?:B?Float\d*|Half|BFloat16|float|double|u?int\d*(?:_t)?|bool)_(?=[a-z])")
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # torch specializes on the sizes 0 and 1 for reasons of its own; any other size is the program's.
        (r"(?<=specialized it to be a constant )\([01]\)", "'zero or one'"),
        (r"\b[LG]\['[^']*'\](?:\.\w+(?:\(\))?|\[[^\]]*\])*", "<source>"),
        (r"(?<=guard tensor )'\w+'", "<source>"),
        (r"0x[0-9a-fA-F]+", "#"),
        (r"'?(?:[A-Za-z]:)?(?:/[\w.+@~-]+)*/([A-Za-z_]\w{0,39}\.(?:cpp|cc|cu|cuh|h|hpp|c))\b'?(?::\d+)*", r"\1"),
        (r"(?:[A-Za-z]:)?(?<![\w.])(?:/[\w.+@~=-]+){2,}(?::\d+)*", "<path>"),
        (r"\bCPU_CAPABILITY::|\b(?:AVX2|AVX512|DEFAULT|SVE256|NEON)::", ""),
        (r"\b(?:cpp_fused|triton_[a-z]{2,3}_fused)_\w+", "<kernel>"),
        (r"(?<![\w.:'])" + _DTYPES, "<dtype>"),
        (r"<class '([^']+)'>", r"\1"),
        (r"\b([A-Za-z_]\w*?)_*\d+(?:_\w*)?\b(?!\()", r"\1#"),
        (r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?\b", "#"),
    )
)
#: Remaining values: an innermost bracket that holds more than words, and a sequence of numbers.
_BRACKET = re.compile(r"[\[({]([^\[\](){}]*)[\])}]")
_VALUE = re.compile(r"[,=#…]|\.\.\.|^(?:None|True|False|<dtype>)$")
_RUN = re.compile(r"[#…](?:(?:, ?| x | ?[-+*/] ?)[#…])+")
_TEMPLATE = re.compile(r"<[^<>]*>")
_KEY = re.compile(
    r"'([^']{1,80})'|\b((?:aten|prims|torch\.ops|quantized|inductor)(?:\.|::)[\w.:]+)"
    r"|(?: ([<>]=?|==|!=) |\b(Eq|Ne)[…(])"  # the relation of a symbolic expression
)
_WORD = re.compile(r"[A-Za-z]{3,}")
_LIMIT = 300
_LONGEST = 4000  # characters that are read; a message may include the text of a whole graph


def normalise(message: str) -> str:
    """The part of `message` that names the fault, without what varies between runs (see the module docstring)."""
    text = fault_line(message)
    return _clean(_without_types(text) if _is_native(message) else text)


def fault_line(message: str) -> str:
    """The part of `message` that names the fault, as it was written, on one line.

    Of a native compiler, or of its linker, that is the first ``error:`` line.
    """
    if _is_native(message):
        error_line = _ERROR_LINE.search(message.partition("\nOutput:\n")[2] or message)
        return (error_line["text"] if error_line else message.strip().rsplit("\n", 1)[-1]).translate(_QUOTES)
    if _TRITON.match(message):
        message = message.rstrip().rsplit("\n", 1)[-1]
    message = _ADVICE.sub("", message)
    explanation = _EXPLANATION.search(message)
    head = _NOTES.split("\n" + message, maxsplit=1)[0].strip().partition("\n\n")[0]
    if explanation:
        head = f"{head.partition(chr(10))[0]}: {explanation['text']}"
    recompiled = _RECOMPILED.match(message)
    if recompiled:
        head = f"recompiled because of the guard {recompiled['text']}"
    violation = _VIOLATION.search(message)
    if violation:
        head = f"{head}: {violation['text']}"
    head = AT_DEPTH.sub("", head)
    return " ".join(head.replace("\0", "").translate(_QUOTES).split())


def _is_native(message: str) -> bool:
    return "\nOutput:\n" in message or re.search(r": (?:fatal )?error: ", message) is not None


def _without_types(text: str) -> str:
    """`text` of a native compiler without template arguments, parameters and dtypes."""
    while _TEMPLATE.search(text):
        text = _TEMPLATE.sub("", text)
    text = re.sub(r"\([^()']*\)(?: const)?(?=')|\[with [^\]]*\]", "", text)
    text = _DTYPE_PREFIX.sub("", text)
    return re.sub(rf"\b{_DTYPES}", "dtype", text)


def _clean(text: str) -> str:
    text = " ".join(text.replace("\0", "").translate(_QUOTES).split())[:_LONGEST]
    if text.count("'") == 2 and text[0] == text[-1] == "'":  # a KeyError's
        text = text[1:-1]
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _RUN.sub("#", _collapse(text)).strip()[:_LIMIT]


def _collapse(text: str) -> str:
    """Replace by ``…`` each bracket that holds values: sizes, or the text of a tensor or of an IR node."""
    kept: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if _VALUE.search(match[1]):
            return "…"
        kept.append(match[0])
        return f"\0{len(kept) - 1}\0"

    while _BRACKET.search(text):
        text = _BRACKET.sub(replace, text)
    while "\0" in text:
        text = re.sub("\0(\\d+)\0", lambda match: kept[int(match[1])], text)
    return text


def same_message(first: str, second: str, *, likeness: float, keys: bool = True) -> bool:
    """Whether two normalised messages name the same fault.

    Equal texts do. Otherwise the share of common words (Dice's coefficient, 0 to 1) must reach `likeness`, and with
    `keys` the quoted words, the operators and the relations must be equal, because these name the fault.
    """
    if first == second:
        return True
    if not first or not second or (keys and _keys(first) != _keys(second)):
        return False
    left, right = Counter(_WORD.findall(first.lower())), Counter(_WORD.findall(second.lower()))
    words = left.total() + right.total()
    return words > 0 and 2 * (left & right).total() / words >= likeness


def _keys(text: str) -> set[str]:
    return {"".join(alternatives) for alternatives in _KEY.findall(text)}
