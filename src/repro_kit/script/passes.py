"""The passes over a script: drop and unwrap statements, put code where it is used, give plain names."""

from __future__ import annotations

import ast
import builtins
import copy
import keyword
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from repro_kit.reduce.proposing import each, one_by_one, sweep
from repro_kit.script import recording as returned
from repro_kit.script.compile_calls import left_to_eager as left_to_eager_edits
from repro_kit.script.failing_statements import cut_off, deciding_parts
from repro_kit.script.failing_statements import outside_slices as outside_slices_of
from repro_kit.script.proposals import expressions, inline, structure
from repro_kit.script.proposals.classes import classes as dissolved
from repro_kit.script.proposals.classes import unboxed
from repro_kit.script.proposals.in_place import accumulated as written_out
from repro_kit.script.proposals.in_place import attributes as read_once
from repro_kit.script.proposals.in_place import decorators as plain_decorators
from repro_kit.script.proposals.in_place import expression_functions, reassigned
from repro_kit.script.proposals.indirect import coroutines, first_yields, registered
from repro_kit.script.proposals.indirect import generators as run_in_place
from repro_kit.script.proposals.indirect import pools as plain_calls
from repro_kit.script.proposals.parameters import parameters as without_parameter
from repro_kit.script.search import Proposal, ScriptSearch
from repro_kit.script.tree import Edits, NumberedTree, Replacement, bound_by


def recorded(search: ScriptSearch) -> None:
    """Put plain values in place of what computes them, but not of the calls that fail, nor of what decides."""
    numbered = search.rebase()
    places = {
        number: edit
        for number, edit in expressions.recorded(numbered, search.values).items()
        if not structure.is_at(numbered, number, search.failing_lines, search.decisive)
    }
    passive = {number: edit for number, edit in places.items() if isinstance(numbered.nodes[number], ast.Attribute)}
    outside = {number: edit for number, edit in passive.items() if not structure.in_class(numbered, number)}
    search.first([places, passive, outside])


def results(search: ScriptSearch) -> None:
    """Put what calls returned in their places, and drop what nothing else needs."""
    numbered = search.base  # on its lines
    places = {
        number: value
        for number, value in returned.results(numbered, search.values, search.failing_lines).items()
        if not structure.is_at(numbered, number, (), search.decisive)
    }

    def propose(numbers: Sequence[int]) -> Proposal:
        return returned.with_released(numbered, {**search.edits, **{number: places[number] for number in numbers}})

    sweep(search, list(places), propose)


def left_to_eager(search: ScriptSearch) -> None:
    """Compile no more than the failure needs: what else is compiled costs its time in every later query."""
    _leave_to_eager(search, lambda edits: True)


def called_left_to_eager(search: ScriptSearch) -> None:
    """The same, but each statement stays on its line: a function whose decorator compiles it is left as it is."""
    _leave_to_eager(search, lambda edits: None not in edits.values())


def _leave_to_eager(search: ScriptSearch, may: Callable[[Edits], bool]) -> None:
    every = left_to_eager_edits(search.rebase())
    if len(every) > 1:
        sweep(search, list(filter(may, every)), _together)


def _together(some: Sequence[Edits]) -> Edits:
    return {number: edit for edits in some for number, edit in edits.items()}


def untyped(search: ScriptSearch) -> None:
    """Drop the annotations of all functions."""
    search.first([dict.fromkeys(structure.type_hints(search.rebase()))])


def outside_slices(search: ScriptSearch) -> None:
    """Drop at once the statements that the failure does not seem to depend on."""
    numbered = search.rebase()
    search.first(dict.fromkeys(numbers) for numbers in outside_slices_of(numbered, search.failing_lines))


def after_failure(search: ScriptSearch) -> None:
    """Drop what comes after the failing statements, in all functions that the failure passed through or in some."""
    numbered = search.base  # on its lines
    cuts = cut_off(numbered, search.failing_lines)

    def propose(some: Sequence[Edits]) -> Proposal:
        return {**search.edits, **_together(some)}

    sweep(search, cuts, propose)


