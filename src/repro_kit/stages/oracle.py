"""Open the oracle that fits the case: forked children where that is safe, fresh interpreters elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from repro_kit.case import Case
from repro_kit.model.failure import Kind
from repro_kit.model.results import Environment
from repro_kit.runner.spawn import SpawnOracle
from repro_kit.runner.zygote import ZygoteOracle
from repro_kit.stages.options import Options

_HANG = 25.0  # seconds after which a small program that should compile in a few is taken to hang


@contextmanager
def open_oracle(case: Case, options: Options, *, fresh: bool = False) -> Iterator[ZygoteOracle | SpawnOracle]:
    """An oracle in the case's interpreter; `fresh`: a new interpreter for every query.

    Fork is not safe once an accelerator's runtime has started, so machines with one get fresh interpreters.
    """
    env = case.read("env.json", Environment)
    python = case.file.subject.python
    cache = case.path / "cache" / "oracle"
    if fresh or env.accelerator:
        with SpawnOracle(python, cache=cache, jobs=options.jobs) as spawn:
            yield spawn
        return
    with ZygoteOracle(python, cache=cache, jobs=options.jobs) as zygote:
        yield zygote


def query_timeout(options: Options, kind: Kind) -> float:
    """Seconds for one query; a hang is recognised by where it hangs, so that waiting long adds nothing."""
    return min(options.query_timeout, _HANG) if kind == Kind.TIMEOUT else options.query_timeout
