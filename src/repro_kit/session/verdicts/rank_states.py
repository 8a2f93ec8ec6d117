"""What the ranks of a distributed run did, from the last state of each: a line for each, and where they part.

A rank that waits in a collective is seldom at fault. So the words point to the rank that does not come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from repro_kit.model.failure.failure_nature import is_of_a_peer
from repro_kit.runner.read_findings import Collective, Findings, RankState, UncaughtException
from repro_kit.session.verdicts.observed_failures import failure_of

_STUCK = 20.0  # seconds in one collective
_LATE = 2.0  # seconds that a rank is late; less is usual
_LONGEST = 120  # characters of a message
#: Collectives in which every rank gives a tensor of one size. In the others the sizes may differ.
_ONE_SIZE = ("all_reduce", "allreduce", "broadcast", "reduce", "_allgather_base", "all_gather_into_tensor")


def latest(findings: Findings) -> tuple[RankState, ...]:
    """The last state of each rank; none for a run of one rank."""
    states = {state.rank: state for state in findings.ranks}
    return tuple(states.values()) if len(states) > 1 else ()


def rank_lines(findings: Findings, compiles: Mapping[int, int]) -> tuple[str, ...]:
    """A line for each rank: how it ended, where it was, and how much it compiled. `compiles`: compiles by rank."""
    exceptions = {uncaught.pid: uncaught for uncaught in findings.exceptions}
    return tuple(
        f"rank {state.rank}: {_end(state, exceptions.get(state.pid), findings)}; {_last(state)}; "
        f"{_counted(compiles.get(state.rank, 0))}"
        for state in latest(findings)
    )


def _end(state: RankState, uncaught: UncaughtException | None, findings: Findings) -> str:
    if uncaught is None:
        return "ended without an exception" if state.pid in findings.ended else f"did not end, {_where(state)}"
    message = f"{uncaught.links[-1].type.rpartition('.')[2]}: {uncaught.links[-1].message}".splitlines()[0]
    shown = message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"
    return f"{shown} (because of another rank)" if is_of_a_peer(failure_of(uncaught)) else shown


def _where(state: RankState) -> str:
    place = f" at {_short(state.line)}" if state.line else ""
    if state.waits is not None:
        return f"waited in {_named(state.waits)}"
    return f"was compiling{place}" if state.doing == "compiling" else f"was in Python{place}"


def _last(state: RankState) -> str:
    return f"last collective {_named(state.last)}" if state.last is not None else "no collective"


def _named(collective: Collective, sizes: str = "") -> str:
    place = f" at {_short(collective.line)}" if collective.line else ""
    return f"{collective.name}{sizes}{place}"


def _counted(number: int) -> str:
    return "1 compile" if number == 1 else f"{number} compiles"


def _short(line: str) -> str:
    return line.replace("\\", "/").rpartition("/")[2]


def cause_sentences(findings: Findings) -> Iterator[str]:
    """Where the ranks part: the first collective that differs, else the rank that does not come to one."""
    states = latest(findings)
    first = _first_failure(findings, states)
    if first:
        yield first
    differing = differing_collectives(states)
    if differing:
        yield f"The ranks call different collectives: {differing}"
        return
    raised = {uncaught.pid for uncaught in findings.exceptions}
    for state in states:
        if state.waits is not None and (state.pid not in findings.ended or state.pid in raised):
            yield from _missing(state.waits, state, states, findings)
            return


def _first_failure(findings: Findings, states: Sequence[RankState]) -> str:
    """The first exception of a rank that is no consequence of another rank's, where other ranks failed after it."""
    ranks = {state.pid: state.rank for state in states}
    uncaught = [exception for exception in findings.exceptions if exception.pid in ranks]
    own = [exception for exception in uncaught if not is_of_a_peer(failure_of(exception))]
    if not own or len(own) == len(uncaught):
        return ""
    others = sorted({ranks[exception.pid] for exception in uncaught} - {ranks[own[0].pid]})
    return (
        f"Rank {ranks[own[0].pid]} failed first, with {own[0].links[-1].type.rpartition('.')[2]}; "
        f"what rank {', '.join(map(str, others))} raised follows from it."
    )


