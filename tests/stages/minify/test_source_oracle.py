"""What a candidate of a source reduction must show."""

from collections.abc import Sequence

import pytest

from repro_kit.model.failure.failure import Failure, Kind, Status, Verdict
from repro_kit.model.failure.signature import signature_of
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.source import SourceProgram
from repro_kit.stages.minify.source_oracle import Expected, ScriptRun, SourceOracle

FAILURE = Failure(Kind.COMPILE_ERROR, text="no kernel")
FAILS = ScriptRun(Verdict(Status.FAIL, failure=FAILURE))
PASSES = ScriptRun(Verdict(Status.PASS))


class Told(SourceOracle):
    """Answers its runs with the compiler in order, and passes without it."""

    def __init__(self, runs: Sequence[ScriptRun], *, seeded: bool) -> None:
        super().__init__(ProgramOracle("python"), Expected(signature_of(FAILURE), seeded=seeded), 60)
        self.left = list(runs)

    def runs(self, programs: Sequence[SourceProgram]) -> list[ScriptRun]:
        return [self.left.pop(0) for _ in programs]

    def needs_compiler(self, program: SourceProgram) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "seeded", "runs", "outcome"),
    [
        ("x = torch.randn(2)", True, [FAILS, FAILS, FAILS], RunOutcome.FAILS_ALIKE),
        ("x = torch.randn(2)", True, [FAILS, FAILS, PASSES], RunOutcome.PASSES),
        ("torch.manual_seed(0); x = torch.randn(2)", True, [FAILS], RunOutcome.FAILS_ALIKE),
        ("x = torch.randn(2)", False, [FAILS], RunOutcome.FAILS_ALIKE),
    ],
)
def test_without_the_scripts_seed_other_random_numbers_must_fail_too(
    text: str, seeded: bool, runs: list[ScriptRun], outcome: RunOutcome
) -> None:
    oracle = Told(runs, seeded=seeded)
    (answer,) = oracle.check([SourceProgram(text)])
    assert answer.outcome is outcome
    assert oracle.left == []
