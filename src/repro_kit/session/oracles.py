"""Open the oracle that fits the case: forked children where that is safe, fresh interpreters elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from repro_kit.bundle.repro.program_repro import HANG
from repro_kit.case.case import Case
from repro_kit.case.handles import CAPTURE, ENVIRONMENT
from repro_kit.model.failure.failure import Kind
from repro_kit.runner.compiler import probes
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.session.options import QueryOptions

#: Seconds after which a program is taken to hang. Longer than repro.py waits: compile time may grow exponentially with
#: the program, and the smallest one that is too slow here must still be too slow there.
_HANG = 1.5 * HANG

#: Forking oracles that stages share, by interpreter, cache and jobs; None: every stage opens its own.
_SHARED: ContextVar[dict[tuple[str, Path, int], ProgramOracle] | None] = ContextVar("shared", default=None)


@contextmanager
def shared_oracles() -> Iterator[None]:
    """Within it, stages of one case get the same forking oracle, so that torch is imported once for all of them."""
    shared: dict[tuple[str, Path, int], ProgramOracle] = {}
    token = _SHARED.set(shared)
    try:
        yield
    finally:
        _SHARED.reset(token)
        for oracle in shared.values():
            oracle.close()


@contextmanager
def open_oracle(case: Case, jobs: int = 1) -> Iterator[ProgramOracle]:
    """An oracle in the case's interpreter.

    Fork is not safe once an accelerator's runtime has started, so machines with one get fresh interpreters. So do
    failures that a zygote, which has compiled before it forks, does not have.
    """
    if needs_fresh(case) or _fails_only_afresh(case):
        with fresh_oracle(case, jobs) as spawn:
            yield spawn
        return
    zygote = _zygote(case.file.subject.python, _cache(case), jobs)
    try:
        yield zygote
    except BaseException:
        zygote.close()  # it starts again with the next query
        raise
    if _SHARED.get() is None:
        zygote.close()


def needs_fresh(case: Case) -> bool:
    """Whether this machine allows no forking."""
    return bool(case.load(ENVIRONMENT).accelerator)


def _fails_only_afresh(case: Case) -> bool:
    capture = case.current(CAPTURE)
    return capture is not None and capture.fresh


def fresh_oracle(case: Case, jobs: int = 1) -> ProgramOracle:
    """An oracle that starts a new interpreter for every query; to be closed."""
    return ProgramOracle(case.file.subject.python, how="spawn", cache=_cache(case), jobs=jobs)


def _cache(case: Case) -> Path:
    return probes(case.file.subject.python) or case.path / "cache" / "oracle"


def _zygote(python: str, cache: Path, jobs: int) -> ProgramOracle:
    shared = _SHARED.get()
    key = (python, cache, jobs)
    if shared is not None and key in shared:
        return shared[key]
    zygote = ProgramOracle(python, cache=cache, jobs=jobs)
    if shared is not None:
        shared[key] = zygote
    return zygote


def query_timeout(options: QueryOptions, kind: Kind) -> float:
    """Seconds for one query; a hang is recognised by where it hangs, so that waiting long adds nothing."""
    return min(options.query_timeout, _HANG) if kind == Kind.TIMEOUT else options.query_timeout
