"""Open the oracle that fits the case: one that forks, or one that starts fresh interpreters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

from repro_kit.bundle.repro.check_program import HANG
from repro_kit.case.case import Case
from repro_kit.case.stage_results import CAPTURE, ENVIRONMENT, OBSERVATION
from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.graph import Program
from repro_kit.options.stages import QueryOptions
from repro_kit.runner.compiler import probes
from repro_kit.runner.places import instead_of
from repro_kit.runner.program_oracle import ProgramOracle

#: Seconds after which a program counts as hanging. The limit is longer than that of repro.py: compile time may grow
#: exponentially with the program, and the smallest program that is too slow here must be too slow there as well.
_HANG = 1.5 * HANG

#: The limit of a query in seconds, unless the user gives one: so much, and so many times what was measured. The second
#: is generous, because a weaker backend may compile what the failing one never reached.
_LEAST, _TIMES = 30.0, 10.0
_GROWTH = 600.0  # a measurement of growth is bounded by its CPU time, which may be a small share of a busy machine
_UNMEASURED = 120.0  # before anything was measured
_START = 60.0  # the most that is added for the start of a fresh interpreter, which imports torch first

#: The most queries at once on an accelerator: each takes some of its memory, before it does anything.
_ON_ACCELERATOR = 4

#: Forking oracles that the stages share, by interpreter and cache; None if every stage opens its own.
_SHARED: ContextVar[dict[tuple[str, Path], ProgramOracle] | None] = ContextVar("shared", default=None)


@contextmanager
def shared_oracles() -> Iterator[None]:
    """Within this block, the stages of a case share one forking oracle, so that torch is imported only once.

    A block within another one shares the oracles of the outer one, which stay open until that ends.
    """
    if _SHARED.get() is not None:
        yield
        return
    shared: dict[tuple[str, Path], ProgramOracle] = {}
    token = _SHARED.set(shared)
    try:
        yield
    finally:
        _SHARED.reset(token)
        for oracle in shared.values():
            oracle.close()


def begin_oracle(case: Case, jobs: int) -> None:
    """Start the forking oracle that the stages will share, beside the observed run, where that leaves cores to both.

    On two cores the run became slower by as much as the stages after it became quicker.
    """
    if _SHARED.get() is not None and jobs > 2:
        _zygote(case.file.subject.python, _cache(case), jobs).begin()


@contextmanager
def open_oracle(case: Case, jobs: int | None = None) -> Iterator[ProgramOracle]:
    """An oracle that runs programs in the interpreter of the case.

    `jobs` is the number of queries that run at once; None: only one is asked at a time, so any open oracle will do.

    A failure that only shows in a process that has compiled nothing before gets fresh interpreters: the zygote compiles
    before it forks.
    """
    if _fails_only_afresh(case):
        with fresh_oracle(case, jobs or 1) as spawn:
            yield spawn
        return
    zygote = _zygote(case.file.subject.python, _cache(case), jobs and _at_once(case, jobs))
    try:
        yield zygote
    except BaseException:
        zygote.close()  # the zygote starts again with the next query
        raise
    if _SHARED.get() is None:
        zygote.close()


def _fails_only_afresh(case: Case) -> bool:
    capture = case.current(CAPTURE)
    return capture is not None and capture.fresh


@contextmanager
def shared_or_fresh(case: Case) -> Iterator[ProgramOracle]:
    """The forking oracle that the stages share, else a fresh interpreter: a new zygote is dear for one query."""
    if _SHARED.get() is not None:
        with open_oracle(case) as oracle:
            yield oracle
    else:
        with fresh_oracle(case) as spawn:
            yield spawn


def fresh_oracle(case: Case, jobs: int = 1) -> ProgramOracle:
    """An oracle that starts a new interpreter for every query. The caller closes it."""
    return ProgramOracle(case.file.subject.python, how="spawn", cache=_cache(case), jobs=_at_once(case, jobs))


def _at_once(case: Case, jobs: int) -> int:
    """The number of queries at once, for a user who allows `jobs`."""
    return min(jobs, _ON_ACCELERATOR) if case.load(ENVIRONMENT).accelerator else jobs


def _cache(case: Case) -> Path:
    return probes(case.file.subject.python) or instead_of(case.path / "cache" / "oracle")


def _zygote(python: str, cache: Path, jobs: int | None) -> ProgramOracle:
    shared = _SHARED.get()
    zygote = (shared or {}).get((python, cache))
    if zygote is None:
        zygote = ProgramOracle(python, cache=cache, jobs=jobs or 1)
    elif jobs is not None:
        zygote.jobs = jobs
    if shared is not None:
        shared[python, cache] = zygote
    return zygote


def query_timeout(case: Case, options: QueryOptions, kind: Kind | None = None) -> float:
    """The time limit of one query, in seconds: the user's, else one from the time that the failure took before.

    That is the time of the captured program, or of the observed run as long as there is no captured program. That
    limit is shorter for a hang, which its stack identifies.
    """
    if options.query_timeout:
        return options.query_timeout
    capture, observation = case.current(CAPTURE), case.current(OBSERVATION)
    measured = capture.verdict.seconds if capture and capture.verdict else observation.seconds if observation else 0.0
    limit = _LEAST + _TIMES * measured if measured else _UNMEASURED
    if kind is Kind.COMPILE_GROWTH:
        return max(limit, _GROWTH)
    return min(limit, _HANG) if (kind and kind.policy.hangs) else limit


def fresh_timeout(case: Case, options: QueryOptions, kind: Kind | None = None) -> float:
    """The same in a fresh interpreter: longer by what the observed run took, which imported torch as well."""
    limit, observation = query_timeout(case, options, kind), case.current(OBSERVATION)
    if options.query_timeout or (kind and kind.policy.hangs):
        return limit
    return limit + min(_START, observation.seconds if observation else _START)


def with_tolerance(program: Program, failure: Failure | None) -> Program:
    """`program` with the tolerance of `failure`; unchanged if the default tolerance is enough.

    If eager's own rounding error exceeds the default tolerance, a correct compiled result would fail as well.
    """
    tolerance, recipe = failure.tolerance if failure else None, program.recipe
    if tolerance is None or recipe.rtol is not None or recipe.atol is not None:
        return program
    return replace(program, recipe=recipe.with_(rtol=tolerance[0], atol=tolerance[1]))


def with_random(program: Program) -> Program:
    """`program` with eager's random numbers, which a verdict with `fallback_random` asks for."""
    return replace(program, recipe=program.recipe.with_(fallback_random=True))
