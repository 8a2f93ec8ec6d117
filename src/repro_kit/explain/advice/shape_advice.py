"""What to do about specializations and graphs that are alike."""

from __future__ import annotations

import re
from collections.abc import Iterator

from repro_kit.explain.advice.recompile_advice import changing_sizes, dynamic_source
from repro_kit.explain.advice.source_edits import edit
from repro_kit.explain.context import Context, counted, listed, plain_name
from repro_kit.explain.sections.specializations_section import named
from repro_kit.explain.suggestion import Aim, AppliedChange, SourceEdit, Suggestion
from repro_kit.trace.insights.specializations import Cause, Specialization

#: As an attribute: another name would have to be imported.
_MARK = re.compile(r"^[^#]*\.mark_dynamic\(\s*(?P<argument>[\w.]*)")


def suggest(context: Context) -> Iterator[Suggestion]:
    """By cause: the setting or the mark that avoids the specialization."""
    for specialization in context.insights.specializations:
        yield from _RULES[specialization.cause](context, specialization)
    yield from _similar(context)
    yield from _kernels(context)


def _recompiled(context: Context, one: Specialization) -> int:
    """How often the function was compiled again: a specialization alone costs nothing."""
    return sum(recompile.count for recompile in context.insights.recompiles if one.code and recompile.code == one.code)


def _code(context: Context, one: Specialization) -> Iterator[Suggestion]:
    again = _recompiled(context, one)
    if not again or one.where is None:
        return
    yield Suggestion(
        f"Let `{one.where.code or context.line(one.where) or named(one)}` not decide on {named(one)}",
        f"that line makes it a constant, and each other value is a compile: {counted(again, 'recompile')} of "
        f"`{plain_name(one.code.function) if one.code else ''}`",
        "specializations",
        Aim.RECOMPILES,
        place=context.place(one.where),
        weight=again - 0.2,
        note="compare with a range, use torch.cond, or torch._check(…) what always holds; "
        "mark_unbacked(…, strict=True) makes torch fail in place of specializing",
    )


def _zero_one(context: Context, one: Specialization) -> Iterator[Suggestion]:
    sizes = [source for source in one.sources if ".size()" in source]
    if not sizes:
        return
    why = f"it was {one.value} once, which is a compile of its own"
    yield Suggestion(
        f"Give {sizes[0]} no value at compile time (mark_unbacked), so that 0 and 1 are sizes like others",
        why,
        "specializations",
        Aim.RECOMPILES,
        AppliedChange(env={"TORCH_COMPILE_UNBACKED_SOURCES": ",".join(dynamic_source(size) for size in sizes)}),
        place=context.place(one.where),
        weight=1.0,
        note="code that branches on the size fails to compile then; in code: "
        "torch._dynamo.decorators.mark_unbacked(tensor, dim)",
    )
    yield Suggestion(
        "Let torch not ask whether a dynamic size is 0 or 1 (backed_size_oblivious)",
        why,
        "specializations",
        Aim.RECOMPILES,
        AppliedChange(config={"shapes.backed_size_oblivious": True}, arguments={"dynamic": True}),
        place=context.place(one.where),
        weight=0.9,
        note="it counts for every dynamic size, here with dynamic=True; code that asks whether a size is 0 or 1 may "
        "behave otherwise",
    )


def _duck(context: Context, one: Specialization) -> Iterator[Suggestion]:
    again = any(
        "duck" in reason.guard.note
        for recompile in context.insights.recompiles
        for reason in recompile.reasons
        if recompile.code == one.code
    )
    if not again:
        return
    yield Suggestion(
        "Tell sizes apart that happen to be equal",
        f"{named(one)}: once they differ, it is compiled again",
        "specializations",
        Aim.RECOMPILES,
        AppliedChange(config={"shapes.use_duck_shape": False}),
        weight=1.0,
        place=context.place(one.where),
    )


def _violated(context: Context, one: Specialization) -> Iterator[Suggestion]:
    yield Suggestion(
        f"Mark {', '.join(one.sources)} with maybe_mark_dynamic, or change the code that makes it {one.value}",
        one.reason or "it was marked dynamic, and the code makes it a constant",
        "specializations",
        Aim.FAILURES,
        edit=_maybe(context, one),
        weight=50.0,
        place=context.place(one.where),
    )


def _maybe(context: Context, one: Specialization) -> SourceEdit | None:
    """The `mark_dynamic` that is meant, as `maybe_mark_dynamic`: the one of that name, or the only one there is."""
    marks = [
        (file, number, line, mark["argument"])
        for file in dict.fromkeys(node.frame.file for node in context.insights.overview.tree)
        for number, line in enumerate(context.lines(file), 1)
        if (mark := _MARK.match(line))
    ]
    named = [it for it in marks if any(source.startswith(f"L['{it[3]}']") for source in one.sources)]
    if len(named or marks) != 1:
        return None
    file, number, line, _ = (named or marks)[0]
    return edit(context, file, number, number, [line.replace(".mark_dynamic(", ".maybe_mark_dynamic(")])


_RULES = {Cause.CODE: _code, Cause.DUCK: _duck, Cause.ZERO_ONE: _zero_one, Cause.VIOLATED: _violated}


def _similar(context: Context) -> Iterator[Suggestion]:
    """Functions of several modules with the same graph: one set of dynamic sizes serves them all."""
    if any(changing_sizes(recompile) for recompile in context.insights.recompiles):
        return
    spare = sum(one.count - 1 for one in context.insights.similar if not one.one_function)
    if spare:
        yield Suggestion(
            "Compile with dynamic=True",
            f"{counted(spare, 'graph')} of other functions only differ in their sizes",
            "similar",
            Aim.COMPILE_SECONDS,
            AppliedChange(arguments={"dynamic": True}),
            note="each function is still compiled once; regional compilation of the repeated module shares the graph",
        )


def _kernels(context: Context) -> Iterator[Suggestion]:
    """Triton kernels of the user's that were compiled for several values of a constant."""
    for kernel in context.insights.shapes.kernels:
        if len(kernel.compiles) > 1:
            yield Suggestion(
                f"Take tl.constexpr from those of {listed(kernel.arguments)} that change between calls of "
                f"`{kernel.kernel}`",
                "each value of a constexpr is a kernel of its own; it is in "
                f"{counted(len(kernel.compiles), 'compile')}",
                "shapes",
                Aim.COMPILE_SECONDS,
            )
