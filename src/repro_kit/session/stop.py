"""How a stage ends the pipeline early, and honestly."""

from __future__ import annotations

from repro_kit.errors import Exit


class Stop(Exception):
    """There is nothing left to do: `sentence` says why, `exit_code` is the command's."""

    def __init__(self, exit_code: Exit, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.sentence = sentence
