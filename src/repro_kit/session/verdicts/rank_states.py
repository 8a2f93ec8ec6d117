"""What the ranks of a distributed run did, from the last state of each: a line for each, and where they part.

A rank that waits in a collective is seldom at fault. So the words point to the rank that does not come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from repro_kit.model.failure.failure_nature import is_of_a_peer
from repro_kit.model.ranks import Collective, RankState, differing_collectives, in_order, short
from repro_kit.runner.read_findings import Findings, UncaughtException
from repro_kit.session.verdicts.deadlocks import latest
from repro_kit.session.verdicts.observed_failures import aborted_at_exit, failure_of

_LATE = 2.0  # seconds that a rank is late; less is usual
_LONGEST = 120  # characters of a message


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
    place = f" at {short(state.line)}" if state.line else ""
    if state.waits is not None:
        return f"waited in {state.waits.named()}"
    return f"was compiling{place}" if state.doing == "compiling" else f"was in Python{place}"


def _last(state: RankState) -> str:
    return f"last collective {state.last.named()}" if state.last is not None else "no collective"


def _counted(number: int) -> str:
    return "1 compile" if number == 1 else f"{number} compiles"


def cause_sentences(findings: Findings) -> Iterator[str]:
    """Where the ranks part: the first collective that differs, else the rank that does not come to one."""
    states = latest(findings)
    aborted = aborted_at_exit(findings)
    for state in states:
        if state.pid in aborted:
            yield (
                f"Rank {state.rank} was aborted at its exit, after its script had ended. "
                "A script that ends without torch.distributed.destroy_process_group() risks that."
            )
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


def _missing(waiting: Collective, waiter: RankState, states: Sequence[RankState], findings: Findings) -> Iterator[str]:
    """The ranks that have not come to the collective in which another rank waits."""
    for state in states:
        began = [collective.number for collective in state.collectives if collective.group == waiting.group]
        if state is not waiter and state.waits is None and max(began, default=0) < waiting.number:
            why = "has ended" if state.pid in findings.ended else _where(state)
            slow = " A slow compile is no hang: the others wait for it." if state.doing == "compiling" else ""
            yield (
                f"Rank {waiter.rank} waits in {waiting.named()} for {waiter.time - waiting.began:.0f} s, to which rank "
                f"{state.rank} does not come: rank {state.rank} {why}.{slow}"
            )
            return


def late_ranks(states: Sequence[RankState]) -> Iterator[str]:
    """The collective for which the ranks waited longest, where one rank came later than usual by seconds."""
    gaps: list[tuple[float, int, Collective]] = []
    for _, _, calls in in_order({state.rank: state.collectives for state in states}):
        if len(calls) == len(states) and len({call.kind for call in calls.values()}) == 1:  # others never meet
            last, first = (pick(calls, key=lambda rank: calls[rank].began) for pick in (max, min))
            gaps.append((calls[last].began - calls[first].began, last, calls[last]))
    for gap, rank, collective in sorted(gaps, key=lambda entry: -entry[0])[:1]:
        if gap < _LATE:
            return
        late = next(state for state in states if state.rank == rank)
        compiled = late.compiled_between(collective.began - gap, collective.began)
        why = f": it was compiling for {compiled:.0f} s of them, which is no hang" if compiled >= gap / 2 else ""
        yield f"Rank {rank} came {gap:.0f} s later than the others to {collective.named()}{why}."