def unreachable(search: ScriptSearch) -> None:
    """Drop the definitions that nothing mentions."""
    search.first([dict.fromkeys(structure.unreachable(search.rebase()))])


def unused(search: ScriptSearch) -> None:
    """Drop what nothing reads, all at once: imports, assignments, and the statements that are only a value.

    An assignment may be needed all the same, for what its value does; then as many go as can.
    """
    numbered = search.rebase()
    idle = structure.unused(numbered)
    dead = [numbered.number(node) for node in structure.never_read(numbered.tree)]
    if search.first([dict.fromkeys([*idle, *dead])]) is None and dead:
        search.first([dict.fromkeys(idle)])
        sweep(search, dead, _without)


def drop(search: ScriptSearch) -> None:
    """Drop statements, the outer ones first."""
    depth = 0
    while True:
        levels = list(structure.levels(search.rebase()))
        if depth >= len(levels):
            return
        sweep(search, levels[depth], _without, width=None if search.coarse else 1)
        depth += 1


def definitions(search: ScriptSearch) -> None:
    """Drop single statements, also where code that never runs then reads a name that nothing binds."""
    search.bound = False
    drop(search)
    search.bound = True


def items(search: ScriptSearch) -> None:
    """Drop arguments, bases, decorators, elements and annotations."""
    sweep(search, structure.items(search.rebase()), _without, width=None if search.coarse else 1)


def _without(numbers: Sequence[int]) -> Proposal:
    return dict.fromkeys(numbers)


def unwrap(search: ScriptSearch) -> None:
    """Take one branch, unroll a loop once, drop a context manager."""
    each(search, structure.unwrapped(search.rebase(), search.items))


def simpler(search: ScriptSearch) -> None:
    """Put an operand or a constant in place of an expression; what nothing reads any more goes at once."""
    while _simpler(search):
        unused(search)


def _simpler(search: ScriptSearch) -> bool:
    """Whether the pass ended early, since it left an assignment that nothing reads."""
    before = len(structure.never_read(search.program.tree))
    for edits in expressions.simpler(search.rebase(), search.values):
        accepted = search.first(edits) is not None
        # A pass that begins again tries nothing twice, but in a thorough search.
        if accepted and not search.thorough and len(structure.never_read(search.program.tree)) > before:
            return True
    return False


def drawn(search: ScriptSearch) -> None:
    """Put ones in the place of random numbers."""
    sweep(search, expressions.drawn(search.rebase()), _together)


def literals(search: ScriptSearch) -> None:
    """Make sizes smaller and literals plainer."""
    each(search, expressions.sizes(search.rebase()))
    each(search, expressions.literals(search.rebase()))


_KEPT = ("self", "cls", "forward", "backward", "main")


def plain_names(numbered: NumberedTree) -> dict[str, str]:
    """A plain name for every name that the program itself defines, in the order of the text."""
    kinds: dict[str, str] = {}
    used, imported = set[str](), set[str]()
    for node in numbered.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                kinds.setdefault(name, "f")
            case ast.ClassDef(name=name):
                kinds.setdefault(name, "A")
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                kinds.setdefault(name, "a")
            case ast.alias():
                imported.add(bound_by(node))
        used |= {getattr(node, "id", "") or "", getattr(node, "attr", "") or ""}
    wanted = [name for name in kinds if _may_change(name) and name not in imported]
    used |= imported | set(dir(builtins)) | set(keyword.kwlist)
    chosen: dict[str, str] = {}
    for name in wanted:
        chosen[name] = next(new for new in _new_names(kinds[name]) if new not in used)
        used.add(chosen[name])
    return {name: new for name, new in chosen.items() if len(new) < len(name)}


def _may_change(name: str) -> bool:
    return len(name) > 1 and name not in _KEPT and not name.startswith("__")


def _new_names(kind: str) -> Iterator[str]:
    letters = string.ascii_uppercase if kind == "A" else string.ascii_lowercase
    at = letters.index(kind)
    ordered = letters[at:] + letters[:at]
    yield from ordered
    for number in range(1, 1000):
        yield from (f"{letter}{number}" for letter in ordered)


