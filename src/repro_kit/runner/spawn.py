"""The oracle that starts a fresh interpreter for every query: slow, safe with accelerators, and for final checks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from repro_kit.model.recipe import Recipe
from repro_kit.runner.oracle import ProgramOracle
from repro_kit.runner.server import ServerDied


class SpawnOracle(ProgramOracle):
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

    def prepare(self, recipe: Recipe) -> None:
        """Have an interpreter for the next query import torch already; the query must ask for the same variables."""
        with suppress(ServerDied):  # the query will say it
            self._server.send({"prepare": recipe.env})
