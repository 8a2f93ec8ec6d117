"""The oracle that starts a fresh interpreter for every query: slow, safe with accelerators, and for final checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from repro_kit.runner.oracle import Oracle


class SpawnOracle(Oracle):
    """Like `ZygoteOracle`, with nothing shared between queries but the machine."""

    def __init__(
        self,
        python: str,
        *,
        env: Mapping[str, str] | None = None,
        cache: Path | None = None,
        jobs: int = 1,
        memory: int | None = None,
    ) -> None:
        super().__init__(python, how="spawn", env=env, cache=cache, jobs=jobs, memory=memory)