def renamed(numbered: NumberedTree, names: Mapping[str, str]) -> Edits:
    """The edits that give things their new names, wherever these are used."""
    edits: dict[int, Replacement] = {}
    for number, node in enumerate(numbered.nodes):
        for field in ("id", "name", "arg", "attr"):
            old = getattr(node, field, None)
            if isinstance(old, str) and old in names and not isinstance(node, ast.alias):
                new = copy.copy(node)
                setattr(new, field, names[old])
                edits[number] = new
        if isinstance(node, ast.Global | ast.Nonlocal) and any(name in names for name in node.names):
            edits[number] = type(node)([names.get(name, name) for name in node.names])
    return edits


def called_by_check(search: ScriptSearch) -> None:
    """Put functions and classes that what decides calls in their places: the same check of the same values.

    Nothing else may change what decides, since the search would make the check ask for something else.
    """
    _within_check(search, dissolved, unboxed, expression_functions, inline.functions)


def checked(search: ScriptSearch) -> None:
    """Put values in the place of their only reading in what decides, likewise."""
    _within_check(search, inline.variables)


def _within_check(search: ScriptSearch, *proposals: Callable[[NumberedTree], Iterable[Edits]]) -> None:
    while search.decisive and any(_moved_into_check(search, propose) for propose in proposals):
        pass


def _moved_into_check(search: ScriptSearch, propose: Callable[[NumberedTree], Iterable[Edits]]) -> bool:
    numbered, decisive = search.rebase(), search.decisive
    parts = [part for part in deciding_parts(numbered.tree) if ast.unparse(part) in decisive]
    for edits in propose(numbered):
        now = {ast.unparse(part): numbered.text_with(part, edits) for part in parts}
        if any(old != new for old, new in now.items()):
            search.decisive = tuple(text for text in (now[text] for text in decisive if text in now) if text)
            if search.first([edits]) is not None:
                return True
            search.decisive = decisive
    return False


def _rewriting(name: str, *proposals: Callable[[NumberedTree], Iterable[Edits]]) -> Callable[[ScriptSearch], None]:
    """The pass `name`, which accepts such edits one at a time, each on a tree that is numbered anew."""

    def run(search: ScriptSearch) -> None:
        for propose in proposals:
            one_by_one(search, lambda search, propose=propose: propose(search.rebase()))  # type: ignore[misc]

    run.__name__ = name
    return run


#: A value in the place of the variable that holds it.
variables = _rewriting("variables", inline.variables, reassigned)
#: What two statements put together, at once.
accumulated = _rewriting("accumulated", written_out)
#: The body of a function in the place of its only call, also of a lambda; an expression at each call.
functions = _rewriting("functions", inline.functions, inline.methods, expression_functions, inline.called_lambdas)
#: A lambda in the place of a function of one expression.
lambdas = _rewriting("lambdas", inline.lambdas)
#: What makes a decorator in its place, and the call of a decorator where the function is used.
decorators = _rewriting("decorators", plain_decorators)
#: No parameters that are not needed, nor their arguments.
parameters = _rewriting("parameters", without_parameter)
#: Functions in the place of classes.
classes = _rewriting("classes", dissolved, unboxed)
#: The call of what is handed to a pool, a thread or the event loop.
pools = _rewriting("pools", plain_calls, coroutines)
#: The name of what is looked up in a registry.
registries = _rewriting("registries", registered)
#: The body of a loop or a context where a generator function yields.
generators = _rewriting("generators", run_in_place, first_yields)
#: The value of an attribute in the place of its only reading.
attributes = _rewriting("attributes", read_once)
#: The first element in the place of a comprehension.
first_items = _rewriting("first_items", inline.first_items)


def names(search: ScriptSearch) -> None:
    """Give plain names: all at once, else as many as possible."""
    numbered = search.rebase()
    chosen = plain_names(numbered)

    def propose(items: Sequence[str]) -> Proposal:
        return renamed(numbered, {name: chosen[name] for name in items})

    sweep(search, list(chosen), propose)
