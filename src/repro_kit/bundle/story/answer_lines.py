"""The answers to what maintainers ask first, in words: lines of Markdown, the best facts first."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from repro_kit.bundle.story.aspects import dtype_of
from repro_kit.bundle.story.story import Story
from repro_kit.bundle.story.title_facts import readable
from repro_kit.diagnosis.answers import FirstWrong, TriedVariant
from repro_kit.diagnosis.layer import is_own
from repro_kit.failure.failure import STATE, Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome
from repro_kit.graph import ScalarInput, TensorInput

CASTS = "TORCHINDUCTOR_EMULATE_PRECISION_CASTS=1"
_WITHOUT = "without `"  # before a statement that a variant lacks
_MOST_INPUTS, _MOST_BUILDS = 4, 6
_NIGHTLY = re.compile(r"\.dev(?P<date>\d{8})")
_WHEELS = re.compile(r"\+(?P<kind>cu\d+|rocm[\d.]+|xpu)$")


def contrast_line(story: Story) -> str:
    """What eager and the compiled program give at the first wrong place; the line of an exception, and its place."""
    first = story.answers.first_wrong
    if first is not None and (first.eager or first.compiled):
        return _values(first)
    reduced = story.reduction.difference if story.reduction and story.reduction.self_contained else None
    if reduced is not None and reduced.detail:
        return f"In {code(reduced.where)}, {reduced.detail}." if reduced.where else code(reduced.detail)
    if story.signature.kind is Kind.ACCURACY:
        why = story.answers.why_unknown("first_wrong")
        return f"{code(story.error)}{f' (no single value: {why})' if why else ''}"
    if story.signature.kind is Kind.CRASH and story.signature.message not in story.error:
        return code(f"{story.error}: {story.signature.message}")
    of_torch = story.signature.frames and not story.addressee.finding
    frame = f", raised in {code(story.signature.frames[0])} of torch" if of_torch else ""
    guard = f"; the guard that failed last: {code(story.last_guard)}" if story.last_guard else ""
    return f"{code(story.error)}{frame}{guard}"


def _values(first: FirstWrong) -> str:
    place = {STATE: "state"}.get(first.what, first.what if first.what not in ("value", "nan") else "")
    name, after, call = first.where.partition(" after call ") if first.what == STATE else (first.where, "", "")
    where = f"{place} of {code(name)}{after}{call}" if place and name else code(name) if name else place
    at = f" at {code(first.index)}" if first.index else ""
    exact = f", float64 **{code(first.double)}**" if first.double else ""
    return f"Eager **{code(first.eager or '?')}**, compiled **{code(first.compiled or '?')}**{exact}: {where}{at}."


def answers(story: Story) -> Iterator[tuple[str, str]]:
    """(question in a word, answer): what was run and seen, as Markdown."""
    yield "Runs", _runs(story)
    if story.signature.kind is Kind.ACCURACY and not story.signature.rounding:
        yield from _numerics(story)
    if story.signature.kind.policy.hangs and not story.in_eager:
        yield "Eager", _eager(story)
    if story.answers.devices:
        yield "Devices", " · ".join(map(_tried, story.answers.devices))
    yield "Builds", _builds(story)
    parts = [each for each in story.answers.variants if each.what.startswith(_WITHOUT)]
    sizes = "; ".join(filter(None, [", ".join(_inputs(story)), *_variants(story, parts)]))
    if not sizes and story.level == "script" and not story.runs_users_files:
        sizes = "those in the code; nothing is known of others"
    if sizes:
        yield "Sizes and dtypes", sizes
    if parts:
        yield "Needed", "; ".join(_tried(replace(each, what=_as_in(story.repro, each.what))) for each in parts)
    if story.answers.workaround is not None:
        tried = story.answers.workaround
        sizes = ", with these sizes" if tried.what.startswith("dynamic=") else ""
        yield "Workaround", f"{code(tried.what)} makes the {tried.subject} pass{sizes}"


def _runs(story: Story) -> str:
    runs = story.answers.runs or (f"{story.runs[0]} of {story.runs[1]} runs fail" if story.runs[1] else "not run yet")
    in_eager = "fails alike" if story.in_eager else "passes"
    eager = f"; without torch.compile it {in_eager}" if story.verified else ""
    flaky = f"; not deterministic: {story.flaky}" if story.flaky else ""
    needed = f". {story.repeats} runs must all pass before it counts as fixed" if story.repeats > 1 else ""
    return f"{runs}{flaky}{eager}{needed}"


def _numerics(story: Story) -> Iterator[tuple[str, str]]:
    """How far eager and the compiled program are from float64, and whether precision casts help."""
    told = story.answers
    if story.signature.difference not in (None, "value", "nan") or story.is_exact:
        return
    sides = ((row, _off(row.eager, row.eager_apart), _off(row.compiled, row.compiled_apart)) for row in told.double)
    errors = [f"{code(row.where)}: eager {eager}, compiled {compiled}" for row, eager, compiled in sides]
    casts = {"fails": "it still fails", "passes": "it passes"}.get(told.with_casts, "")
    if not errors and not casts and story.level == "script" and story.layer not in (None, Layer.INDUCTOR):
        return  # no rounding is in question
    whys = told.why_unknown("double"), told.why_unknown("with_casts")
    if not errors and not casts and whys[0] == whys[1] != "":
        yield "Against float64, precision casts", f"not known: {whys[0]}"
        return
    if errors or whys[0]:
        yield "Against float64", "; ".join(errors) or f"not known: {whys[0]}"
    if casts or whys[1]:
        yield "Precision casts", f"with `{CASTS}` {casts}" if casts else f"not known: {whys[1]}"


def _off(error: float, apart: int) -> str:
    """How far a result is from float64's; an element at which NaN or infinity stands on one side has no distance."""
    if not apart:
        return f"off by {error:.2g}"
    elements = f"{apart} element{'s' * (apart != 1)}"
    else_off = f", else off by {error:.2g}" if error else ""
    return f"is NaN or infinite at {elements} where float64 is not, or the reverse{else_off}"


