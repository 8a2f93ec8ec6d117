"""Read off a story, or the facts of a case in the farm, what a title is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from repro_kit.bundle.story.addressee import Addressee
from repro_kit.bundle.story.constructs import LONGEST_CODE, SUBCLASS, Construct, construct_of
from repro_kit.bundle.story.operators import Operator, operators, transforms
from repro_kit.bundle.story.story import Story
from repro_kit.bundle.story.title import TitleFacts, headline, title
from repro_kit.errors import ReproKitError
from repro_kit.model.failure.failure import Layer
from repro_kit.model.failure.signature import Signature
from repro_kit.model.recipe import Recipe
from repro_kit.probe.repro_probe.protocol.failure_data import place_of
from repro_kit.program import DynamicMark, Program, TensorInput, parse

_AT_FAULT = re.compile(r"\b(?P<home>aten|prims)\.(?P<name>\w+)")
_LARGE = 1000  # a number from here on tells of an overflow, or of a limit
_NARROW = ("torch.float16", "torch.bfloat16", "torch.complex64", "torch.complex32", "torch.float64")


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
    construct = _construct(story)
    found = operators(program) if program else tuple(Operator(name, name, name) for name in story.ops)
    at_fault = _at_fault(story, found)
    return TitleFacts(
        signature=story.signature,
        error=story.error,
        operators=tuple((each.plain, each.full) for each in ([at_fault] if at_fault else found)),
        is_narrowed=at_fault is not None,
        construct=construct.calls[0] if construct.calls else "",
        is_setter=construct.is_setter,
        conditions=tuple(_conditions(story, program, construct)),
        places=_places(story),
        call=story.call,
        layer=story.layer,
        addressee=story.addressee,
        in_eager=story.in_eager,
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
        return construct_of(story.sources[0][1] if story.sources else story.repro, _failing_line(story.log))
    file, line = (
        (story.excerpt.file, story.excerpt.line) if story.excerpt else (story.named[0] if story.named else "", 0)
    )
    found = construct_of(dict(story.sources).get(file, ""), line)
    return found if found.is_certain else Construct(settings=found.settings)


def _failing_line(log: str) -> int:
    """The line of the reduced script at which Dynamo stopped, as the output of its run tells; 0 if it does not."""
    _, found, stack = log.rpartition("\nfrom user code:")
    lines = re.findall(r'^ *File "[^"\n]*", line (\d+), in ', stack, re.MULTILINE) if found else []
    return int(lines[-1]) if lines else 0


def _at_fault(story: Story, found: Sequence[Operator]) -> Operator | None:
    """The operator that the narrowing or the error names, as the program has it; None where nothing names one."""
    links = story.chain.links if story.chain else ()
    named = [link.culprit for link in links if link.step == "op" and not link.beside and "#" in link.culprit]
    match = next(filter(None, (_AT_FAULT.search(text) for text in (*named[-1:], story.signature.op or ""))), None)
    if match is None:
        return None
    alike = [each for each in found if _stem(match["name"]).startswith(_stem(each.name))]
    if alike or len(found) == 1:
        return max(alike, key=lambda each: len(each.name)) if alike else found[0]
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
    yield from _of_compiling(program)
    if story.layer is Layer.BACKEND:
        yield f"with backend {program.recipe.backend!r}"
    number = story.reduction.number if story.reduction else None
    if number is not None and number.fails >= _LARGE and not number.what.startswith(("dimension", "every size")):
        yield f"with {number.fails}"
    if _shares_memory(program):
        yield "with inputs that share memory"
    if any(aspect.name == "Tensor subclasses" and aspect.kept for aspect in story.aspects):
        yield f"with {SUBCLASS}"
    yield from _of_running(program)


def _shares_memory(program: Program) -> bool:
    """Whether two arguments of a call are views of one tensor, or one is a view of the other."""
    homes = {line.name: line.base or line.name for line in program.inputs if isinstance(line, TensorInput)}
    calls = [[homes[name] for name in dict.fromkeys(call) if name in homes] for call in program.calls]
    return any(len(set(call)) < len(call) for call in calls)


def _of_compiling(program: Program) -> Iterator[str]:
    recipe = program.recipe
    if recipe.dynamic is not None:
        yield f"with dynamic={recipe.dynamic}"
    elif any(isinstance(input_, DynamicMark) for input_ in program.inputs):
        yield "with mark_dynamic"
    if recipe.mode is not None:
        yield f"with mode={recipe.mode!r}"
    settings = {**recipe.options, **recipe.config}
    for name, value in list(settings.items())[:1]:
        yield f"with {name}={value!r}"
    if recipe.compiled_autograd:
        yield "under compiled autograd"


def _of_running(program: Program) -> Iterator[str]:
    recipe = program.recipe
    nested = transforms(program)
    if nested:
        yield f"under torch.func.{' of '.join(nested)}"
    if recipe.autocast is not None:
        yield f"under autocast({recipe.autocast.dtype.removeprefix('torch.')})"
    yield from _of_state(recipe)
    dtypes = {input_.dtype for input_ in program.inputs if isinstance(input_, TensorInput)}
    if len(dtypes) == 1 and (dtype := dtypes.pop()) in _NARROW:
        yield f"in {dtype.removeprefix('torch.')}"


def _of_state(recipe: Recipe) -> Iterator[str]:
    if recipe.grad_mode != "enabled":
        yield f"under {recipe.grad_mode}"
    if recipe.default_dtype is not None:
        yield f"with default dtype {recipe.default_dtype.removeprefix('torch.')}"


def _places(story: Story) -> tuple[str, ...]:
    first, reduction = story.answers.first_wrong, story.reduction
    if story.signature.places:
        return story.signature.places
    where = first.where if first else reduction.difference.where if reduction and reduction.difference else ""
    return (place_of(where),) if where else ()
