"""What the texts of a bundle say of how a wrong result was told from chance and from rounding."""

from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.case.stage_results import Environment
from repro_kit.model.failure.failure import Difference, Failure, Kind
from repro_kit.model.failure.rounding import ResultErrors
from repro_kit.model.failure.signature import Signature
from repro_kit.program import parse
from repro_kit.stages.bundle.forms import ReproForm
from repro_kit.stages.bundle.proof import casts_may_explain, proof_of

PROGRAM = parse(
    "# repro-kit program 1\nimport torch\n\nRECIPE = {}\n"
    "\n\ndef graph(x):\n    relu = torch.relu(x)\n    return (relu,)\n"
    "\n\ndef calls():\n    return [(torch.ones(3),)]\n"
)
ROW = ResultErrors("output 0", "float16", 3, 1.0, False, eager=1e-3, compiled=2.0)
WRONG = Failure(Kind.ACCURACY, difference=Difference("value", "output 0"), doubts=(), errors=(ROW,))


def form(
    failure: Failure, *, rounding: bool = False, name: str = "minify/best.py", is_script: bool = False
) -> ReproForm:
    signature = Signature(failure.kind, difference="value", rounding=rounding)
    facts = Facts(signature, failure, Environment("3.11", "python", "linux", "2.13.0"))
    path = Path("x.repro") / name
    return ReproForm(facts, 60.0, "", path, None if is_script else PROGRAM, reduced=name.startswith("minify"))


def test_all_that_was_asked_is_told() -> None:
    assert proof_of(form(WRONG), stays_with_casts=True) == (
        "Eager gives the same in two runs, and draws no random numbers; from double precision eager differs by 0.001 "
        "at most, and the compiled result by 2; with TORCHINDUCTOR_EMULATE_PRECISION_CASTS=1 it fails alike."
    )


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (
            Failure(Kind.ACCURACY, difference=WRONG.difference, doubts=("it draws random numbers",)),
            "same random numbers",
        ),
        (
            Failure(
                Kind.ACCURACY, difference=WRONG.difference, errors=(ResultErrors("output 0", "int64", 1, 1, False),)
            ),
            "it has no result in double precision to be held against.",
        ),
    ],
)
def test_what_is_not_known_is_not_claimed(failure: Failure, words: str) -> None:
    told = proof_of(form(failure), stays_with_casts=False)
    assert words in told and "draws no" not in told


@pytest.mark.parametrize(
    "silent",
    [
        form(Failure(Kind.CRASH)),
        form(WRONG, rounding=True),
        form(WRONG, name="minify/history/003.py"),  # the errors are those of another program
        form(WRONG, is_script=True),
    ],
)
def test_nothing_is_told_of_what_was_not_asked(silent: ReproForm) -> None:
    assert proof_of(silent, stays_with_casts=False) == ""


@pytest.mark.parametrize(
    ("difference", "text", "may"),
    [
        ("value", "x.half()", True),
        ("alias", "x.half()", False),
        ("value", "x.float()", False),
        (None, "bfloat16", True),
    ],
)
def test_casts_may_explain_values_of_narrow_dtypes(difference: str | None, text: str, may: bool) -> None:
    assert casts_may_explain(Signature(Kind.ACCURACY, difference=difference), [text]) is may
