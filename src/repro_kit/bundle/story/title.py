"""The title of an issue: what fails, for which operator or construct, under which condition."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.bundle.story.addressee import Addressee
from repro_kit.model.failure.failure import STATE, Kind, Layer
from repro_kit.model.failure.kinds import ShownBy
from repro_kit.model.failure.signature import Signature

LONGEST = 90  # characters
GRADIENT, ARGUMENT = "gradient", "argument"

_MOST_OPERATORS = 3
_LONGEST_SUBJECT = 56  # characters of the operators with their options; longer, the options are left out
_LEAST_CLAUSE, _LEAST_WORDS = 18, 36  # characters of a part of a message that still tell something
_CLAUSE = re.compile(r"(?<=\w{3})(?:[:;.,] | \()")  # where a message may end
_WITH = "with "
_LOST = "validation lost: eager raises "  # before the exception, in the words of a run
_WORD = re.compile(r"[^\W\d_]{2,}(?![\w(])")  # not `tensor(4.9115)`
_NATIVE = ("CppCompileError", "CUDACompileError")
_CRASHES = {"memory": "memory corruption in", "SIGABRT": "abort in", "SIGFPE": "SIGFPE in", "SIGILL": "SIGILL in"}
_WRONG = {
    "value": "wrong result of",
    "nan": "wrong NaN from",
    "shape": "wrong shape from",
    "dtype": "wrong dtype from",
    "stride": "wrong strides from",
    "alias": "wrong aliasing by",
    "structure": "wrong output structure of",
    "requires_grad": "wrong requires_grad from",
}
_REFUSES = {
    "torch.export.export": "export",
    "torch.export": "export",
    "torch.export.draft_export": "export",
    "run_decompositions": "decompose",
    "aoti_compile_and_package": "compile with AOTInductor",
    "torch.compiler.precompile": "precompile",
}
_LAYERS = {Layer.AOT: "aotautograd", Layer.AOT_INDUCTOR: "aotinductor", Layer.USER: "user code"}


@dataclass(frozen=True)
class TitleFacts:
    """What a title is made of."""

    signature: Signature
    error: str = ""  # "TypeError: cannot determine truth value of Relational", in the words of the run
    operators: tuple[tuple[str, str], ...] = ()  # (plain, with its telling options), the one at fault first
    is_narrowed: bool = False  # the first operator is known to be the one at fault
    construct: str = ""  # of a script: the call that fails
    is_setter: bool = False  # the construct sets a state
    conditions: tuple[str, ...] = ()  # "with dynamic=True", the most telling first
    places: tuple[str, ...] = ()  # of the wrong values: "gradient", "output", "argument"
    call: str = "torch.compile"
    layer: str | None = None
    addressee: Addressee = Addressee.PYTORCH
    in_eager: bool = False  # it fails alike without torch.compile


def title(facts: TitleFacts) -> str:
    """The title, of at most `LONGEST` characters, never cut inside a word; with the layer, if there is room."""
    text, layer = headline(facts), _layer(facts)
    return f"{layer}{text}" if len(layer) + len(text) <= LONGEST else text


def headline(facts: TitleFacts) -> str:
    """The title without the layer."""
    text = _head(facts, _subject(facts, full=True))
    if len(text) > LONGEST or len(_subject(facts, full=True)) > _LONGEST_SUBJECT:
        text = _head(facts, _subject(facts, full=False))
    follows = False
    for condition in facts.conditions:
        more = f", {condition[len(_WITH) :]}" if follows and condition.startswith(_WITH) else f" {condition}"
        if len(text) + len(more) <= LONGEST:
            text, follows = text + more, condition.startswith(_WITH)
    text += _fitting(_details(facts), LONGEST - len(text))
    return cut(text, LONGEST)


def cut(text: str, longest: int) -> str:
    """`text` on one line with at most `longest` characters, cut between two words."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    kept = text[: longest - 1].rpartition(" ")[0]
    return f"{kept.rstrip(' ,;:(=')} …" if kept else text[:longest]


def _fitting(details: Sequence[str], room: int) -> str:
    """The first of `details` that fits; else as many clauses, or words, of the last one as fit and tell something."""
    whole = next((detail for detail in details if len(detail) <= room), "")
    if whole or not details:
        return whole
    detail = details[-1]
    ends = [match.start() for match in _CLAUSE.finditer(detail) if _LEAST_CLAUSE <= match.start() <= room]
    return detail[: ends[-1]] if ends else cut(detail, room) if room >= _LEAST_WORDS else ""


