"""Advice on specializations and on similar graphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from repro_kit.explain.advice.recompile_advice import changing_sizes, dynamic_source
from repro_kit.explain.context import Context, counted, listed, plain_name
from repro_kit.explain.sections.shapes import name_of_specialization
from repro_kit.explain.suggestion import Aim, AppliedChange, SourceEdit, Suggestion, edit
from repro_kit.trace.insights.specializations import Cause, Specialization

_FLOAT = "zf"  # the symbols of floats: as a tensor, a float is no constant (recompile_advice.py)

#: Only as an attribute, because a bare name would need another import.
_MARK = re.compile(r"^[^#]*\.mark_dynamic\(\s*(?P<argument>[\w.]*)")


def suggest_for_shapes(context: Context) -> Iterator[Suggestion]:
    """By cause: the setting or the mark that avoids the specialization."""
    for specialization in context.insights.specializations:
        yield from _RULES[specialization.cause](context, specialization)
    yield from _similar(context)
    yield from _kernels(context)


def _recompiled(context: Context, specialization: Specialization) -> int:
    """How often the function was compiled again; a specialization without recompiles costs nothing."""
    return sum(
        recompile.count
        for recompile in context.insights.recompiles
        if specialization.code and recompile.code == specialization.code
    )


def _code(context: Context, specialization: Specialization) -> Iterator[Suggestion]:
    again, where = _recompiled(context, specialization), specialization.where
    if not again or where is None or specialization.symbol.startswith(_FLOAT):
        return
    alike = [other for other in context.insights.specializations if _is_same_step(other, specialization)]
    if alike[0] is not specialization:
        return
    values = ", ".join(dict.fromkeys(other.value for other in alike))
    size = name_of_specialization(replace(specialization, value=values))
    code = where.code or context.line(where) or size
    yield Suggestion(
        f"Do not let `{code}` depend on {size}",
        f"that line makes the size a constant, so each other value is compiled again: {counted(again, 'recompile')} of "
        f"`{plain_name(specialization.code.function) if specialization.code else ''}`",
        "specializations",
        Aim.RECOMPILES,
        place=context.place(where),
        weight=again - 0.2,
        note="compare with a range, use torch.cond, or state what always holds with torch._check(…); "
        "mark_unbacked(…, strict=True) makes torch fail instead of specializing",
    )


def _is_same_step(one: Specialization, other: Specialization) -> bool:
    """Whether the same line makes the same size a constant, be it of another value."""
    return (one.cause, one.where, one.sources) == (other.cause, other.where, other.sources)


def _zero_one(context: Context, specialization: Specialization) -> Iterator[Suggestion]:
    sizes = [source for source in specialization.sources if ".size()" in source]
    if not sizes:
        return
    why = f"the size was {specialization.value} once, and sizes 0 and 1 are compiled separately"
    yield Suggestion(
        f"Hide the value of {sizes[0]} at compile time (mark_unbacked), so that 0 and 1 are treated like other sizes",
        why,
        "specializations",
        Aim.RECOMPILES,
        AppliedChange(env={"TORCH_COMPILE_UNBACKED_SOURCES": ",".join(dynamic_source(size) for size in sizes)}),
        place=context.place(specialization.where),
        weight=1.0,
        note="code that branches on the size then fails to compile; in code: "
        "torch._dynamo.decorators.mark_unbacked(tensor, dim)",
    )
    yield Suggestion(
        "Stop torch from checking whether a dynamic size is 0 or 1 (backed_size_oblivious)",
        why,
        "specializations",
        Aim.RECOMPILES,
        AppliedChange(config={"shapes.backed_size_oblivious": True}, arguments={"dynamic": True}),
        place=context.place(specialization.where),
        weight=0.9,
        note="this applies to every dynamic size, here with dynamic=True; code that checks whether a size is 0 or 1 "
        "may behave differently",
    )


def _duck(context: Context, specialization: Specialization) -> Iterator[Suggestion]:
    again = any(
        "duck" in reason.guard.note
        for recompile in context.insights.recompiles
        for reason in recompile.reasons
        if recompile.code == specialization.code
    )
    if not again:
        return
    yield Suggestion(
        "Treat sizes that happen to be equal as different sizes",
        f"{name_of_specialization(specialization)}: when the sizes differ, the function is compiled again",
        "specializations",
        Aim.RECOMPILES,
        AppliedChange(config={"shapes.use_duck_shape": False}),
        weight=1.0,
        place=context.place(specialization.where),
    )


def _violated(context: Context, specialization: Specialization) -> Iterator[Suggestion]:
    yield Suggestion(
        f"Mark {', '.join(specialization.sources)} with maybe_mark_dynamic, or change the code that makes it "
        f"{specialization.value}",
        specialization.reason or "the size was marked dynamic, but the code makes it a constant",
        "specializations",
        Aim.FAILURES,
        edit=_maybe(context, specialization),
        weight=50.0,
        place=context.place(specialization.where),
    )


def _maybe(context: Context, specialization: Specialization) -> SourceEdit | None:
    """Replace the matching `mark_dynamic` by `maybe_mark_dynamic`: the one of that name, or the only one."""
    marks = [
        (file, number, line, mark["argument"])
        for file in dict.fromkeys(node.frame.file for node in context.insights.overview.tree)
        for number, line in enumerate(context.lines(file), 1)
        if (mark := _MARK.match(line))
    ]
    name_of_specialization = [
        mark_found
        for mark_found in marks
        if any(source.startswith(f"L['{mark_found[3]}']") for source in specialization.sources)
    ]
    if len(name_of_specialization or marks) != 1:
        return None
    file, number, line, _ = (name_of_specialization or marks)[0]
    return edit(context, file, number, number, [line.replace(".mark_dynamic(", ".maybe_mark_dynamic(")])


_RULES = {Cause.CODE: _code, Cause.DUCK: _duck, Cause.ZERO_ONE: _zero_one, Cause.VIOLATED: _violated}


def _similar(context: Context) -> Iterator[Suggestion]:
    """Functions of several modules with the same graph, which one set of dynamic sizes could serve."""
    if any(changing_sizes(recompile) for recompile in context.insights.recompiles):
        return
    spare = sum(group.count - 1 for group in context.insights.similar if not group.one_function)
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
    """The user's Triton kernels that were compiled for several values of a constant."""
    for kernel in context.insights.shapes.kernels:
        if len(kernel.compiles) > 1:
            yield Suggestion(
                f"Remove tl.constexpr from the arguments among {listed(kernel.arguments)} that change between calls of "
                f"`{kernel.kernel}`",
                "each value of a constexpr is a kernel of its own; the kernel is in "
                f"{counted(len(kernel.compiles), 'compile')}",
                "shapes",
                Aim.COMPILE_SECONDS,
            )
