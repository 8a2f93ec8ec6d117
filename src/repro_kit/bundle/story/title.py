"""The title of an issue: what fails, for which operator or construct, under which condition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro_kit.bundle.story.addressee import Addressee
from repro_kit.bundle.story.aspects import compiled_with, run_under
from repro_kit.bundle.story.constructs import LONGEST_CODE, SUBCLASS, Construct, construct_of, raising_function
from repro_kit.bundle.story.failing_call import Spot, stopped_at
from repro_kit.bundle.story.operators import Operator, are_fused, operators, shares_memory, subjects
from repro_kit.bundle.story.story import Story
from repro_kit.diagnosis.answers import FirstWrong
from repro_kit.errors import ReproKitError
from repro_kit.failure.failure import STATE, Layer
from repro_kit.failure.kinds import Kind, ShownBy
from repro_kit.failure.messages import AT_THE_LIMIT, cut
from repro_kit.failure.signature import Signature
from repro_kit.graph import Program, TensorInput, parse
from repro_kit.probe.repro_probe.protocol.failure_data import place_of

LONGEST = 90  # characters
GRADIENT, ARGUMENT = "gradient", "argument"

_MOST_OPERATORS = 3
_LONGEST_SUBJECT = 56  # characters of the operators with their options; longer, the options are left out
_LEAST_CLAUSE = 16  # characters of a part of a message that still tell something
_CLAUSE = re.compile(r"(?<=\w{3})(?:[:;.,] | \()")  # where a message may end
#: Where a phrase begins, or a quotation; and what no title ends with.
_PHRASE = re.compile(
    r" (?=(?:at|of|in|on|for|with|from|by|because|but|when|while|than|that|which|and|or|between|since|as|after"
    r"|before|during|into|over|under|without|due)\b|[‘“'\"`(\[{])"
)
_HANGING = re.compile(
    r"(?:[^\w'\"’”`)\]}]|\. \w+|\b(?:be|been|is|are|was|were|does|do|did|to|of|in|for|with|the|an?|and|or|not|should"
    r"|must|may|can|cannot|could|would|will|has|have|had|if|than|that|this|its|got|expected))$"
)
_WITH = "with "
_WHILE = re.compile(r"(?<=: )While executing \w+, ")  # functionalization's, which names the operator
_LOST = "compiled code does not raise eager's "  # before the exception, in the words of a run
_WORD = re.compile(r"[^\W\d_]{2,}(?![\w(])")  # not `tensor(4.9115)`
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


@dataclass(frozen=True)
class TitleFacts:
    """What a title is made of."""

    signature: Signature
    error: str = ""  # "TypeError: cannot determine truth value of Relational", in the words of the run
    operators: tuple[tuple[str, str], ...] = ()  # (plain, with its telling options), the one at fault first
    is_narrowed: bool = False  # the first operator is known to be the one at fault
    is_fused: bool = False  # one generated kernel computes all of them
    construct: str = ""  # of a script: the call that fails
    is_setter: bool = False  # the construct sets a state
    conditions: tuple[str, ...] = ()  # "with dynamic=True", the most telling first
    places: tuple[str, ...] = ()  # of the wrong values: "gradient", "output", "argument"
    values: tuple[str, ...] = ()  # of the first wrong element: eager's, and the compiled one
    call: str = "torch.compile"
    layer: str | None = None
    addressee: Addressee = Addressee.PYTORCH
    in_eager: bool = False  # it fails alike without torch.compile
    guard: str = ""  # that failed last, when a function was compiled too often


def title(facts: TitleFacts) -> str:
    """The title, of at most `LONGEST` characters, never cut inside a word; with the layer, if there is room."""
    text, layer = headline(facts), _layer(facts)
    return f"{layer}{text}" if len(layer) + len(text) <= LONGEST else text


def headline(facts: TitleFacts) -> str:
    """The title without the layer."""
    text = _head(facts, _subject(facts, full=True))
    if len(text) > LONGEST or len(_subject(facts, full=True)) > _LONGEST_SUBJECT:
        text = _head(facts, _subject(facts, full=False))
    details = _details(facts)
    for number in range(len(facts.conditions), -1, -1):
        whole = text + _joined(facts.conditions[:number], LONGEST - len(text))
        told = _fitting(details, LONGEST - len(whole))
        if told or facts.operators or facts.construct:  # else the message alone tells what failed
            return cut(whole + told, LONGEST)
    return cut(text + _joined(facts.conditions, LONGEST - len(text)), LONGEST)


def _joined(conditions: Sequence[str], room: int) -> str:
    """Those of `conditions` that fit, one after the other."""
    text, follows = "", False
    for condition in conditions:
        more = f", {condition[len(_WITH) :]}" if follows and condition.startswith(_WITH) else f" {condition}"
        if len(text) + len(more) <= room:
            text, follows = text + more, condition.startswith(_WITH)
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
    if named:
        return ", ".join(named)
    return facts.construct or ("the script" if facts.in_eager else "the compiled function")


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
    if difference == "nan" and facts.values and facts.values[0] == "nan":
        difference = "value"  # it is eager that has the NaN
    if facts.is_setter and difference in (None, STATE):
        return f"{subject} inside a compiled function is lost"
    if facts.signature.rounding or facts.signature.kind is Kind.ROUNDING:
        return f"rounding of {subject} differs from eager's"
    if difference == STATE:
        return f"side effects of {subject} differ under torch.compile"
    if facts.places == (GRADIENT,) and difference in (None, "value", "nan"):
        return f"{'wrong NaN in the gradient' if difference == 'nan' else 'wrong gradient'} of {subject}"
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
            return [f": {facts.error}"] * is_typed + [f": {message.removeprefix('error: ')}"]
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


#: Operators that an index becomes. They compute nothing, so that what reads or writes through one is at fault.
_VIEWS = ("slice", "select", "as_strided", "unsqueeze", "squeeze", "alias")
_AT_FAULT = re.compile(r"\b(?P<home>aten|prims)\.(?P<name>\w+)")
_LARGE = 1000  # a number from here on tells of an overflow, or of a limit


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


def facts_of(story: Story) -> TitleFacts:
    """What the title of `story` is made of."""
    program = readable(story.program)
    construct, raises = _construct(story), raising_function(story.log)
    subject = raises if story.addressee is Addressee.SCRIPT_CODE and raises else next(iter(construct.calls), "")
    found = operators(program) if program else tuple(Operator(name, name, name) for name in story.ops)
    at_fault, custom = _at_fault(story, found), [each.plain for each in found if each.custom]
    beside = [f"with {custom[0]}"] if at_fault and custom and not at_fault.custom else []
    named = subjects(found) if at_fault is None or at_fault.custom else [at_fault]
    return TitleFacts(
        signature=story.signature,
        error=story.error,
        operators=tuple((each.plain, each.full) for each in named),
        is_narrowed=at_fault is not None and len(named) == 1,
        is_fused=at_fault is None and not custom and are_fused(found, story.answers.kernel),
        construct=subject,
        is_setter=construct.is_setter,
        conditions=(*beside, *(each for each in _conditions(story, program, construct) if not _tells(subject, each))),
        places=_places(story),
        values=_short_values(story.answers.first_wrong),
        call=story.call,
        layer=story.layer,
        addressee=story.addressee,
        in_eager=story.in_eager,
        guard=story.last_guard,
    )


def readable(text: str) -> Program | None:
    """The parsed program; None if there is none, redaction broke it, or it is damaged or too long for a title."""
    try:
        return parse(text) if 0 < len(text) <= LONGEST_CODE else None
    except (ReproKitError, RecursionError, MemoryError):
        return None


def _construct(story: Story) -> Construct:
    """The construct of a reduced script; of the user's own files, one that is certain."""
    if story.level != "script":
        return Construct()
    if not story.runs_users_files:
        return construct_of(story.sources[0][1] if story.sources else story.repro, stopped_at(story.log))
    file, line = (
        (story.excerpt.file, story.excerpt.line) if story.excerpt else (story.named[0] if story.named else "", 0)
    )
    found = construct_of(dict(story.sources).get(file, ""), Spot(line))
    return found if found.is_certain else Construct(settings=found.settings)


