"""The title of an issue: what fails, for which operator or construct, under which condition."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from repro_kit.bundle.story.addressee import Addressee
from repro_kit.bundle.story.constructs import SUBCLASS
from repro_kit.bundle.story.story import Story
from repro_kit.bundle.story.title_facts import ARGUMENT, WITH, TitleFacts, facts_of
from repro_kit.failure.failure import STATE, Layer
from repro_kit.failure.kinds import Kind, ShownBy
from repro_kit.failure.messages import AT_THE_LIMIT, cut
from repro_kit.failure.signature import Signature

LONGEST = 90  # characters
GRADIENT = "gradient"

_UNNAMED = "the compiled function"  # of a script in which no construct is known to fail
_SCRIPT = "the script"  # that fails in eager, too
_MOST_OPERATORS = 3
_LONGEST_SUBJECT = 56  # characters of the operators with their options; longer, the options are left out
_LONGEST_NAME = 28  # characters of an operator that is named beside others
_LEAST_CLAUSE = 16  # characters of a part of a message that still tell something
_CLAUSE = re.compile(r"(?<=\w\w[\w`'’])(?:[:;.,] | \()")  # where a message may end
#: Where a phrase begins, or a quotation; and what no title ends with.
_PHRASE = re.compile(
    r" (?=(?:at|of|in|on|for|with|from|by|because|but|when|while|than|that|which|and|or|between|since|as|after"
    r"|before|during|into|over|under|within|without|due)\b|[‘“'\"`(\[{])"
)
_HANGING = re.compile(
    r"(?:[^\w'\"’”`)\]}]|\. \w+|\b(?:be|been|is|are|was|were|does|do|did|to|of|in|for|with|the|an?|and|or|not|should"
    r"|must|may|can|cannot|could|would|will|has|have|had|if|than|that|this|its|got|expected|other|rather|instead|out|at|by|on"
    r"|from|as|into|when|while))$"
)
_WHILE = re.compile(r"(?<=: )While executing \w+, ")  # functionalization's, which names the operator
_LOST = "compiled code does not raise eager's "  # before the exception, in the words of a run
_WORD = re.compile(r"[^\W\d_]{2,}(?![\w(])")  # not `tensor(4.9115)`
_ASSERT = "INTERNAL ASSERT FAILED"  # torch's words after the condition, which may be long
_NATIVE = ("CppCompileError", "CUDACompileError")
_CRASHES = {"memory": "memory corruption in", "SIGABRT": "abort in", "SIGFPE": "SIGFPE in", "SIGILL": "SIGILL in"}
_WRONG = {
    "value": "wrong result of",
    "nan": "wrong NaN from",
    "shape": "wrong shape from",
    "dtype": "wrong dtype from",
    "layout": "wrong layout from",
    "device": "wrong device from",
    "stride": "wrong strides from",
    "alias": "wrong aliasing by",
    "structure": "wrong output structure of",
    "requires_grad": "wrong requires_grad from",
    "random": "wrong state of random numbers after",
    "warning": "warnings lost by",
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


def title(facts: TitleFacts) -> str:
    """The title, of at most `LONGEST` characters, never cut inside a word; with the layer, if there is room."""
    text, layer = headline(facts), _layer(facts)
    return f"{layer}{text}" if len(layer) + len(text) <= LONGEST else text


def headline(facts: TitleFacts) -> str:
    """The title without the layer."""
    text, details = _head(facts, _subject(facts, full=True)), _details(facts)
    is_long = len(facts.operators) > 1 and any(_is_long(plain) for plain, _ in facts.operators)
    if is_long or len(text) > LONGEST or len(_subject(facts, full=True)) > _LONGEST_SUBJECT:
        text = _head(facts, _subject(facts, full=False))
    # Of a script's warning, what it says tells more than the call.
    is_named = bool(facts.operators or (facts.construct and facts.signature.kind is not Kind.WARNING))
    raises = facts.signature.kind.policy.shown_by is ShownBy.EXCEPTION
    # A message tells more than that there is a subclass, which the labels say too; of other conditions less.
    gives_way = raises and facts.conditions == (f"{WITH}{SUBCLASS}",)
    fits = gives_way and any(detail and len(text) + len(detail) <= LONGEST for detail in details)
    for number in range(len(facts.conditions), -1, -1):
        whole = text + _joined(facts.conditions[:number], LONGEST - len(text))
        told = _fitting(details, LONGEST - len(whole))
        if not told and len(facts.operators) > _MOST_OPERATORS and (shorter := _of_one_graph(facts, details)):
            return shorter
        if told or (is_named and not fits):  # else the message alone tells what failed
            return cut(whole + told, LONGEST)
    raised = facts.signature.exceptions[-1:]
    if raised and (told := _fitting(details[-1:], LONGEST - len(raised[0]))):
        return raised[0] + told
    return cut(text + _joined(facts.conditions, LONGEST - len(text)), LONGEST)


def _of_one_graph(facts: TitleFacts, details: Sequence[str]) -> str:
    """The title of an exception with what it says, which tells more than some of many names; "" if there is no room.

    It names the graph, or the only operator that no body has.
    """
    if facts.is_narrowed or facts.signature.kind.policy.shown_by is not ShownBy.EXCEPTION:
        return ""
    for one in (f"graph of {len(facts.operators)} operators", facts.outer):
        head = _head(replace(facts, operators=((one, one),)), one)
        if one and (told := _fitting(details, LONGEST - len(head))):
            return head + told
    return ""


def _joined(conditions: Sequence[str], room: int) -> str:
    """Those of `conditions` that fit, one after the other."""
    text, follows = "", False
    for condition in conditions:
        more = f", {condition[len(WITH) :]}" if follows and condition.startswith(WITH) else f" {condition}"
        if len(text) + len(more) <= room:
            text, follows = text + more, condition.startswith(WITH)
    return text


def _fitting(details: Sequence[str], room: int) -> str:
    """The first of `details` that fits; else as many clauses, or phrases, of the last one as fit and tell something."""
    whole = next((detail for detail in details if len(detail) <= room), "")
    if whole or not details:
        return whole
    for pattern in (_CLAUSE, _PHRASE):
        ends = [match.start() for match in pattern.finditer(details[-1], _LEAST_CLAUSE) if match.start() <= room]
        ends = [end for end in ends if not (_HANGING.search(details[-1][:end]) or _is_open(details[-1][:end]))]
        if ends:
            return details[-1][: ends[-1]]
    return ""


def _is_open(text: str) -> bool:
    """Whether a bracket of `text` is not closed."""
    return any(text.count(left) > text.count(right) for left, right in ("()", "[]", "{}"))


def _subject(facts: TitleFacts, *, full: bool) -> str:
    """The operators or the construct. `full`: with telling options."""
    named = [options if full else plain for plain, options in facts.operators]
    if facts.is_narrowed:
        return named[0]
    if facts.is_fused and len(named) <= _MOST_OPERATORS:
        return f"{' + '.join(named)} fused"
    if len(named) > _MOST_OPERATORS:
        return f"{named[0]}, {named[1]} and {len(named) - 2} more operators"
    short = named if full else [name for name in named if not _is_long(name)]
    if 0 < len(short) < len(named):
        more = len(named) - len(short)
        return f"{', '.join(short)} and {more} more operator{'s' * (more > 1)}"
    if named:
        return ", ".join(named)
    return facts.construct or (_SCRIPT if facts.in_eager else _UNNAMED)


def _is_long(name: str) -> bool:
    """Whether an operator of torch has so long a name that it leaves no room for what failed."""
    return len(name) > _LONGEST_NAME and "::" not in name


def _head(facts: TitleFacts, subject: str) -> str:
    """What fails, of what."""
    raised = "".join(facts.signature.exceptions[-1:]) or "an error"
    s = "" if len(facts.operators) > 1 and not (facts.is_narrowed or facts.is_fused) else "s"
    kind = facts.signature.kind
    if kind.policy.shown_by is ShownBy.DIFFERENCE:
        return _wrong(facts, subject)
    if kind.policy.in_compiler and facts.in_eager:
        return f"{subject} fail{s} without torch.compile too"
    if kind.policy.in_compiler and _is_native(facts.signature):
        return f"generated code of {subject} does not compile"
    if raised == AT_THE_LIMIT:
        return (
            "recompile limit reached" if subject.startswith("the compiled") else f"recompile limit reached by {subject}"
        )
    if facts.signature.is_compiling:
        return f"compiling {subject} does not end"
    if subject == _UNNAMED and kind.policy.in_compiler and facts.call in _REFUSES:
        return f"{facts.call.rpartition('.')[2]} fails"
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
    if kind.policy.measured and subject != _UNNAMED:
        return f"{subject}: {facts.signature.message or kind}"
    return facts.signature.message or str(kind)


def _compiled(facts: TitleFacts, subject: str) -> str:
    if facts.in_eager or subject.startswith("the compiled"):
        return subject
    return f"{'exported' if facts.call.startswith('torch.export') else 'compiled'} {subject}"


def _wrong(facts: TitleFacts, subject: str) -> str:
    if not facts.is_reused:
        return _wrong_in(facts, subject)
    if facts.branch:
        return f"missing guard on {facts.branch!r}"
    return "missing guard" + (f": {_wrong_in(facts, subject)}" if facts.operators or facts.construct else "")


def _wrong_in(facts: TitleFacts, subject: str) -> str:
    difference = facts.signature.difference
    if difference == "nan" and facts.values and facts.values[0] == "nan":
        difference = "value"  # it is eager that has the NaN
    if facts.is_setter and difference in (None, STATE):
        return f"{subject} inside a compiled function is lost"
    if facts.signature.rounding or facts.signature.kind is Kind.ROUNDING:
        return f"rounding of {subject} differs from eager's"
    if difference == STATE or (facts.is_effect and difference is None):
        return f"side effects of {subject} differ under torch.compile"
    if facts.places == (GRADIENT,) and difference in (None, "value", "nan"):
        return f"{'wrong NaN in the gradient' if difference == 'nan' else 'wrong gradient'} of {subject}"
    if facts.places == (ARGUMENT,) and difference in ("value", "nan"):
        return f"wrong input mutation by {subject}"
    if subject in (_UNNAMED, _SCRIPT) and not (difference or facts.places or facts.values):  # the script alone says it
        return f"the script's own check fails {'in eager too' if facts.in_eager else 'under torch.compile'}"
    return f"{_WRONG.get(difference or '', 'wrong result of')} {subject}"


def _details(facts: TitleFacts) -> list[str]:
    """What else a title tells where there is room, the whole first: what agrees, and what an exception says."""
    signature, message = facts.signature, _message(facts.error)
    policy = signature.kind.policy
    if signature.kind is Kind.ACCURACY:
        if facts.places == (GRADIENT,):
            return ["; forward agrees"]
        if facts.values:
            return [f": eager {facts.values[0]}, compiled {facts.values[1]}", ""]
        says_what = signature.difference is None and not facts.is_setter and _WORD.search(signature.message)
        return [f": {message}"] if says_what and message else []
    if AT_THE_LIMIT in signature.exceptions:
        return [f": guard {facts.guard}"] if facts.guard else []
    if signature.kind is Kind.DEADLOCK:
        return [f": {ranks}" for ranks in facts.error.split("wait for each other: ")[1:]]
    if signature.kind is Kind.CRASH or (policy.shown_by is ShownBy.VALUE and policy.title):
        return [f": {signature.message}"] if signature.message else []
    if policy.shown_by is ShownBy.EXCEPTION and not policy.any_alike:
        if message:
            is_typed = policy.in_compiler and not _is_native(signature)
            told = [f": {facts.error}"] * is_typed + [f": {message.removeprefix('error: ')}"]
            return told + [f": {_ASSERT}"] * (_ASSERT in message)
        if signature.frames and not policy.compared:
            return [f" in {signature.frames[0]}"]
    return []


def _is_native(signature: Signature) -> bool:
    """Whether a native compiler refuses generated code."""
    return bool(signature.exceptions) and signature.exceptions[-1] in _NATIVE


def _message(error: str) -> str:
    """``size 3`` of ``ValueError: size 3``, of ``wrong result: size 3``, and of a lost ``ValueError: size 3``."""
    kind, colon, message = _WHILE.sub("", error.removeprefix(_LOST)).partition(": ")
    return message if colon and (" " not in kind or kind == "wrong result") else ("" if not colon else error)


def _layer(facts: TitleFacts) -> str:
    if facts.addressee is Addressee.SCRIPT_CODE:
        return "[code of the script] "
    layer = facts.layer and _LAYERS.get(Layer(facts.layer), str(facts.layer))
    return f"[{layer}] " if layer else ""


def title_of(story: Story) -> str:
    """The title of an issue about `story`."""
    return title(facts_of(story))


def headline_of(story: Story) -> str:
    """The failure in one line: its title without the layer."""
    return headline(facts_of(story))


def title_from(signature: Signature | None, layer: str | None, to: Addressee, ops: Sequence[str]) -> str:
    """The title for a case of which only these facts are known."""
    if signature is None:
        return "repro.py fails"
    summary = signature.summary()
    named = tuple((op, op) for op in ops)
    return title(TitleFacts(signature, summary, named, places=signature.places, layer=layer, addressee=to))
