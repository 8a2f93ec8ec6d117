"""What the message of an exception shows: the fault without what varies, the operator, lateness, a stated tolerance."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from repro_kit.failure.failure import ExceptionLink

#: Where a message ends and torch's notes about it begin.
_NOTES = re.compile(
    r"\n\s*(?:from user code:|Set TORCHDYNAMO_VERBOSE|target: |args\[0\]:|While executing (?:%|return )"
    r"|Original traceback|Found from|Exception raised from |User Stack |Developer debug context"
    r"|You can suppress this exception|frame #\d|Minifier script|Search for [`']\w+' in https"
    r"|CUDA kernel errors might|Compile with `TORCH_USE|The above operation failed|Caused by: )"
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
#: How pytest explains a failed assertion that has a message of its own: with the texts of tensors, and addresses.
_PYTESTS = re.compile(r"(?<!\A)\nassert [^\n]*\n\s*\+ +where .*", re.DOTALL)
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
        (r"(?<![\w./])[\w-]+\.py:\d+", "<path>"),  # a reduced script has another name
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
#: An operator with its overload; without a home, only with an overload that nothing else is called.
_OVERLOAD = re.compile(
    r"(?:\btorch\.ops\.)?\b(?:aten|prims|quantized)(?:\.|::)(?P<name>\w+)(?:\.[A-Za-z]\w*)?"
    r"|\b(?P<bare>[a-z_]\w*)\.(?:default|out|Tensor|Scalar)\b(?! *=)"
)
_WORD = re.compile(r"[A-Za-z]{3,}")
_LIMIT = 300
_LONGEST = 4000  # characters that are read; a message may include the text of a whole graph


def cut(text: str, longest: int) -> str:
    """`text` on one line with at most `longest` characters, cut between two words."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    kept = text[: longest - 1].rpartition(" ")[0]
    return f"{kept.rstrip(' ,;:(=')} …" if kept else text[:longest]


def normalise(message: str) -> str:
    """The part of `message` that names the fault, without what varies between runs (see the module docstring)."""
    text = fault_line(message)
    return _clean(_without_types(text) if _is_native(message) else text)


def without_notes(message: str) -> str:
    """`message` without what torch adds to those of others: how to see more, where the user's code was."""
    return _NOTES.split("\n" + message, maxsplit=1)[0].strip()


def headline(message: str) -> str:
    """The first line of a message; of one of Dynamo's it names the kind of graph break, and the rest explains it."""
    return without_notes(message).partition("\n")[0]


def is_explained(message: str) -> bool:
    """Whether Dynamo's explanation stands below the first line."""
    return _EXPLANATION.search(message) is not None


def fault_line(message: str) -> str:
    """The part of `message` that names the fault, as it was written, on one line.

    Of a native compiler, or of its linker, that is the first ``error:`` line.
    """
    if _is_native(message):
        error_line = _ERROR_LINE.search(message.partition("\nOutput:\n")[2] or message)
        return (error_line["text"] if error_line else message.strip().rsplit("\n", 1)[-1]).translate(_QUOTES)
    if _TRITON.match(message):
        message = message.rstrip().rsplit("\n", 1)[-1]
    message = _PYTESTS.sub("", _ADVICE.sub("", message))
    explanation = _EXPLANATION.search(message)
    head = without_notes(message).partition("\n\n")[0]
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


#: What torch logs when a function has been compiled as often as it may be: the guard that failed last.
AT_THE_LIMIT = "FailOnRecompileLimitHit"
_LAST_REASON = re.compile(r"\blast reason: (?:\d+/\d+: )?(?P<guard>.+?)(?: {2,}#.*)?$", re.MULTILINE)


