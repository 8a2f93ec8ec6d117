"""What the ranks of a distributed run did: a line for each, and where they part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.failure.exception_origin import is_of_a_peer
from repro_kit.failure.failure import Failure
from repro_kit.failure.messages import fault_line
from repro_kit.failure.tracebacks import short as short_type
from repro_kit.runner.read_findings import Findings, UncaughtException
from repro_kit.trace.insights.gather import Insights, gather
from repro_kit.trace.insights.ranks import Divergence
from repro_kit.trace.places import CompileRef
from repro_kit.trace.rank_history import Collective, RankState, differing_collectives, in_order, named_ranks, short
from repro_kit.verdicts.deadlocks import latest
from repro_kit.verdicts.observed_failures import aborted_at_exit, crashes, ended_by_launcher, failed_first, failure_of

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


_SHOWN = ("compiles", "graph", "collectives")


@dataclass(frozen=True)
class RankReport:
    """The ranks of a run: a line for each, and sentences that say where they part. Both are empty for one rank."""

    lines: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()


def rank_report(trace: Path, findings: Findings) -> RankReport:
    """Compare the ranks of a run. `trace`: the directory of the run's logs."""
    ranks = {process.rank for process in findings.processes if process.rank is not None}
    if len(ranks) < 2 and not latest(findings):
        return RankReport()
    insights = gather(trace)
    sentences = [*_divergences(insights), *cause_sentences(findings), *late_ranks(latest(findings))]
    return RankReport(rank_lines(findings, insights.ranks.compiles), tuple(sentences))


def suspects(trace: Path, findings: Findings) -> tuple[int, ...]:
    """The ranks that may show the failure alone, the likeliest first: those that failed, then those that compiled most.

    `trace`: the directory of the run's logs. Empty for one rank.
    """
    ranks = {state.pid: state.rank for state in latest(findings)}
    failed = [ranks[pid] for pid in failed_first(findings) if pid in ranks]
    compiles = gather(trace).ranks.compiles if ranks else {}
    return tuple(dict.fromkeys([*failed, *sorted(ranks.values(), key=lambda rank: -compiles.get(rank, 0))]))


def _divergences(insights: Insights) -> Iterator[str]:
    """The first compile in which the ranks differ, with the user's code, and the guards that made only some compile."""
    apart = next((divergence for divergence in insights.ranks.divergences if divergence.what == "code"), None)
    if apart is not None:
        functions = ", ".join(f"rank {min(ranks)} {function}" for function, ranks in apart.groups)
        yield f"The ranks compile different functions, first in {apart.compile_id}: {functions}."
    divergences = [divergence for divergence in insights.ranks.divergences if divergence.what in _SHOWN]
    if divergences:
        number = sum(len(divergence.compile_ids) for divergence in divergences) - 1
        more = f", and {number} more differ" if number else ""
        yield (
            f"The ranks differ: {_in_words(divergences[0])}{_place(insights, divergences[0])}{more}. "
            "A rank that runs other collectives than the others"
            " makes them wait. `repro-kit explain CASE --section ranks` lists the differences."
        )
        yield from _parting(insights, divergences[0])
        yield from _guards(insights, divergences)


def _parting(insights: Insights, first: Divergence) -> Iterator[str]:
    """Where the graphs of `first` part, as far as the trace shows it."""
    parting = insights.parting
    words = parting.sentences() if parting is not None and parting.compile_id == first.compile_id else ""
    if words:
        yield words


def _place(insights: Insights, divergence: Divergence) -> str:
    """The user's function that the compile is of."""
    for function in insights.recompiles:
        if function.code is not None and any(ref.compile_id == divergence.compile_id for ref in function.compiles):
            return f" ({function.name}, {function.code.file.rpartition('/')[2]}:{function.code.line})"
    return ""


def _guards(insights: Insights, divergences: list[Divergence]) -> Iterator[str]:
    only = {
        (compile_id, rank)
        for divergence in divergences
        if divergence.what == "compiles"
        for compile_id in divergence.compile_ids
        for text, ranks in divergence.groups
        if text == "compiled"
        for rank in ranks
    }
    for function in insights.recompiles:
        for reason in function.reasons:
            refs: list[CompileRef] = [ref for ref in reason.compiles if (ref.compile_id, ref.rank) in only]
            if refs:
                ranks = ", ".join(sorted({str(ref.rank) for ref in refs}))
                yield f"Rank {ranks} compiled {function.name} again because of the guard {reason.guard.text}."
                return


def _in_words(divergence: Divergence) -> str:
    ranks = {text: named_ranks(numbers) for text, numbers in divergence.groups}
    if divergence.what == "compiles":
        return f"only {ranks['compiled']} compiled {divergence.compile_id}"
    if divergence.what == "collectives":
        orders = " and ".join(f"{text} on {numbers}" for text, numbers in ranks.items())
        return f"the code of {divergence.compile_id} calls {orders}"
    groups = sorted(numbers for _, numbers in divergence.groups)
    if len(groups) > 2 and all(len(numbers) == 1 for numbers in groups):
        *others, last = (str(number) for (number,) in groups)
        return f"ranks {', '.join(others)} and {last} all have different graphs in {divergence.compile_id}"
    words = " and ".join(map(named_ranks, groups))
    return f"{words} have different graphs in {divergence.compile_id}"