def _eager(story: Story) -> str:
    seconds = story.answers.eager_seconds
    if seconds is not None:
        return f"takes less than {seconds:g} s"
    why = story.answers.why_unknown("eager_seconds")
    return f"time not known{f': {why}' if why else ''}"


def _builds(story: Story) -> str:
    """What is known of builds, the last good one first; a table of more stands elsewhere."""
    own = f"torch {story.environment.torch or 'unknown'}: fails"
    if story.bisected:
        return story.bisected.partition("\n")[0]
    if not story.answers.builds:
        return f"{own} · {nightly(story)} · last good build: not searched"
    good = [build.what for build in story.answers.builds if build.outcome == "passes"]
    regression = f"last good build: {good[-1]}" if story.is_regression else "no older build that passes is known"
    return f"{own} · {regression} · {nightly(story)}"


def builds_table(story: Story) -> list[tuple[str, str]]:
    """(build, outcome) of the builds that were tried, the newest of many."""
    return [(build.what, build.outcome) for build in story.answers.builds[-_MOST_BUILDS:]]


def nightly(story: Story) -> str:
    """Whether the failure was tried on a nightly."""
    dated = _NIGHTLY.search(story.environment.torch or "")
    if dated:
        return f"this is the nightly of {dated['date']}"
    tried = [build for build in story.answers.builds if _NIGHTLY.search(build.what)]
    if tried:
        return f"nightly: {tried[-1].outcome}"
    kind = _WHEELS.search(story.environment.torch or "")
    wheels = f"https://download.pytorch.org/whl/nightly/{kind['kind'] if kind else 'cpu'}"
    return f"nightly: not tried (`pip install --pre torch --index-url {wheels}`)"


def _inputs(story: Story) -> Iterator[str]:
    """The inputs of the reduced program, with dtype and sizes."""
    program = readable(story.program)
    inputs = [each for each in (program.inputs if program else ()) if isinstance(each, TensorInput | ScalarInput)]
    for each in inputs[:_MOST_INPUTS]:
        if isinstance(each, ScalarInput):
            yield f"`{each.name}` = {code(repr(each.value))}"
            continue
        dtype = dtype_of(each).removeprefix("torch.")
        strides = f" strides {list(each.stride)}" if each.stride and not _is_contiguous(each) else ""
        grad = ", requires grad" if each.requires_grad or each.parameter else ""
        shape = "of stored sizes" if each.shape is None else str(list(each.shape))
        yield f"`{each.name}` {dtype} {shape}{strides}{grad}"
    if len(inputs) > _MOST_INPUTS:
        yield f"and {len(inputs) - _MOST_INPUTS} more"