def _at_fault(story: Story, found: Sequence[Operator]) -> Operator | None:
    """The operator that the narrowing or the error names, as the program has it; None where nothing names one."""
    links = story.chain.links if story.chain else ()
    named = [link.culprit for link in links if link.step == "op" and not link.beside and "#" in link.culprit]
    custom = (each for each in found if each.custom and each.custom.replace("::", ".") in "".join(named[-1:]))
    if at_fault := next(custom, None):
        return at_fault
    match = next(filter(None, (_AT_FAULT.search(text) for text in (*named[-1:], story.signature.op or ""))), None)
    if match is None:
        return None
    alike = [each for each in found if _stem(match["name"]).startswith(_stem(each.name))]
    if alike or len(found) == 1:
        return max(alike, key=lambda each: len(each.name)) if alike else found[0]
    if match["name"] in _VIEWS:
        return None
    name = f"{match['home']}.{match['name']}"
    return Operator(match["name"], name, name)


def _stem(name: str) -> str:
    """The name that an operator, its variants and its backward have in common."""
    return name.strip("_").removesuffix("_backward")


def _conditions(story: Story, program: Program | None, construct: Construct) -> Iterator[str]:
    """The conditions of the failure, the most telling first. A reduction leaves only what the failure needs."""
    if story.in_eager:  # whatever torch.compile is given
        return
    if program is None:
        if construct.settings:
            yield f"with {', '.join(construct.settings)}"
        return
    yield from compiled_with(program)
    if story.layer is Layer.BACKEND:
        yield f"with backend {program.recipe.backend!r}"
    number = story.reduction.number if story.reduction else None
    if number is not None and number.fails >= _LARGE and not number.what.startswith(("dimension", "every size")):
        yield f"with {number.fails}"
    if shares_memory(program):
        yield "with inputs that share memory"
    if any(0 in (input_.shape or ()) for input_ in program.inputs if isinstance(input_, TensorInput)):
        yield "with an empty tensor"
    if any(aspect.name == "Tensor subclasses" and aspect.kept for aspect in story.aspects):
        yield f"with {SUBCLASS}"
    yield from run_under(program)