def last_guard(log: str) -> str:
    """The guard that failed last, in a log of a recompile limit that was reached; "" where the log names none."""
    found = _LAST_REASON.search(log)
    return found["guard"].strip() if found else ""


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
    `keys` the quoted words, the operators and the relations must be equal, because these name the fault. Of an operator
    the overload does not count: each backend picks its own (`aten.mm.default`, `aten::mm.out`).
    """
    first, second = map(_without_overloads, (first, second))
    if first == second:
        return True
    if not first or not second or (keys and _keys(first) != _keys(second)):
        return False
    left, right = Counter(_WORD.findall(first.lower())), Counter(_WORD.findall(second.lower()))
    words = left.total() + right.total()
    return words > 0 and 2 * (left & right).total() / words >= likeness


def _keys(text: str) -> set[str]:
    return {"".join(alternatives) for alternatives in _KEY.findall(text)}


def _without_overloads(text: str) -> str:
    return _OVERLOAD.sub(lambda match: f"aten.{(match['name'] or match['bare']).rstrip('_')}", text)


#: Most specific first: the operator that a lowering, an interpreter or a dispatcher names as the current one; any
#: overload; a generated kernel, whose name lists the operators fused in it.
_PATTERNS = (
    re.compile(r"^\s*target: (?P<op>[\w.]+)", re.MULTILINE),
    re.compile(r"While executing %\S+ : .*?target=(?P<op>[\w.:]+)\]", re.DOTALL),
    re.compile(r"FX node with fake tensors: call_\w+ (?:<(?:built-in )?(?:function|method) )?(?P<op>[\w.:]+)"),
    re.compile(r"Could not run '(?P<op>\w+::\w+(?:\.\w+)?)'"),
    re.compile(r"\b(?:torch\.ops\.)?(?P<op>(?:aten|prims|inductor|higher_order|_?c10d\w*)\.\w+(?:\.[A-Za-z_]\w*)?)"),
    re.compile(r"\b(?P<op>(?:aten|prims|quantized|mkldnn)::\w+(?:\.\w+)?)"),
    re.compile(r"\b(?P<op>(?:cpp_fused|(?:triton|mps)_\w{3}_fused)_\w+)"),
)
_KERNEL = re.compile(r"^(?:cpp_fused|(?:triton|mps)_\w{3}_fused)_")


_EXPLICIT = 4  # these first patterns match anywhere; the others only at the beginning, before values are listed
_BEGINNING = 600


def op_in(message: str) -> str | None:
    """The operator in `message` (``aten.relu.default``, ``torch.relu``), else a kernel (``cpp_fused_relu_0``)."""
    for number, pattern in enumerate(_PATTERNS):
        match = pattern.search(message if number < _EXPLICIT else message[:_BEGINNING])
        if match:
            return match["op"].replace("::", ".").removeprefix("torch.ops.")
    return None


def is_kernel(op: str) -> bool:
    """Whether `op` is a generated kernel: its name hints at operators, but is none."""
    return bool(_KERNEL.match(op))


def same_op(first: str | None, second: str | None) -> bool:
    """Whether two names may mean one operator. Overloads and in-place forms are equal; None equals any operator."""
    return first is None or second is None or _packet(first) == _packet(second)


def _packet(op: str) -> str:
    parts = op.split(".")
    return ".".join(parts[:2]).rstrip("_") if parts[0] in ("aten", "prims") else op.rstrip("_")


_KERNEL_ERROR = re.compile(
    r"\b(?:CUDA|HIP|XPU) error: (?:device-side assert|an illegal (?:memory access|instruction)|misaligned address"
    r"|unspecified launch failure|operation not supported on global/shared address space|invalid program counter"
    r"|hardware stack error|uncorrectable ECC error|the launch timed out)"
)
_OVERWRITTEN = re.compile(r"accessing tensor output of CUDAGraphs that has been overwritten")
#: What a kernel prints before its assertion ends it, once for each thread.
_ASSERTION = re.compile(r"block: \[[\d,]+\], thread: \[[\d,]+\] Assertion `(?P<text>.*)` failed")


def is_late(links: Sequence[ExceptionLink]) -> bool:
    """Whether the root cause of a chain of exceptions is raised later than its cause."""
    return bool(links) and (bool(_KERNEL_ERROR.search(links[-1].message)) or is_overwritten(links[-1].message))


def is_overwritten(message: str) -> bool:
    """Whether an output was read that a CUDA graph has overwritten since."""
    return bool(_OVERWRITTEN.search(message))


def printed_assertion(text: str) -> str:
    """What a kernel printed to `text` about the first of its assertions that failed; empty if there is none."""
    found = _ASSERTION.search(text)
    return found[0] if found else ""


def asserted(text: str) -> str:
    """The condition in what a kernel printed; empty if there is none."""
    found = _ASSERTION.search(text)
    return found["text"] if found else ""


_NUMBER = r"([0-9][0-9.]*(?:[eE][-+]?[0-9]+)?)"
_KEYWORD = re.compile(rf"\b(rtol|atol)\s*=\s*{_NUMBER}")
#: torch.testing.assert_close prints the tolerance that it allowed.
_ALLOWED = re.compile(rf"Greatest (absolute|relative) difference: .*\(up to {_NUMBER} allowed\)")
#: Default (rtol, atol) of torch.testing by dtype, and of numpy.testing.
_USUAL = {(1e-3, 1e-5), (1.6e-2, 1e-5), (1.3e-6, 1e-5), (1e-7, 1e-7), (1e-7, 0.0)}
_ALLCLOSE = {"rtol": 1e-5, "atol": 1e-8}  # the defaults of torch.allclose and numpy.allclose


def stated_tolerance(link: ExceptionLink) -> tuple[float, float] | None:
    """(rtol, atol) of the comparison that raised `link`; None when it states none, or states a default."""
    allowed = {kind: float(number) for kind, number in _ALLOWED.findall(link.message)}
    if allowed:
        return _unusual(allowed.get("relative", 0.0), allowed.get("absolute", 0.0))
    code = link.frames[-1].code if link.frames else ""
    for text in (link.message, code):
        given = {name: float(number) for name, number in _KEYWORD.findall(text)}
        if given:
            rest = _ALLCLOSE if "close(" in text or "method" in text else {"rtol": 0.0, "atol": 0.0}
            both = {**rest, **given}
            return _unusual(both["rtol"], both["atol"])
    return (0.0, 0.0) if re.search(r"\b(?:torch\.equal|array_equal)\(", code) else None


def is_loose(tolerance: tuple[float, float]) -> bool:
    """Whether `tolerance` allows at least as much as the default for float32."""
    return tolerance[0] >= 1.3e-6 or tolerance[1] >= 1e-5


def _unusual(rtol: float, atol: float) -> tuple[float, float] | None:
    return None if (rtol, atol) in _USUAL else (rtol, atol)