def differing_collectives(states: Sequence[RankState]) -> str:
    """The first collective of a group that is not the same on all its ranks, in words; empty where there is none."""
    by_number: dict[tuple[str, int], dict[int, Collective]] = {}
    for state in states:
        for collective in state.collectives:
            by_number.setdefault((collective.group, collective.number), {})[state.rank] = collective
    for (group, number), calls in sorted(by_number.items(), key=lambda item: min(c.began for c in item[1].values())):
        if len({_kind(collective) for collective in calls.values()}) > 1:
            words = " and ".join(f"{_named(call, _sizes(call))} on rank {rank}" for rank, call in calls.items())
            return f"number {number} of group {group} is {words}."
    return ""


def _kind(collective: Collective) -> tuple[object, ...]:
    same = collective.name in _ONE_SIZE
    return (collective.name, collective.sizes, collective.dtypes) if same else (collective.name,)


def _sizes(collective: Collective) -> str:
    return f" of {', '.join(map(str, map(list, collective.sizes)))}" if collective.sizes else ""


def _missing(waiting: Collective, waiter: RankState, states: Sequence[RankState], findings: Findings) -> Iterator[str]:
    """The ranks that have not come to the collective in which another rank waits."""
    for state in states:
        began = [collective.number for collective in state.collectives if collective.group == waiting.group]
        if state is not waiter and state.waits is None and max(began, default=0) < waiting.number:
            why = "has ended" if state.pid in findings.ended else _where(state)
            slow = " A slow compile is no hang: the others wait for it." if state.doing == "compiling" else ""
            yield (
                f"Rank {waiter.rank} waits in {_named(waiting)} for {waiter.time - waiting.began:.0f} s, to which rank "
                f"{state.rank} does not come: rank {state.rank} {why}.{slow}"
            )
            return


def late_ranks(states: Sequence[RankState]) -> Iterator[str]:
    """The collective for which the ranks waited longest, where one rank came later than usual by seconds."""
    by_number: dict[tuple[str, int], dict[int, Collective]] = {}
    for state in states:
        for collective in state.collectives:
            by_number.setdefault((collective.group, collective.number), {})[state.rank] = collective
    gaps: list[tuple[float, int, Collective]] = []
    for calls in by_number.values():
        if len(calls) == len(states):
            last, first = (pick(calls, key=lambda rank: calls[rank].began) for pick in (max, min))
            gaps.append((calls[last].began - calls[first].began, last, calls[last]))
    for gap, rank, collective in sorted(gaps, key=lambda entry: -entry[0])[:1]:
        if gap < _LATE:
            return
        late = next(state for state in states if state.rank == rank)
        compiled = late.compiled_between(collective.began - gap, collective.began)
        why = f": it was compiling for {compiled:.0f} s of them, which is no hang" if compiled >= gap / 2 else ""
        yield f"Rank {rank} came {gap:.0f} s later than the others to {_named(collective)}{why}."


def deadlock(states: Sequence[RankState], alive: frozenset[int]) -> str:
    """Why the ranks wait for ever, in a sentence; empty where they may go on.

    They wait for ever when every rank that lives has waited for 20 s in a collective, and the ranks are not all in the
    same one. `alive`: the processes that live.
    """
    living = [state for state in states if state.pid in alive]
    waits = [state.waits for state in living]
    if len(states) < 2 or not living or not all(_is_stuck(state) for state in living):
        return ""
    places = {(wait.group, wait.number, _kind(wait)) for wait in waits if wait is not None}
    if len(living) == states[0].size and len(places) == 1:
        return ""
    where = "; ".join(f"rank {state.rank} in {_named(state.waits)}" for state in living if state.waits is not None)
    return f"The ranks were taken to wait for each other for ever: {where}. --timeout S waits for S seconds instead."


def _is_stuck(state: RankState) -> bool:
    return state.waits is not None and state.time - state.waits.began >= _STUCK