def _tells(subject: str, condition: str) -> bool:
    """Whether the construct tells of the condition: only a tensor subclass has ``__torch_function__``."""
    return subject.startswith("__torch_") and condition == f"{_WITH}{SUBCLASS}"


def _places(story: Story) -> tuple[str, ...]:
    first, reduction = story.answers.first_wrong, story.reduction
    if first is not None and place_of(first.where) == ARGUMENT:  # results come first, and agree
        return (ARGUMENT,)
    if story.signature.places:
        return story.signature.places
    where = first.where if first else reduction.difference.where if reduction and reduction.difference else ""
    return (place_of(where),) if where else ()


_LONGEST_VALUE = 14  # characters of one value of a tensor
#: Differences in what a result is, and not in what it holds.
_FORMS = ("dtype", "shape", "stride", "device", "layout", "structure")
_FRACTION = re.compile(r"-?\d+\.\d{6,}(?:e[+-]?\d+)?")


def _short_values(first: FirstWrong | None) -> tuple[str, ...]:
    """What eager and the compiled program give at the first wrong place: a value in six digits, or a short form."""
    if first is None or first.what not in ("value", "nan", *_FORMS):
        return ()
    both = (first.eager.removeprefix("torch."), first.compiled.removeprefix("torch."))
    eager, compiled = (f"{float(value):.6g}" if _FRACTION.fullmatch(value) else value for value in both)
    fit = all(0 < len(value) <= _LONGEST_VALUE for value in (eager, compiled))
    return (eager, compiled) if fit and eager != compiled else ()
