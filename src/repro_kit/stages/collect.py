"""The pipeline: runs the stages in order on one case."""

from __future__ import annotations

from repro_kit.errors import Exit


class Stop(Exception):
    """Raised by a stage to end the pipeline honestly: nothing failed, the user's own bug. `sentence` says so."""

    def __init__(self, exit_code: Exit, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.sentence = sentence