def _subject(facts: TitleFacts, *, full: bool) -> str:
    """The operators or the construct. `full`: with telling options."""
    named = [options if full else plain for plain, options in facts.operators]
    if facts.is_narrowed:
        return named[0]
    if len(named) > _MOST_OPERATORS:
        return f"{named[0]}, {named[1]} and {len(named) - 2} more operators"
    if named:
        return ", ".join(named)
    return facts.construct or "the compiled function"


def _head(facts: TitleFacts, subject: str) -> str:
    """What fails, of what."""
    raised = "".join(facts.signature.exceptions[-1:]) or "an error"
    s = "" if len(facts.operators) > 1 and not facts.is_narrowed else "s"
    kind = facts.signature.kind
    if kind.policy.shown_by is ShownBy.DIFFERENCE:
        return _wrong(facts, subject)
    if kind.policy.in_compiler and facts.in_eager:
        return f"{subject} fail{s} without torch.compile too"
    if kind.policy.in_compiler and _is_native(facts.signature):
        return f"generated code of {subject} does not compile"
    if facts.signature.is_compiling:
        return f"compiling {subject} does not end"
    if kind.policy.title:
        head = kind.policy.title.format(
            subject=subject,
            compiled=_compiled(facts, subject),
            raised=raised,
            refused=_REFUSES.get(facts.call, "compile"),
            signal=_CRASHES.get(facts.signature.signal or "", "crash in"),
            s=s,
            does="does" if s else "do",
        )
        return f"{head} in eager too" if kind is Kind.RUNTIME_ERROR and facts.in_eager else head
    if kind.policy.measured and subject != "the compiled function":
        return f"{subject}: {facts.signature.message or kind}"
    return facts.signature.message or str(kind)


def _compiled(facts: TitleFacts, subject: str) -> str:
    if facts.in_eager or subject.startswith("the compiled"):
        return subject
    return f"{'exported' if facts.call.startswith('torch.export') else 'compiled'} {subject}"


def _wrong(facts: TitleFacts, subject: str) -> str:
    difference = facts.signature.difference
    if facts.is_setter and difference in (None, STATE):
        return f"{subject} inside a compiled function is lost"
    if facts.signature.rounding or facts.signature.kind is Kind.ROUNDING:
        return f"rounding of {subject} differs from eager's"
    if difference == STATE:
        return f"side effects of {subject} differ under torch.compile"
    if facts.places == (GRADIENT,) and difference in ("value", "nan"):
        return f"{'wrong gradient' if difference == 'value' else 'wrong NaN in the gradient'} of {subject}"
    if facts.places == (ARGUMENT,) and difference in ("value", "nan"):
        return f"wrong input mutation by {subject}"
    return f"{_WRONG.get(difference or '', 'wrong result of')} {subject}"


def _details(facts: TitleFacts) -> list[str]:
    """What else a title tells where there is room, the whole first: what agrees, and what an exception says."""
    signature, message = facts.signature, _message(facts.error)
    policy = signature.kind.policy
    if signature.kind is Kind.ACCURACY:
        if facts.places == (GRADIENT,):
            return ["; forward agrees"]
        says_what = signature.difference is None and not facts.is_setter and _WORD.search(signature.message)
        return [f": {message}"] if says_what and message else []
    if signature.kind is Kind.CRASH or (policy.shown_by is ShownBy.VALUE and policy.title):
        return [f": {signature.message}"] if signature.message else []
    if policy.shown_by is ShownBy.EXCEPTION and not policy.any_alike:
        if message:
            is_typed = policy.in_compiler and not _is_native(signature)
            return [f": {facts.error}"] * is_typed + [f": {message.removeprefix('error: ')}"]
        if signature.frames and not policy.compared:
            return [f" in {signature.frames[0]}"]
    return []


def _is_native(signature: Signature) -> bool:
    """Whether a native compiler refuses generated code."""
    return bool(signature.exceptions) and signature.exceptions[-1] in _NATIVE


def _message(error: str) -> str:
    """``size 3`` of ``ValueError: size 3``, of ``wrong result: size 3``, and of a lost ``ValueError: size 3``."""
    kind, colon, message = error.removeprefix(_LOST).partition(": ")
    return message if colon and (" " not in kind or kind == "wrong result") else ("" if not colon else error)


def _layer(facts: TitleFacts) -> str:
    if facts.addressee is Addressee.SCRIPT_CODE:
        return "[code of the script] "
    layer = facts.layer and _LAYERS.get(Layer(facts.layer), str(facts.layer))
    return f"[{layer}] " if layer else ""
