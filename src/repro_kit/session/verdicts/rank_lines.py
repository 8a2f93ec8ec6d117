"""What the ranks of a distributed run did, from the last state of each: a line for each, and where they part.

A rank that waits in a collective is seldom at fault. So the words point to the rank that does not come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from repro_kit.model.failure.failure import Failure
from repro_kit.model.failure.failure_nature import is_of_a_peer
from repro_kit.model.failure.normalise import fault_line
from repro_kit.model.failure.tracebacks import short as short_type
from repro_kit.model.rank_history import Collective, RankState, differing_collectives, in_order, short
from repro_kit.runner.read_findings import Findings, UncaughtException
from repro_kit.session.verdicts.deadlock_rule import latest
from repro_kit.session.verdicts.observed_failures import aborted_at_exit, crashes, ended_by_launcher, failure_of

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
        if state.pid in findings.ended:
            return "ended without an exception"
        ended_by = "the launcher" if state.pid in ended_by_launcher(findings) else crashes(findings).get(state.pid)
        return f"was ended by {ended_by}, {_where(state)}" if ended_by else f"did not end, {_where(state)}"
    failure = failure_of(uncaught)
    message = ": ".join(filter(None, [_root_type(failure), fault_line(failure.exceptions[-1].message)]))
    shown = message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"
    return f"{shown} (because of another rank)" if is_of_a_peer(failure) else shown


def _root_type(failure: Failure) -> str:
    """The name of the exception that the failure is of, without those that it was raised from in the compiler."""
    return short_type(failure.exceptions[-1].type)


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
    peers = {uncaught.pid for uncaught in findings.exceptions if is_of_a_peer(failure_of(uncaught))}
    for state in states:
        # A rank that gave up waits no more when it writes its last state.
        waiting = state.waits or (state.last if state.pid in peers and not first else None)
        if waiting is not None and (state.pid not in findings.ended or state.pid in peers):
            yield from _missing(waiting, state, states, findings)
            return


def _first_failure(findings: Findings, states: Sequence[RankState]) -> str:
    """The first failure of a rank that is no consequence of another rank's, where other ranks failed after it."""
    ranks = {state.pid: state.rank for state in states}
    uncaught = [exception for exception in findings.exceptions if exception.pid in ranks]
    own = [(ranks[one.pid], _root_type(failure_of(one))) for one in uncaught if not is_of_a_peer(failure_of(one))]
    if len(own) == len(uncaught):
        return ""
    crashed = [(ranks[pid], signal) for pid, signal in crashes(findings).items() if pid in ranks]
    for first, what in [*own, *crashed][:1]:
        others = sorted({ranks[exception.pid] for exception in uncaught} - {first})
        return (
            f"Rank {first} failed first, with {what}; what rank {', '.join(map(str, others))} raised follows from it."
        )
    return ""


def _missing(waiting: Collective, waiter: RankState, states: Sequence[RankState], findings: Findings) -> Iterator[str]:
    """The ranks that have not come to the collective in which another rank waits."""
    for state in states:
        began = [collective.number for collective in state.collectives if collective.group == waiting.group]
        if state is not waiter and state.waits is None and max(began, default=0) < waiting.number:
            why = "has ended" if state.pid in findings.ended else _where(state)
            if waiter.waits is None:  # it gave up
                slow = "A longer `timeout` of init_process_group lets the others wait for a slow compile."
            else:
                slow = "A slow compile is not a hang: the others wait for it."
            yield (
                f"Rank {waiter.rank} waits in {waiting.named()} for {waiter.time - waiting.began:.0f} s, to which rank "
                f"{state.rank} does not come: rank {state.rank} {why}."
                + (f" {slow}" if state.doing == "compiling" else "")
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
        why = f": it was compiling for {compiled:.0f} s of them, which is not a hang" if compiled >= gap / 2 else ""
        yield f"Rank {rank} came {gap:.0f} s later than the others to {collective.named()}{why}."
