"""Which statements may be wrong, from the results of a run that are wrong and those that are right.

A wrong result is made from what is wrong, a right one is not. An output is made from the statements before it. In the
backward it is the other way round: the gradient of a parameter is made from those of the statements after it. A
statement that reads a parameter with a right gradient stays a suspect: it may give its other operands a wrong one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_, or_

from repro_kit.graph.effects import Base
from repro_kit.graph.program import Program
from repro_kit.probe.repro_probe.protocol.failure_data import AFTER, OF_GRADIENT


def suspects(program: Program, wrong: Sequence[str], right: Sequence[str]) -> list[int]:
    """The statements of the graph of which one, if it alone is wrong, explains the results; empty if none does.

    `wrong`, `right`: results as `Verdict` names them. Where an output is wrong, gradients show nothing more.
    """
    if len(program.calls) != 1:
        return []
    flow = _Flow(Base(program))
    if any(not name.startswith(OF_GRADIENT) for name in wrong):
        before = [sets for name in wrong if (sets := flow.before(name)) is not None]
        cleared = [sets for name in right if (sets := flow.before(name, strictly=name.endswith(AFTER))) is not None]
        return flow.in_units(_all(before) & ~_any(cleared))
    parameters, fine = ([_parameter(name) for name in names if _parameter(name)] for names in (wrong, right))
    found = _all(map(flow.after, parameters)) & ~_any(flow.after(name, strictly=True) for name in fine)
    # Else the statement gives one of its operands a wrong gradient, and the others a right one.
    return flow.in_units(found or _all(map(flow.readers, parameters)))


def _parameter(name: str) -> str:
    return name.removeprefix(OF_GRADIENT) if name.startswith(OF_GRADIENT) else ""


def _all(sets: Iterable[int]) -> int:
    """What is in every set; none of no sets."""
    found = list(sets)
    return reduce(and_, found) if found else 0


def _any(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


class _Flow:
    """How values go through a graph. A set of statements is a number, with a bit for each."""

    def __init__(self, base: Base) -> None:
        self._code = base
        self._outputs = _flat(base.program)
        count = len(base.statements)
        sources = [self._sources(at) for at in range(count)]
        self._before, self._after = [0] * count, [0] * count  # without the statement itself
        for at in range(count):
            self._before[at] = _any(self._before[source] | 1 << source for source in sources[at])
        for at in reversed(range(count)):
            for source in sources[at]:
                self._after[source] |= self._after[at] | 1 << at

    def _sources(self, at: int) -> list[int]:
        """The statements whose results statement `at` reads: those that made the values, or wrote to them since."""
        base, found = self._code, []
        for name in base.reads[at]:
            if name in base.index and base.index[name] < at:
                found.append(base.index[name])
            if name in base.families:
                found += [it for it in range(at) if not base.families[name].isdisjoint(base.effects[it].mutates)]
        return found

    def readers(self, parameter: str) -> int:
        """The statements that read a parameter."""
        return _any(1 << at for at, names in enumerate(self._code.reads) if parameter in names)

    def after(self, parameter: str, *, strictly: bool = False) -> int:
        """What is computed from a parameter: the statements that read it (not `strictly`), and all that follow."""
        following = _any(self._after[at] for at, names in enumerate(self._code.reads) if parameter in names)
        return following if strictly else following | self.readers(parameter)

    def before(self, result: str, *, strictly: bool = False) -> int | None:
        """What a result is computed from: the statement that makes it (not `strictly`), and all before.

        An argument that is written to is the result of those who read it. None for a gradient, and if it is not known.
        """
        if result.endswith(AFTER):
            makers = self.readers(result.removesuffix(AFTER))
        else:
            number = result.removeprefix("output ")
            named = number.isdecimal() and int(number) < len(self._outputs)
            at = self._code.index.get(self._outputs[int(number)]) if named else None
            if at is None:
                return None
            makers = 1 << at
        before = _any(sets for at, sets in enumerate(self._before) if makers >> at & 1)
        return before if strictly else before | makers

    def in_units(self, found: int) -> list[int]:
        """A set as numbers, with whole units: a tuple and its items."""
        units = [unit for unit in self._code.units if any(found >> at & 1 for at in unit)]
        return sorted(at for unit in units for at in unit)


def _flat(program: Program) -> tuple[str, ...]:
    """The returned names by their numbers; none unless the graph returns a tuple of names."""
    returned = program.graph.returns.expression
    parts = returned.elts if isinstance(returned, ast.Tuple | ast.List) else []
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return tuple(names) if len(names) == len(parts) else ()
