"""What the panel at the end of a command says."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from repro_kit.cli.common.work import show
from repro_kit.diagnosis.cell import Ablation, Cell
from repro_kit.diagnosis.workaround import Intrusion, Workaround
from repro_kit.errors import Exit
from repro_kit.failure.failure import Status, Verdict
from repro_kit.pipeline.summary import CaseSummary, what_passes
from repro_kit.recipe import Recipe
from repro_kit.ui import SilentUi


class _Panels(SilentUi):
    """Keeps the lines of the panel."""

    lines: dict[str, str]

    def panel(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        self.lines = dict(rows)


def told(**fields: object) -> dict[str, str]:
    ui = _Panels()
    show(ui, CaseSummary(Exit.OK, case="a.repro", statements=3, statements_before=9, **fields), "", ["bundle"])  # type: ignore[arg-type]
    return ui.lines


def test_a_deadline_that_ended_the_reduction_is_told_with_its_option() -> None:
    assert told(stopped="deadline")["size"] == ("3 statements, from 9; stopped by its deadline: --deadline allows more")
    assert told()["size"] == "3 statements, from 9"
    assert told(level="program", minimal=True)["size"] == "3 operators, from 9; nothing more can be removed"


def test_what_passes_is_offered_until_the_bug_is_fixed() -> None:
    lines = told(workaround="dynamic=False", verified=True)
    assert lines["instead"] == "dynamic=False passes; repro-kit ablate a.repro tries it on the script"
    assert "instead" not in told(verified=True)


def test_the_least_change_that_passes_is_taken() -> None:
    own = Recipe(dynamic=True)
    passes, fails = Verdict(Status.PASS), Verdict(Status.FAIL)
    cells = [
        Cell("no torch.compile", False, own, passes),
        Cell("inductor", True, own, fails, same=True),
        Cell("aot_eager", True, own, passes, changed={"backend": "aot_eager"}),
        Cell("both", True, own, passes, changed={"backend": "eager", "dynamic": False}),
    ]
    assert what_passes(Ablation("program", tuple(cells))) is None
    cells.append(Cell("inductor dynamic=False", True, own, passes, changed={"dynamic": False}))
    assert what_passes(Ablation("program", tuple(cells))) == "dynamic=False"
    tried = Workaround("leave f to eager", Intrusion.DISABLE, (), "train.py:3", status=Status.PASS)
    assert what_passes(Ablation("program", tuple(cells), workarounds=(tried,))) == "leave f to eager"


def test_a_failure_in_code_of_the_script_goes_to_its_maintainer_first() -> None:
    assert "first for whoever maintains that code" in told(cause="script-code", verified=True)["issue"]
    assert "first for whoever maintains the backend" in told(layer="backend", verified=True)["issue"]
    assert "this is not a PyTorch bug" in told(layer="user")["issue"]
    assert told(layer="dynamo", verified=True)["issue"].startswith("paste ")


def test_a_bundle_that_is_not_verified_is_not_sent_to_pytorch_as_it_is() -> None:
    assert told(layer="dynamo")["issue"].startswith("a.repro/bundle/issue.md says why the bundle is not verified")
    assert told(layer="backend")["issue"].endswith("mend that before it goes to whoever maintains the backend")


def test_commands_can_be_pasted_whatever_the_bundle_is_called() -> None:
    lines = told(bundle="my 'x' $y.repro.zip", verified=True)
    assert lines["bundle"] == "my 'x' $y.repro.zip"
    assert shlex.split(lines["check"]) == ["repro-kit", "verify", "my 'x' $y.repro.zip"]
    assert shlex.split(lines["page"])[-1] == "my 'x' $y.repro.zip"
