"""How a stage ends the pipeline early."""

from __future__ import annotations

from repro_kit.errors import Exit


class Stop(Exception):
    """Ends the pipeline: `sentence` says why, and the command exits with `exit_code`."""

    def __init__(self, exit_code: Exit, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.sentence = sentence