def _is_contiguous(line: TensorInput) -> bool:
    shape = line.shape or ()
    return line.stride == tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))


def _variants(story: Story, parts: Collection[TriedVariant]) -> Iterator[str]:
    """What was tried beside the result, but for `parts`: first the number that decides, and where it begins to fail."""
    number = story.reduction.number if story.reduction and story.answers.variants else None
    decides = story.twin.what if number and story.twin else ""
    if number:
        yield number.words
    yield from (_tried(each) for each in story.answers.variants if each.what != decides and each not in parts)


def _as_in(repro: str, what: str) -> str:
    """`what`, a statement that was left out; only its operator where `repro` writes the statement in another."""
    _, _, line = what.rstrip("`").partition("`")
    target, _, value = line.rpartition(" = ")
    called, bracket, _ = value.partition("(")
    names = filter(None, (target, called.partition(".")[0]))
    is_written = all(re.search(rf"\b{re.escape(name)}\b", repro) for name in names)
    return what if is_written or not bracket else f"{_WITHOUT}{called.rpartition('.')[2]}`"


def _tried(each: TriedVariant) -> str:
    return f"{each.what}: {each.outcome}"


def located(story: Story) -> str:
    """``inductor → lowerings → aten.avg_pool2d_backward.default``; else the layer alone; "" where none is known."""
    if story.layer is Layer.USER:
        return ""
    links = [link for link in story.chain.links if not link.beside] if story.chain else []
    parts = [re.sub(r"^#[\d-]+ ", "", link.culprit) for link in links if link.step in ("backend", "subsystem", "op")]
    parts = [part for part in dict.fromkeys(parts) if " " not in part]
    return " → ".join(parts) if len(parts) > 1 else str(story.layer or "")


def tested(story: Story) -> list[tuple[str, str]]:
    """(what ran, result): the backends, and each subsystem that was switched off, one row for each result."""
    rows: dict[tuple[str, str], list[str]] = {}
    ablation = story.ablation if story.layer is not Layer.USER else None
    for cell in ablation.cells if ablation else ():
        if is_own(cell, ablation.recipe) and not (cell.inferred or cell.no_effect):  # type: ignore[union-attr]
            word = "fails" if cell.same else "passes" if cell.outcome is RunOutcome.PASSES else "fails differently"
            rows.setdefault(("backend", word), []).append(cell.recipe.backend)
    for each in story.answers.subsystems:
        rows.setdefault(("without", each.outcome), []).append(each.what.removeprefix("without "))
    return [(f"{what} {', '.join(dict.fromkeys(names))}", outcome) for (what, outcome), names in rows.items()]


_CALL, _INDEXED = r"[\w.:]+\([^()\n]*\)", r"[\w.:]*\[[^\[\]\n]*\]"
_TERM = r"(?<![\w.:'])(?>(?:[\w.:']++|\([^()\n]*\)|\[[^\[\]\n]*\])+)"  # possessive: no text makes it slow
#: In a line of prose: an operation, calls, indices, words with a character that Markdown reads, dotted names; joined
#: ones are one. An operator that prose has too (``+``) makes no operation.
_CODE = re.compile(
    rf"{_TERM}(?: (?:\*\*?|//|[=!]=|%|@) {_TERM})+"
    rf"|(?:{_CALL}|{_INDEXED}|\S*[_*\[\]<>`\\#|@~=$&!]\S*|\b[^\W\d]\w*(?:(?:\.|::)\w+)+)+"
)


def prose(text: str) -> str:
    """A line of plain text in Markdown, with what is code in it as inline code."""

    def marked(found: re.Match[str]) -> str:
        word = found[0].rstrip(",;:.")
        return code(word) + found[0][len(word) :]

    return _CODE.sub(marked, " ".join(text.split()))


def code(text: str) -> str:
    """`text` as inline code in Markdown, whatever characters it has."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks, space = "`" * (longest + 1), " " * (longest > 0)
    return f"{ticks}{space}{' '.join(text.split())}{space}{ticks}"
