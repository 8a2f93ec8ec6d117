"""What the texts of a bundle say of how a wrong result was told from chance, and when casts may explain it."""

from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.case.stage_results import Environment
from repro_kit.failure.failure import Difference, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.graph import parse
from repro_kit.stages.bundle.claims import casts_may_explain, proof_of
from repro_kit.stages.bundle.forms import ReproForm

PROGRAM = parse(
    "# repro-kit program 1\nimport torch\n\nRECIPE = {}\n"
    "\n\ndef graph(x):\n    relu = torch.relu(x)\n    return (relu,)\n"
    "\n\ndef calls():\n    return [(torch.ones(3),)]\n"
)
WRONG = Failure(Kind.ACCURACY, difference=Difference("value", "output 0"), doubts=())


def form(
    failure: Failure, *, rounding: bool = False, name: str = "minify/best.py", is_script: bool = False
) -> ReproForm:
    signature = Signature(failure.kind, difference="value", rounding=rounding)
    facts = Facts(signature, failure, Environment("3.11", "python", "linux", "2.13.0"))
    path = Path("x.repro") / name
    return ReproForm(facts, 60.0, "", path, None if is_script else PROGRAM, reduced=name.startswith("minify"))


def test_what_was_asked_of_chance_is_told() -> None:
    assert proof_of(form(WRONG)) == "Eager gives the same in two runs, and draws no random numbers."


def test_of_a_script_it_is_told_how_often_it_passes_without_the_compiler() -> None:
    script = form(WRONG, is_script=True)
    assert proof_of(script) == "`repro.py` passes without torch.compile in each of 2 runs."
    assert proof_of(replace(script, facts=replace(script.facts, in_eager=True))) == ""


@pytest.mark.parametrize("doubts", [("it draws random numbers",), None])
def test_what_is_not_known_is_not_claimed(doubts: tuple[str, ...] | None) -> None:
    told = proof_of(form(Failure(Kind.ACCURACY, difference=WRONG.difference, doubts=doubts)))
    assert "same random numbers" in told and "draws no" not in told


@pytest.mark.parametrize(
    "silent",
    [
        form(Failure(Kind.CRASH)),
        form(WRONG, rounding=True),
        form(WRONG, name="minify/history/003.py"),  # the failure is that of another program
    ],
)
def test_nothing_is_told_of_what_was_not_asked(silent: ReproForm) -> None:
    assert proof_of(silent) == ""


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
