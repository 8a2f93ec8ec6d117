"""Put values and functions in the place of their use, drop parameters and classes, and give plain names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from repro_kit.reduce.adaptive import one_by_one, sweep
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


def _rewriting(name: str, *proposals: Callable[[NumberedTree], Iterable[Edits]]) -> Callable[[SourceSearch], None]:
    """The pass `name`, which accepts such edits one at a time, each on a tree that is numbered anew."""

    def run(search: SourceSearch) -> None:
        for propose in proposals:
            one_by_one(search, lambda search, propose=propose: propose(search.rebase()))  # type: ignore[misc]

    run.__name__ = name
    return run


#: A value in the place of the variable that holds it.
variables = _rewriting("variables", calls.variables, reassigned)
#: What two statements put together, at once.
accumulated = _rewriting("accumulated", written_out)
#: The body of a function in the place of its only call, also of a lambda; an expression at each call.
functions = _rewriting("functions", calls.functions, calls.methods, expression_functions, calls.called_lambdas)
#: A lambda in the place of a function of one expression.
lambdas = _rewriting("lambdas", calls.lambdas)
#: What makes a decorator in its place, and the call of a decorator where the function is used.
decorators = _rewriting("decorators", plain_decorators)
#: No parameters that are not needed, nor their arguments.
parameters = _rewriting("parameters", without_parameter)
#: Functions in the place of classes.
classes = _rewriting("classes", dissolved)
#: The call of what is handed to a pool, a thread or the event loop.
pools = _rewriting("pools", plain_calls, coroutines)
#: The name of what is looked up in a registry.
registries = _rewriting("registries", registered)
#: The body of a loop or a context where a generator function yields.
generators = _rewriting("generators", run_in_place, first_yields)
#: The value of an attribute in the place of its only reading.
attributes = _rewriting("attributes", read_once)
#: The first element in the place of a comprehension.
first_items = _rewriting("first_items", calls.first_items)


def names(search: SourceSearch) -> None:
    """Give plain names: all at once, else as many as possible."""
    numbered = search.rebase()
    chosen = plain_names(numbered)

    def propose(items: Sequence[str]) -> Proposal:
        return renamed(numbered, {name: chosen[name] for name in items})

    sweep(search, list(chosen), propose)
