"""Put values and functions in the place of their use, drop parameters and classes, and give plain names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from repro_kit.reduce.adaptive import sweep
from repro_kit.reduce.source_search import Proposal, SourceSearch
from repro_kit.source.proposals import calls
from repro_kit.source.proposals.accumulated import accumulated as written_out
from repro_kit.source.proposals.attributes import attributes as read_once
from repro_kit.source.proposals.classes import classes as dissolved
from repro_kit.source.proposals.coroutines import coroutines
from repro_kit.source.proposals.decorators import decorators as plain_decorators
from repro_kit.source.proposals.every_call import expression_functions, reassigned
from repro_kit.source.proposals.generators import first_yields
from repro_kit.source.proposals.generators import generators as run_in_place
from repro_kit.source.proposals.names import plain_names, renamed
from repro_kit.source.proposals.parameters import parameters as without_parameter
from repro_kit.source.proposals.pools import pools as plain_calls
from repro_kit.source.proposals.registries import registered
from repro_kit.source.tree import Edits, NumberedTree


def variables(search: SourceSearch) -> None:
    """Put a value in the place of the variable that holds it."""
    _one_by_one(search, calls.variables)
    _one_by_one(search, reassigned)


def accumulated(search: SourceSearch) -> None:
    """Write out at once what is put together in two statements."""
    _one_by_one(search, written_out)


def functions(search: SourceSearch) -> None:
    """Put the body of a function in the place of its only call, also that of a lambda; an expression at each call."""
    _one_by_one(search, calls.functions)
    _one_by_one(search, calls.methods)
    _one_by_one(search, expression_functions)
    _one_by_one(search, calls.called_lambdas)


def lambdas(search: SourceSearch) -> None:
    """Put a lambda in the place of a function of one expression."""
    _one_by_one(search, calls.lambdas)


def decorators(search: SourceSearch) -> None:
    """Put what makes a decorator in its place, and call a decorator where the function is used."""
    _one_by_one(search, plain_decorators)


def parameters(search: SourceSearch) -> None:
    """Drop parameters with their arguments."""
    _one_by_one(search, without_parameter)


def classes(search: SourceSearch) -> None:
    """Make functions of classes."""
    _one_by_one(search, dissolved)


def pools(search: SourceSearch) -> None:
    """Call what is handed to a pool, a thread or the event loop."""
    _one_by_one(search, plain_calls)
    _one_by_one(search, coroutines)


def registries(search: SourceSearch) -> None:
    """Name what is looked up in a registry."""
    _one_by_one(search, registered)


def generators(search: SourceSearch) -> None:
    """Run the body of a loop or a context where a generator function yields."""
    _one_by_one(search, run_in_place)
    _one_by_one(search, first_yields)


def attributes(search: SourceSearch) -> None:
    """Put the value of an attribute in the place of its only reading."""
    _one_by_one(search, read_once)


def first_items(search: SourceSearch) -> None:
    """Put the first element in place of a comprehension."""
    _one_by_one(search, calls.first_items)


def _one_by_one(search: SourceSearch, propose: Callable[[NumberedTree], Iterable[Edits]]) -> None:
    """Accept edits one at a time, each on a tree that is numbered anew, since such edits move code."""
    while search.first(propose(search.rebase())) is not None:
        pass


def names(search: SourceSearch) -> None:
    """Give plain names: all at once, else as many as possible."""
    numbered = search.rebase()
    chosen = plain_names(numbered)

    def propose(items: Sequence[str]) -> Proposal:
        return renamed(numbered, {name: chosen[name] for name in items})

    sweep(search, list(chosen), propose)
