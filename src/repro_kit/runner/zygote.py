"""The oracle that forks: torch is imported once, and a query costs a fraction of a second."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from repro_kit.runner.oracle import ProgramOracle


class ZygoteOracle(ProgramOracle):
    """Queries run in forked children of one process. Not safe once an accelerator is used: see `SpawnOracle`."""

    def __init__(
        self,
        python: str,
        *,
        env: Mapping[str, str] | None = None,
        cache: Path | None = None,
        jobs: int = 1,
        memory: int | None = None,
    ) -> None:
        super().__init__(python, how="fork", env=env, cache=cache, jobs=jobs, memory=memory)
