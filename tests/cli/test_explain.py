"""`repro-kit explain` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from repro_kit.cli.main import cli
from repro_kit.errors import Exit
from repro_kit.explain import compared
from repro_kit.explain.sections import NAMES
from repro_kit.options.commands import COMPARED, SECTIONS
from root import ROOT

LOG = ROOT / "tests/trace/fixtures" / "insights" / "four_sizes_static.log"


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["explain", *map(str, words)])


def test_options_may_follow_a_log() -> None:
    found = run(LOG, "--section", "recompiles")
    assert found.exit_code == 0
    assert "Recompiles: 3 recompiles of 1 function" in found.output and "Guards:" not in found.output


def test_options_of_a_script_are_its_own(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("(")
    found = run(script, "--section", "nonsense")
    assert found.exit_code == 2 and "has a syntax error, says" in found.output


def test_json_is_alone_on_stdout() -> None:
    found = run("--json", LOG)
    told = json.loads(found.stdout)
    assert told["sentences"] and len(told["advice"]) == 3 and told["insights"]["recompiles"]


def test_a_page_is_written(tmp_path: Path) -> None:
    assert run(LOG, "--html", tmp_path / "x.html").exit_code == 0
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")


def test_artifacts_are_listed_and_written(tmp_path: Path) -> None:
    listed = json.loads(run("--json", LOG, "--list").stdout)["artifacts"]
    assert {key: one[key] for one in listed if one["kind"] == "dynamo_output_graph" for key in ("kind", "count")} == {
        "kind": "dynamo_output_graph",
        "count": 4,
    }
    found = run(LOG, "--artifact", "dynamo_output_graph", "--compile-id", "0/1", "-o", tmp_path)
    (written,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert found.exit_code == 0 and str(written) in found.output and "class GraphModule" in written.read_text()


def test_the_phases_for_perfetto(tmp_path: Path) -> None:
    assert run(LOG.parent.parent / "hang.log", "--perfetto", tmp_path / "x.json").exit_code == 0
    assert len(json.loads((tmp_path / "x.json").read_text())["traceEvents"]) > 4


def test_two_traces_are_compared() -> None:
    found = run(LOG, "--against", LOG.with_name("four_sizes_automatic.log"), "--section", "settings")
    assert found.exit_code == 0
    assert "compiled 2 → 4 times" in found.output and "automatic_dynamic_shapes" in found.output
    assert run(LOG, "--against", LOG).output.startswith("✓ The same functions were compiled to the same graphs.")


@pytest.mark.parametrize(
    ("log", "offered"),
    [
        ("backward_error.log", True),
        ("graph_break_fullgraph.log", False),  # failed before there was a graph
        ("recompile_limit_fullgraph.log", False),  # holds graphs, and another compile failed
        ("insights/four_sizes_static.log", False),  # nothing failed
    ],
)
def test_a_trace_with_the_graph_that_failed_can_be_collected(log: str, offered: bool) -> None:
    path = ROOT / "tests/trace/fixtures" / log
    found = run(path)
    said = "".join(found.output.split())
    assert found.exit_code == 0
    assert (f"Torunandreducethegraphthatfailed:repro-kitcollect{path}" in said) is offered


def test_the_sections_are_those_that_there_are() -> None:
    assert SECTIONS == NAMES and COMPARED == compared.NAMES


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{tmp}"], "holds no records of torch; give a TORCH_TRACE log"),
        (["{tmp}/empty.log"], "empty.log is empty: nothing was compiled"),
        (["{tmp}/gone.log"], "does not exist"),
        ([LOG, "--try"], "give the script instead"),
        ([LOG, "further"], "takes no arguments: further"),
        ([LOG, "--fresh"], "leave out --fresh"),
        ([LOG, "--timeout", "5", "-o", "x"], "leave out --output and --timeout"),
        ([LOG, "--section", "nonsense"], "'nonsense' is not one of"),
        ([LOG, "--section", "times"], "There is no section times"),
        ([LOG, "--artifact", "nonsense"], "holds no nonsense; --list shows"),
        ([LOG, "--perfetto", "{tmp}/x.json"], "records no phases"),
        ([LOG, "--against", "{tmp}/gone"], "does not exist"),
        ([LOG, "--html", "{tmp}/none/x.html"], "No such file or directory"),
        ([LOG, "--list", "--against", LOG], "--list and --against cannot be combined"),
        ([LOG, "--try", "--against", LOG], "--against and --try cannot be combined"),
        ([LOG, "--list", "--html", "{tmp}/x.html"], "--html cannot be combined with --list"),
        ([LOG, "--against", "{tmp}/empty.log"], "empty.log is empty"),
        ([LOG, "--against", LOG.with_suffix(".txt")], "four_sizes_static.txt is text of TORCH_LOGS, which holds less"),
        ([], "Nothing to run"),
    ],
)
def test_bad_input_is_one_sentence(words: list[object], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("")
    found = run(*(str(word).replace("{tmp}", str(tmp_path)) for word in words))
    assert found.exit_code == 2
    assert sentence in found.output and "Traceback" not in found.output


SCRIPT = """
import torch

@torch.compile(backend="eager")
def f(x):
    y = x.sin()
    print("in f")
    scale = y.sum().item()
    return y.cos() * scale

for step in range(6):
    print("step", step, f(torch.randn(4)).sum().item())
"""


@pytest.mark.torch
@pytest.mark.slow
def test_a_script_is_run_and_its_advice_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    found = run("--json", "--try", "train.py")
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert [one["kind"] for one in told["insights"]["breaks"]]
    best = told["advice"][0]
    assert best["ruling"] == "helps" and len(best["suggestions"]) == 2
    assert best["results"]["same"] is True and "what 6 calls returned and the output" in best["results"]["sentence"]
    assert best["after"]["ops"] >= best["before"]["ops"] > 0
    assert best["steady"]["calls"] > 0
    assert told["insights"].pop("totals")["compiles"] > 0  # counted from the rest, so that no file need hold them
    assert json.loads(Path("train.repro/insights.json").read_text()) == told
    assert not Path("train.repro/cache").exists()


NEEDS_CUDA = """
import torch

model = torch.nn.Linear(4, 4).cuda()
torch.compile(model)(torch.ones(2, 4, device="cuda"))
"""
COMPILES_BEFORE = """
import torch

torch.compile(torch.sin, backend="eager")(torch.ones(4))
torch.ones(4).cuda()
"""


@pytest.mark.torch
@pytest.mark.slow
def test_a_script_that_needs_cuda_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(NEEDS_CUDA, encoding="utf-8")
    result = run("train.py")
    said = " ".join(result.output.split())
    assert result.exit_code == Exit.CANNOT_RUN, said
    assert "The program needs CUDA, which this machine lacks" in said
    assert "Run this command on a machine with CUDA, or on a copy of the program with 'cpu'" in said
    assert "Its output is in train.repro/explain/run." in said and "File " not in said


@pytest.mark.torch
@pytest.mark.slow
def test_what_was_compiled_before_cuda_was_needed_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(COMPILES_BEFORE, encoding="utf-8")
    result = run("train.py")
    said = " ".join(result.output.split())
    assert result.exit_code == 0, said
    assert "1 graph was compiled" in said
    assert "The script failed (exit status 1), since this machine lacks CUDA." in said
