"""What of an ablation goes into a bundle."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import Environment
from repro_kit.diagnosis.cell import Ablation, Cell
from repro_kit.diagnosis.evidence import Chain, Flip, Link, Side
from repro_kit.failure.failure import ExceptionLink, Failure, Frame, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.graph import parse
from repro_kit.recipe import Recipe
from repro_kit.runner.subject_start import command, command_with
from repro_kit.serialize import dumps
from repro_kit.stages.bundle.forms import ReproForm
from repro_kit.stages.bundle.shareable_ablation import shareable_ablation

PROGRAM = """# repro-kit program 1
import torch

RECIPE = {}


def graph(x):
    y = torch.relu(x)
    return (y,)


def calls():
    x = torch.randn(4)
    return [(x,)]
"""
PYTHON = sys.executable
LINE = "program.py:8: y = torch.relu(x)"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    subject = Subject("script", ("train.py",), str(tmp_path), sys.executable)
    return Case.create(tmp_path / "x.repro", subject, "2030-01-01T00:00:00+00:00")


def candidate(kind: Kind = Kind.COMPILE_ERROR, *, program: bool = True, reduced: bool = True) -> ReproForm:
    facts = Facts(Signature(kind), None, Environment("3.11", sys.executable, "Linux", "2.13.0"))
    return ReproForm(facts, 60.0, "", program=parse(PROGRAM) if program else None, reduced=reduced)


def ablation_of(case: Case) -> Ablation:
    path = f"{case.path.name}/capture/program.py"  # as it was called from the directory above
    eager = f"TORCH_COMPILE_DISABLE=1 python {path}"
    bisected = f"TORCH_BISECT_BACKEND=inductor TORCH_BISECT_MAX=1 {PYTHON} {path}"
    frames = (Frame("model.py", 3, "forward", "self.our_secret_sauce(x)"),)
    error = ExceptionLink("torch.X", "it failed\n\nfrom user code:\n  self.our_secret_sauce(x)" + "x" * 9000, frames)
    failed = Verdict(Status.FAIL, Failure(Kind.COMPILE_ERROR, exceptions=(error,), text=error.message, stack=frames))
    cells = (
        Cell("no torch.compile", False, Recipe(), Verdict(Status.PASS), repeat=eager),
        Cell("aot", True, Recipe(backend="aot_eager"), Verdict(Status.PASS), repeat=f"python {path}  # with backend"),
        Cell("inductor", True, Recipe(), failed, Signature(Kind.COMPILE_ERROR), same=True, repeat=f"python {path}"),
        Cell("mode", True, Recipe(mode="max-autotune"), failed, repeat=f"python {path}  # with …"),
        Cell("script", True, Recipe(), failed, repeat=f"{sys.executable} train.py", subject="script"),
    )
    first = Link("backend", "inductor", "It fails.", Side("aot", "passes", cells[1].repeat))
    links = (
        first,
        Link(
            "subsystem",
            "lowerings",
            "The failure is gone.",
            Side("off", "passes", bisected),
            Side("on", "fails", bisected),
        ),
        Link("op", "#1 aten.relu", "The failure begins with #1.", Side("#0", "passes", bisected), where=LINE),
    )
    setting = f"{sys.executable} -c 'import runpy; runpy.run_path('\"'\"'{path}'\"'\"')'"
    return Ablation("program", cells, chain=Chain("program", links, flips=(Flip("inductor.x", 1, 0, setting),)))


def test_commands_run_what_is_in_the_bundle(case: Case) -> None:
    told = shareable_ablation(ablation_of(case), case, candidate(), "", code=True)
    assert [cell.repeat for cell in told.cells] == [
        "TORCH_COMPILE_DISABLE=1 python repro.py",
        "TORCH_BISECT_BACKEND=aot_eager python repro.py",
        "python repro.py",
        "python repro.py  # with torch.compile(…, mode='max-autotune')",
        "python train.py",
    ]
    assert told.chain is not None
    backend, subsystem, op = told.chain.links
    assert backend.good is not None and backend.good.repeat == told.cells[1].repeat
    assert subsystem.good is not None and subsystem.good.repeat.endswith("TORCH_BISECT_MAX=1 python repro.py")
    assert op.good is not None and op.good.repeat == ""  # the numbers are those of another graph
    assert told.chain.flips[0].repeat == "python -c 'import runpy; runpy.run_path('\"'\"'repro.py'\"'\"')'"
    assert str(case.path) not in dumps(told).decode() and sys.executable not in dumps(told).decode()


def test_commands_of_a_script_are_those_of_repro_py_or_run_where_the_script_is(case: Case) -> None:
    runs = f"{sys.executable} train.py"
    sides = (Side("off", "passes", f"TORCH_COMPILE_DISABLE=1 {runs}"), Side("on", "fails", f"{runs}  # with mode"))
    setting = f"{sys.executable} -c 'import runpy; runpy.run_path('\"'\"'train.py'\"'\"')'"
    flips = (Flip("inductor.x", 1, 0, setting),)
    chain = Chain("script", (Link("backend", "eager", "It fails.", *sides),), flips=flips)
    told = shareable_ablation(Ablation("script", chain=chain), case, candidate(program=False), "", code=True).chain
    assert told is not None
    (link,) = told.links
    assert link.good is not None and link.good.repeat == "TORCH_COMPILE_DISABLE=1 python repro.py"
    assert link.bad is not None and link.bad.repeat == "python repro.py  # with mode"
    assert told.flips[0].repeat == "cd files && python -c 'import runpy; runpy.run_path('\"'\"'train.py'\"'\"')'"


@pytest.mark.parametrize("name", ["it's", 'the "x"', "a b", "$HOME", "a\\b", "one\ntwo\nthree"])
def test_whatever_the_paths_and_the_words_are_called(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    script, words = tmp_path / name / "train.py", ("--of", f"{name}'\"walnut", "--lr=0.1")
    script.write_text("x = 1\n")
    subject = Subject("script", (str(script), *words), str(tmp_path / name), sys.executable)
    case = Case.create(tmp_path / name / "x.repro", subject, "2030-01-01T00:00:00+00:00")
    graph = replace(subject, argv=(str(case.path / "minify" / "best.py"),))
    settings = {"inductor.x": f"{name}  # no remark"}

    def told(of: Subject, *, program: bool) -> list[str]:
        env = f"TORCH_LOGS={shlex.quote('a b')}"
        repeats = [f"{env} {shlex.join(made)}  # with mode" for made in (command(of), command_with(of, settings))]
        flips = tuple(Flip("inductor.x", 1, 0, repeat) for repeat in repeats)
        ablation = Ablation("script", chain=Chain("script", (), flips=flips))
        form = candidate(program=program)
        chain = shareable_ablation(
            ablation, case, form, "", code=True, words=lambda words: ["<arg>"] * len(words)
        ).chain
        assert chain is not None
        return [flip.repeat for flip in chain.flips]

    plain, coded = told(subject, program=False)
    assert plain == "TORCH_LOGS='a b' python repro.py  # with mode"
    given = shlex.split(coded.removesuffix("  # with mode").removeprefix("cd files && "))
    assert given[:3] == ["TORCH_LOGS=a b", "python", "-c"] and given[4:] == ["<arg>"] * 3
    assert "run_path('train.py'," in given[3] and repr(settings["inductor.x"]) in given[3]
    assert "walnut" not in coded and str(tmp_path) not in coded and coded.endswith("  # with mode")
    plain, coded = told(graph, program=True)
    assert plain == "TORCH_LOGS='a b' python repro.py  # with mode"
    assert "run_path('repro.py'," in shlex.split(coded)[3] and str(tmp_path) not in coded


def test_a_graph_that_is_not_reduced_keeps_its_numbers(case: Case) -> None:
    chain = shareable_ablation(ablation_of(case), case, candidate(reduced=False), "", code=True).chain
    assert chain is not None and chain.links[2].good is not None
    assert chain.links[2].good.repeat.endswith("TORCH_BISECT_MAX=1 python repro.py")


def test_what_cannot_be_repeated_has_no_command(case: Case) -> None:
    told = shareable_ablation(ablation_of(case), case, candidate(program=False), "", code=True)
    assert [cell.repeat for cell in told.cells] == ["", "", "", "", "python repro.py"]
    crash = shareable_ablation(ablation_of(case), case, candidate(Kind.CRASH), "", code=True)
    assert crash.chain is not None and crash.chain.flips[0].repeat == ""


def test_no_line_of_the_users_goes_in_unasked(case: Case) -> None:
    ablation = ablation_of(case)
    told = shareable_ablation(ablation, case, candidate(), "z = torch.sin(x)", code=False)
    text = dumps(told).decode()
    assert "our_secret_sauce" not in text and "torch.relu(x)" not in text and len(text) < 6000
    assert told.cells[2].verdict.failure is not None
    assert told.cells[2].verdict.failure.exceptions == (ExceptionLink("torch.X", "it failed"),)
    for shown, code in (("    y = torch.relu(x)\n", False), ("", True)):
        chain = shareable_ablation(ablation, case, candidate(), shown, code=code).chain
        assert chain is not None and chain.links[2].where == LINE.partition(": ")[2]
    assert shareable_ablation(replace(ablation, chain=None), case, candidate(), "", code=False).chain is None
