"""What a title is made of, and how it is had from the story of a failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro_kit.bundle.story.addressee import Addressee
from repro_kit.bundle.story.aspects import compiled_with, run_under
from repro_kit.bundle.story.constructs import LONGEST_CODE, SUBCLASS, Construct, construct_of, raising_function
from repro_kit.bundle.story.failing_call import Spot, checked_by, raised_at, stopped_at
from repro_kit.bundle.story.operators import Operator, are_fused, operators, outermost, shares_memory, subjects
from repro_kit.bundle.story.story import Story
from repro_kit.diagnosis.answers import FirstWrong
from repro_kit.diagnosis.causes import GUARDS
from repro_kit.errors import ReproKitError
from repro_kit.failure.failure import Layer
from repro_kit.failure.kinds import Kind, ShownBy
from repro_kit.failure.signature import Signature
from repro_kit.graph import Program, TensorInput, parse
from repro_kit.probe.repro_probe.protocol.failure_data import place_of

ARGUMENT = "argument"
WITH = "with "

#: Operators that an index, or ``x.item()``, becomes. They compute nothing, so that what uses one is at fault.
_VIEWS = ("_local_scalar_dense", "slice", "select", "as_strided", "unsqueeze", "squeeze", "alias")
_AT_FAULT = re.compile(r"\b(?P<home>aten|prims)\.(?P<name>\w+)")
_LARGE = 1000  # a number from here on tells of an overflow, or of a limit


@dataclass(frozen=True)
class TitleFacts:
    """What a title is made of."""

    signature: Signature
    error: str = ""  # "TypeError: cannot determine truth value of Relational", in the words of the run
    operators: tuple[tuple[str, str], ...] = ()  # (plain, with its telling options), the one at fault first
    outer: str = ""  # the only operator that computes outside of a body: the one that has the bodies
    is_narrowed: bool = False  # the first operator is known to be the one at fault
    is_fused: bool = False  # one generated kernel computes all of them
    construct: str = ""  # of a script: the call that fails
    is_setter: bool = False  # the construct sets a state
    is_effect: bool = False  # the construct changes an object of the script, which its check finds otherwise
    conditions: tuple[str, ...] = ()  # "with dynamic=True", the most telling first
    places: tuple[str, ...] = ()  # of the wrong values: "gradient", "output", "argument"
    values: tuple[str, ...] = ()  # of the first wrong element: eager's, and the compiled one
    call: str = "torch.compile"
    layer: str | None = None
    addressee: Addressee = Addressee.PYTORCH
    in_eager: bool = False  # it fails alike without torch.compile
    is_reused: bool = False  # code of an earlier call is run again, where it does not fit
    branch: str = ""  # the only condition that the compiled code of a script asks
    guard: str = ""  # that failed last, when a function was compiled too often


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
        outer=outermost(program) if program else "",
        is_narrowed=at_fault is not None and len(named) == 1,
        is_fused=at_fault is None and not custom and are_fused(found, story.answers.kernel),
        construct=subject,
        is_setter=construct.is_setter,
        is_effect=construct.is_effect,
        conditions=(*beside, *(each for each in _conditions(story, program, construct) if not _tells(subject, each))),
        places=_places(story),
        values=_short_values(story.answers.first_wrong),
        call=story.call,
        layer=story.layer,
        addressee=story.addressee,
        in_eager=story.in_eager,
        is_reused=story.ablation is not None and story.ablation.cause == GUARDS,
        branch=construct.branch,
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
        stopped = raised_at(story.log) if story.signature.kind is Kind.RUNTIME_ERROR else stopped_at(story.log)
        source = story.sources[0][1] if story.sources else story.repro
        return construct_of(source, stopped, checked_by(story.log))
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
        if construct.is_tried and story.signature.kind.policy.shown_by is ShownBy.EXCEPTION:
            yield "in a try block"  # the script expects the exception there
        if construct.transforms:
            yield f"under torch.func.{' of '.join(construct.transforms)}"
        if construct.settings:
            yield f"with {', '.join(construct.settings)}"
        if not story.runs_users_files:  # which may set what the failure does not need
            yield from (f"{WITH}{setting}" for setting in construct.configured[:1])
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
    return subject.startswith("__torch_") and condition == f"{WITH}{SUBCLASS}"


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
