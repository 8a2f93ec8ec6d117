"""The first wrong statement of a captured program: a part is looked at alone, the whole where that shows nothing."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.failure.failure import Difference, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.graph import parse
from repro_kit.runner.program_oracle import Divergence
from repro_kit.stages.capture import stage
from repro_kit.ui import SilentUi

COUNT = 12
LINES = "\n".join(f"    v{at} = torch.linear({f'v{at - 1}' if at else 'x'}, w{at})" for at in range(COUNT))
WEIGHTS = ", ".join(f"w{at}" for at in range(COUNT))
MADE = "\n".join(f"    w{at} = torch.randn(4, 4, requires_grad=True)" for at in range(COUNT))
PROGRAM = (
    f'# repro-kit program 1\nimport pathlib\nimport torch\nRECIPE = {{"backward": "randn"}}\n'
    f"def graph(x, {WEIGHTS}):\n{LINES}\n"
    f"    return (v{COUNT - 1},)\ndef calls():\n"
    f'    x = torch.load(pathlib.Path(__file__).with_name("inputs") / "x.pt")\n{MADE}\n    return [(x, {WEIGHTS})]\n'
)
FOUND = ["v4 = torch.linear(v3, w4)", "v5 = torch.linear(v4, w5)"]


class Watching:
    """An oracle that names `v5` in the part that it is asked about; nothing where it is `blind` in a part."""

    def __init__(self, *, blind: bool) -> None:
        self.blind, self.limits, self.lines, self.saved = blind, list[float](), list[list[str]](), list[str]()
        self.first = list[str]()

    def record(self, text: str, inputs: Path, *, values: Sequence[str], save: Path, timeout: float) -> Any:
        self.saved += values
        made = {name: {"shape": [4, 4], "dtype": "torch.float32", "requires_grad": True} for name in _names()}
        made |= {name: {**made[name], "file": f"{name}.pt"} for name in values}
        return Verdict(Status.PASS), [made]

    def diverge(self, text: str, inputs: Path, *, timeout: float, gradients: bool = False) -> Divergence:
        assert inputs.name == "inputs", "where a program looks for its stored values"
        self.first.append("gradients" if gradients else "values")
        self.lines.append([statement.line for statement in parse(text).graph.statements])
        self.limits.append(timeout)
        is_part = len(self.lines[-1]) < COUNT
        return Divergence() if is_part and self.blind else Divergence(("v5",), backward=True)


def _names() -> list[str]:
    return ["x", *(f"{kind}{at}" for at in range(COUNT) for kind in "vw")]


@pytest.mark.parametrize("blind", [False, True])
def test_the_statements_between_right_and_wrong_gradients_are_looked_at_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blind: bool
) -> None:
    oracle = Watching(blind=blind)
    monkeypatch.setattr(stage, "open_oracle", lambda *_: nullcontext(oracle))
    case = Case.create(tmp_path, Subject("script", ("a.py",), str(tmp_path), "python"), "2030-01-01")
    case.write("capture/inputs/x.pt", "")
    gradients = [f"grad of w{at}" for at in range(COUNT)]
    failure = Failure(Kind.ACCURACY, difference=Difference("value", gradients[0]))
    verdict = Verdict(Status.FAIL, failure, 20.0, wrong=tuple(gradients[:5]), right=("output 0", *gradients[5:]))
    program = parse(PROGRAM)
    divergence = stage.first_wrong(case, SilentUi(), program, verdict, 200.0)
    (first,) = stage.wrong_statements(program, divergence, {"v5": "net.py:7"})
    assert (first.name, first.backward, first.line) == ("v5", True, "net.py:7")
    assert (oracle.saved, oracle.lines[0]) == (["v3"], FOUND)
    assert [len(lines) for lines in oracle.lines] == ([2, COUNT] if blind else [2])
    assert oracle.first == (["values", "gradients"] if blind else ["values"])
    assert oracle.limits == ([200.0, 360.0] if blind else [200.0]), "the whole has a limit of its own"
