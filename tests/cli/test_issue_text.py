"""`collect` of the text of an issue, on fake stages: what is shown, asked, written and answered."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli

pytestmark = pytest.mark.torch  # the interpreter is looked at for torch, which is not imported

TEXT = """It fails since 2.6:

```python
import torch
torch.compile(lambda x: x + 1)(torch.ones(2))
```

```
torch._inductor.exc.InductorError: LoweringException: NotImplementedError: no lowering
```
"""
OBSERVED = """
    from repro_kit.failure.classify import failures_from_text
    from repro_kit.case.stage_results import Observation, ObservedFailure
    from repro_kit.failure.signature import signature_of

    def run(case, options, ui):
        text = "torch._inductor.exc.InductorError: LoweringException: NotImplementedError: {message}"
        (seen,) = failures_from_text(text)
        found = (ObservedFailure(seen, signature_of(seen)),)
        case.write("observe/run.json", Observation((), 1, None, False, 1.0, 5, None, None, failures=found))
        case.update(signature=found[0].signature)
        ui.done("seen")
    """


def test_nothing_is_written_or_run_without_a_yes(work: Path, fakes: Any, repro_kit: Any) -> None:
    (work / "report.md").write_text(TEXT)
    refused = repro_kit("collect", "report.md")
    assert refused.exit_code == 2 and fakes.ran() == []
    assert "→ 1  script, line 4" in refused.output and "torch.compile(lambda x: x + 1)" in refused.output
    assert "Nothing was run: report.md holds code" in refused.output
    late = repro_kit("collect", "report.md", "--yes")
    assert late.exit_code == 2 and "--yes is an argument of the program there; it goes before report.md" in late.output
    assert sorted(path.name for path in work.iterdir()) == ["report.md", "train.py"]


@pytest.mark.parametrize(
    ("message", "answer"), [("no lowering", "reproduces"), ("Cannot convert symbols to int", "fails otherwise")]
)
def test_the_answer_is_the_last_line_and_stands_in_the_json(
    message: str, answer: str, work: Path, fakes: Any, repro_kit: Any
) -> None:
    fakes.replace("observe", OBSERVED.format(message=message))
    (work / "report.md").write_text(TEXT)
    done = repro_kit("collect", "--yes", "--until", "observe", "report.md")
    assert (done.exit_code, fakes.ran()) == (0, ["observe"]), done.output
    last = done.output.splitlines()[-1].lower()
    assert last.startswith(answer) and "no lowering" in last
    assert (work / "report.py").read_text().startswith("import torch\ntorch.compile(")
    data = json.loads(repro_kit("collect", "--yes", "--json", "--until", "observe", "report.md").stdout)
    assert data["issue"]["answer"] == answer
    assert data["case"] == "report.repro"


FILES = """`model.py`:

```python
import torch
f = torch.compile(lambda x: x + 1)
```

**train.py**

```python
from model import f
print(f(3))
```
"""


def test_the_files_of_a_program_stand_in_the_case(work: Path, fakes: Any, repro_kit: Any) -> None:
    (work / "report.md").write_text(FILES)
    refused = repro_kit("collect", "report.md")
    assert refused.exit_code == 2 and fakes.ran() == [] and not (work / "report.repro").exists()
    assert "→ 1  train.py (script), line 11" in refused.output and "+    model.py (script), line 4" in refused.output
    assert "----- model.py" in refused.output
    done = repro_kit("collect", "--yes", "--until", "observe", "report.md", "--steps", "3")
    assert (done.exit_code, fakes.ran()) == (0, ["observe"]), done.output
    text = work / "report.repro" / "text"
    assert sorted(path.name for path in text.iterdir()) == ["model.py", "train.py"]
    assert sorted(path.name for path in work.iterdir()) == ["report.md", "report.repro", "train.py"]
    subject = tomllib.loads((work / "report.repro" / "case.toml").read_text())["subject"]
    assert subject["argv"] == [str(text / "train.py"), "--steps", "3"]
    (work / "report.md").write_text(FILES.replace("x + 1", "x + 2"))
    other = repro_kit("collect", "--yes", "--until", "observe", "report.md", "--steps", "3")
    assert other.exit_code == 2 and "report.repro is about other files than the text now has" in other.output
    again = repro_kit("collect", "--fresh", "--yes", "--until", "observe", "report.md", "--steps", "3")
    assert again.exit_code == 0 and "x + 2" in (text / "model.py").read_text()


def test_standard_input_and_the_number_of_a_program(work: Path, fakes: Any) -> None:
    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, ["collect", *words, "-"], input=TEXT + TEXT.replace("+ 1", "* 3"))

    several = run("--yes")
    assert several.exit_code == 2 and "the text holds 2 programs; choose one with --which N" in several.output
    assert run("--yes", "--which", "2", "--until", "observe").exit_code == 0
    assert "* 3" in (work / "issue.py").read_text()
    assert fakes.ran() == ["observe"]


def test_an_answer_before_any_stage_is_in_the_json_too(work: Path, fakes: Any, repro_kit: Any) -> None:
    text = TEXT.replace("import torch\ntorch.compile(lambda x: x + 1)(torch.ones(2))\n", ARTIFACT)
    (work / "graph.md").write_text(text)
    ended = repro_kit("collect", "--yes", "--json", "graph.md")
    data = json.loads(ended.stdout)
    assert (data["exit"], data["issue"]["answer"], fakes.ran()) == (125, "cannot run", [])
    assert data["error"].count("which this version of torch did not write") == 1


ARTIFACT = """import torch
class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.true_graph_0 = <lambda>()
    def forward(self, x):
        return (self.true_graph_0,)
def load_args(reader):
    pass
"""
