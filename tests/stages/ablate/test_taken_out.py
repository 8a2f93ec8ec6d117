"""What is taken out of a program is decided by what the cells before have shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from repro_kit.diagnosis.cell import Cell, CellPlan
from repro_kit.diagnosis.contrasts import FORMS_CHECKED, OPERATORS_CHECKED, WITHOUT_OPERATORS
from repro_kit.diagnosis.layer import (
    EAGER_KERNELS,
    FORGETFUL_EAGER,
    INTERRUPTIONS,
    PROMISES,
    REBUILT_EAGER,
    TAKEN_OUT,
    WITHOUT_CHANGES,
)
from repro_kit.failure.failure import Difference, ExceptionLink, Failure, Phase, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.recipe import LADDER, Recipe
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.cells.script_cells import OnScript
from repro_kit.stages.ablate.special_contrasts import keeping, special_contrasts

WRONG = Verdict(Status.FAIL, Failure(Kind.ACCURACY, Phase.COMPARE, difference=Difference("value", "output 0")))
MISMATCH = Verdict(
    Status.INVALID,
    Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("repro_setup.OperatorMismatch", "mine::op lies", ()),)),
)
PASS = Verdict(Status.PASS)


class Told:
    """A subject whose cells end as they are told, by the names of the contrasts."""

    subject = "program"

    def __init__(self, *, changes: bool = True, operators: bool = True, text: str = "", **verdicts: Verdict) -> None:
        self.changes, self.operators, self.text, self.verdicts = changes, operators, text, verdicts
        self.ran: list[CellPlan] = []

    def changes_torch(self) -> bool:
        return self.changes

    def uses_custom_operators(self) -> bool:
        return self.operators

    def texts(self) -> list[str]:
        return [self.text]

    def run(self, plans: Sequence[CellPlan]) -> list[Cell]:
        self.ran += plans
        return [self._cell(plan) for plan in plans]

    def _cell(self, plan: CellPlan) -> Cell:
        name = str(plan.axes["contrast"])
        verdict = self.verdicts.get(name.replace("-", "_"), WRONG)
        same = verdict is WRONG
        return Cell(plan.name, plan.compiled, plan.recipe, verdict, same=same, changed=dict(plan.axes), setup="x")


def contrasts(subject: Told, own: Recipe | None = None, failure: Failure | None = WRONG.failure) -> list[str]:
    own, fails = own or Recipe(), Verdict(Status.FAIL, failure)
    ladder = [
        Cell(name, True, own.with_(backend=name), fails, same=True, changed={"backend": name}) for name in LADDER[1:]
    ]
    return [str(cell.changed["contrast"]) for cell in special_contrasts(cast(Cells, subject), ladder, own)]


def test_operators_are_taken_out_only_where_one_is_not_as_it_says() -> None:
    asked = [WITHOUT_CHANGES, OPERATORS_CHECKED, WITHOUT_OPERATORS, FORGETFUL_EAGER]
    assert contrasts(Told(operators_checked=PASS)) == [*asked[:2], FORGETFUL_EAGER]
    assert contrasts(Told(operators_checked=MISMATCH)) == asked
    assert contrasts(Told(changes=False, operators_checked=MISMATCH)) == asked, "an operator may keep something"
    raises = Failure(Kind.COMPILE_ERROR)
    assert contrasts(Told(changes=False, operators_checked=MISMATCH), failure=raises) == asked[1:3]
    assert contrasts(Told(operators_checked=PASS), failure=Failure(Kind.COMPILE_ERROR)) == asked[:2]
    assert contrasts(Told(operators=False)) == [WITHOUT_CHANGES]


def test_operators_are_not_asked_about_where_a_change_of_torch_is_the_reason() -> None:
    each = [f"{WITHOUT_CHANGES}: {kind}" for kind in TAKEN_OUT if kind != INTERRUPTIONS]
    assert contrasts(Told(without_changes=PASS, operators_checked=MISMATCH)) == [WITHOUT_CHANGES, *each]


def test_the_graph_that_inductor_gets_is_asked_about_where_a_change_of_torch_may_be_the_reason() -> None:
    wrong = Cell("inductor", True, Recipe(), WRONG, same=True, changed={"backend": "inductor"})
    changed, other = Told(operators=False, without_changes=PASS), Told(operators=False)
    assert [cell.changed["contrast"] for cell in special_contrasts(cast(Cells, changed), [wrong], Recipe())][-1] == (
        EAGER_KERNELS
    )
    assert EAGER_KERNELS not in contrasts(changed, Recipe("aot_eager"))
    assert WITHOUT_CHANGES in contrasts(other) and EAGER_KERNELS not in contrasts(other)


@pytest.mark.parametrize("operators", [False, True])
def test_eager_runs_without_what_handlers_keep_where_the_failure_stays_and_there_are_some(operators: bool) -> None:
    subject = Told(operators=operators, text="def __torch_dispatch__")
    assert contrasts(subject) == [WITHOUT_CHANGES, *[OPERATORS_CHECKED] * operators, FORGETFUL_EAGER]
    assert not subject.ran[-1].compiled and subject.ran[-1].setup == keeping(("handlers",))
    assert FORGETFUL_EAGER not in contrasts(Told(operators=False, text=subject.text, without_changes=PASS))
    assert REBUILT_EAGER in contrasts(Told(operators=False, text="def __tensor_flatten__"))
    assert REBUILT_EAGER not in contrasts(Told(operators=False, text=subject.text))


@pytest.mark.parametrize("kind", [Kind.ACCURACY, Kind.COMPILE_ERROR])
def test_promises_are_withdrawn_where_a_result_is_wrong(kind: Kind) -> None:
    subject = Told(operators=False, without_changes=PASS)
    asked = contrasts(subject, failure=Failure(kind))
    assert (f"{WITHOUT_CHANGES}: {PROMISES}" in asked) is (kind is Kind.ACCURACY)
    assert ("withdraw({" in subject.ran[0].setup) is (kind is Kind.ACCURACY)
    assert "keep(*(" in subject.ran[0].setup


@pytest.mark.parametrize(("kind", "interrupted"), [("RecursionError", True), ("AssertionError", False)])
def test_interruptions_are_taken_out_where_one_may_have_raised(kind: str, interrupted: bool) -> None:
    subject = Told(operators=False, without_changes=PASS)
    asked = contrasts(subject, failure=Failure(Kind.DYNAMO_ERROR, exceptions=(ExceptionLink(kind, "", ()),)))
    assert (f"{WITHOUT_CHANGES}: {INTERRUPTIONS}" in asked) is interrupted
    assert ("refuse()" in subject.ran[0].setup) is interrupted


def test_the_check_compiles_nothing_and_the_graph_may_break_without_operators() -> None:
    subject = Told(changes=False, operators_checked=MISMATCH)
    contrasts(subject, Recipe(fullgraph=True))
    _, check, without, _ = subject.ran
    assert not check.compiled and "check()" in check.setup
    assert without.compiled and without.recipe.fullgraph is False and "fullgraph" in without.overridden
    assert without.recipe.backend == "aot_eager" and "keep_out()" in without.setup


def test_the_forms_of_all_operators_are_checked_where_a_result_has_another_form() -> None:
    strides = Verdict(Status.FAIL, Failure(Kind.ACCURACY, Phase.COMPARE, difference=Difference("stride", "output 0")))
    subject = Told(changes=False, operators=False)
    assert contrasts(subject, failure=strides.failure) == [FORMS_CHECKED]
    assert not subject.ran[0].compiled and "check_forms()" in subject.ran[0].setup
    assert contrasts(Told(changes=False, operators=False)) == []


def test_a_script_is_checked_in_a_run_of_its_own_that_compiles_nothing() -> None:
    asked: list[Any] = []

    class Script(OnScript):
        def __init__(self) -> None:
            self.observation = cast(Any, type("Seen", (), {"eager": Status.PASS}))

        def eager_again(self, plan: CellPlan) -> Verdict:
            asked.append(plan)
            return MISMATCH

    script = Script()
    assert script.run_once(CellPlan("eager", Recipe(), compiled=False)) == (PASS, False) and not asked
    plan = CellPlan("checked", Recipe(), compiled=False, setup="check()")
    assert script.run_once(plan) == (MISMATCH, False) and asked == [plan]
