"""Planted bugs on a program: the chain of evidence ends at what was planted, and claims nothing else."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import Capture, Environment
from repro_kit.diagnosis.cell import Cell
from repro_kit.diagnosis.culprit import of_users_pass
from repro_kit.diagnosis.evidence import STEPS, Chain, Step, in_one_line
from repro_kit.failure.failure import Layer, Status, Verdict
from repro_kit.failure.signature import signature_of
from repro_kit.options.stages import AblateOptions
from repro_kit.recipe import Recipe
from repro_kit.session.oracles import open_oracle
from repro_kit.stages.ablate.cells.program_cells import OnProgram
from repro_kit.stages.ablate.narrow.chain import narrow
from repro_kit.ui import Ui

pytestmark = [pytest.mark.torch, pytest.mark.slow]

GRAPH = """
def graph(x):
    a = torch.exp(x)
    b = torch.sinh(a)
    c = torch.cos(b)
    d = torch.nn.functional.gelu(c)
    return (d,)


def calls():
    x = torch.randn(8)
    return [(x,)]
"""
LOWERING = """
from torch._inductor.lowering import lowerings

def broken(x):
    raise ValueError("broken on purpose")

lowerings[torch.ops.aten.cos.default] = broken
"""
TOGETHER = """
from torch._inductor import ir
from torch._inductor.lowering import lowerings

right = lowerings[torch.ops.aten.cos.default]

def broken(x):
    if isinstance(x.data.data, ir.Pointwise):
        raise ValueError("broken on purpose")
    return right(x)

lowerings[torch.ops.aten.cos.default] = broken
"""
DECOMPOSITION = """
from torch._inductor.decomposition import decompositions

def broken(x, approximate="none"):
    raise ValueError("broken on purpose")

decompositions[torch.ops.aten.gelu.default] = broken
"""
PASS = """
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass

class Broken(CustomGraphPass):
    def __call__(self, graph):
        raise ValueError("broken on purpose")

    def uuid(self):
        return "broken"

config.post_grad_custom_post_pass = Broken()
"""
#: The pass puts another operator in the place of one.
REPLACING_PASS = """
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass

class Replacing(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.nodes:
            if node.target is torch.ops.aten.erf.default:
                node.target = torch.ops.aten.%s.default

    def uuid(self):
        return "replacing by %s"

config.post_grad_custom_post_pass = Replacing()
"""
#: The operator that the pass puts in is the same, but its lowering is wrong.
LOWERED_WRONGLY = """
from torch._inductor.lowering import lowerings

lowerings[torch.ops.aten.special_erf.default] = lowerings[torch.ops.aten.sin.default]
"""
#: One pass puts in an operator, rightly; a later one cannot take it.
REFUSING_PASS = """
class Refusing(CustomGraphPass):
    def __call__(self, graph):
        if any(node.target is torch.ops.aten.special_erf.default for node in graph.nodes):
            raise ValueError("broken on purpose")

    def uuid(self):
        return "refusing"

config.joint_custom_post_pass = config.post_grad_custom_post_pass
config.post_grad_custom_post_pass = Refusing()
"""

Narrowed = Callable[..., Chain]


@pytest.fixture(scope="module")
def narrowed(tmp_path_factory: pytest.TempPathFactory, one_zygote: None) -> Narrowed:
    """Narrow a program with this preamble and recipe; all with one zygote."""
    place = tmp_path_factory.mktemp("narrow") / "x.repro"
    case = Case.create(place, Subject("script", ("x.py",), str(place.parent), sys.executable), "2026-01-01")
    case.write("env.json", Environment("3", sys.executable, "here", "2"))

    def run(preamble: str, recipe: Recipe, steps: tuple[Step, ...] = ("subsystem", "op")) -> Chain:
        options = AblateOptions(jobs=2, narrow=",".join(steps))
        program = case.path / "capture" / "program.py"
        program.parent.mkdir(exist_ok=True)
        written = {"backend": recipe.backend, "config": recipe.config}
        program.write_text(f"# repro-kit program 1\nimport torch\n\nRECIPE = {written!r}\n\n{preamble}\n{GRAPH}")
        with open_oracle(case, options.jobs) as oracle:
            (verdict,) = oracle.check([program.read_text()], None)
        assert verdict.failure is not None
        target = signature_of(verdict.failure)
        case.update(signature=target)
        case.write("capture/capture.json", Capture("program", graphs=3, graph="2/0", verdict=verdict))
        case.record(StageRecord("capture", "done"))
        good = Cell("no torch.compile", False, recipe, Verdict(Status.PASS))
        bad = Cell(recipe.backend, True, recipe, verdict, target, same=True)
        ui = Ui(quiet=True)
        cells = OnProgram(case, options, ui, target)
        return narrow(cells, [good, bad], recipe, target, steps, ui)

    return run


def test_a_lowering(narrowed: Narrowed, tmp_path: Path) -> None:
    chain = narrowed(LOWERING, Recipe(), ("graph", "subsystem", "op"))
    named = "inductor → graph 2/0 → lowerings → #2 aten.cos.default → gone with eager's kernel for that operator"
    assert in_one_line(chain) == named
    (tried,) = [link.tried for link in chain.links if link.step == "subsystem"]
    assert [(side.what, side.outcome) for side in tried] == [("lowerings", "passes")]
    (op,) = [link for link in chain.links if link.culprit.startswith("#2")]
    assert "program.py" in op.sentence and "torch.cos" in op.where and "torch.cos" not in op.claim
    assert op.good is not None and op.bad is not None
    assert (op.good.outcome, op.bad.outcome) == ("passes", "fails as observed")
    assert "TORCH_BISECT_MAX=1 " in op.good.repeat and "TORCH_BISECT_MAX=2 " in op.bad.repeat
    assert not chain.untried
    again = narrowed(LOWERING, Recipe(), ("graph", "subsystem", "op"))  # from the journal
    assert again.runs == 0
    assert again.links[-1] == replace(chain.links[-1], runs=0, seconds=0.0)


def test_two_lowerings_that_only_fail_together(narrowed: Narrowed) -> None:
    chain = narrowed(TOGETHER, Recipe())
    assert "#2 aten.cos.default" in in_one_line(chain)
    assert "the failure also needs #1 aten.sinh.default" in chain.links[-1].claim


def test_a_decomposition(narrowed: Narrowed) -> None:
    chain = narrowed(DECOMPOSITION, Recipe(backend="aot_eager_decomp_partition"))
    assert in_one_line(chain).startswith("aot_eager_decomp_partition → decomposition → #")
    assert "aten.gelu.default" in in_one_line(chain)


def test_a_pass(narrowed: Narrowed) -> None:
    chain = narrowed(PASS, Recipe())
    assert "→ post_grad_passes → #" in in_one_line(chain)
    assert "post_grad_custom_post_pass" in in_one_line(chain)
    assert any("a pass that your own code gave to torch" in link.claim for link in chain.links)


def test_a_pass_that_makes_the_result_wrong_is_at_fault(narrowed: Narrowed) -> None:
    chain = narrowed(REPLACING_PASS % ("sin", "sin"), Recipe())
    assert "post_grad_custom_post_pass → gone with that one off" in in_one_line(chain)
    found = of_users_pass(chain)
    assert found is not None and found.layer is Layer.USER


def test_a_right_pass_whose_operator_is_lowered_wrongly_is_not(narrowed: Narrowed) -> None:
    chain = narrowed(LOWERED_WRONGLY + REPLACING_PASS % ("special_erf", "special_erf"), Recipe())
    assert "→ lowerings → " in in_one_line(chain) and of_users_pass(chain) is None


def test_of_two_passes_that_it_needs_the_later_one_is_named_first(narrowed: Narrowed) -> None:
    chain = narrowed(REPLACING_PASS % ("special_erf", "special_erf") + REFUSING_PASS, Recipe())
    assert "→ post_grad_passes → #" in in_one_line(chain)
    also = [link for link in chain.links if link.step == "subsystem" and link.beside]
    assert [link.culprit for link in also] == ["joint_graph_passes"]


def test_a_backend_without_subsystems_is_told(narrowed: Narrowed) -> None:
    preamble = "def mine(gm, inputs):\n    raise ValueError('broken on purpose')\n"
    chain = narrowed(preamble, Recipe(backend="mine"), STEPS[1:4])
    assert [it.step for it in chain.untried] == ["subsystem"]
    assert in_one_line(chain) == "mine → graph 2/0"


def test_which_of_the_users_settings_it_needs(narrowed: Narrowed) -> None:
    settings = {
        "inductor.size_asserts": False,
        "inductor.cpp.inject_relu_bug_TESTING_ONLY": "compile_error",
        "dynamo.verbose": True,
    }
    preamble = "torch.cos = torch.relu\n"  # the bug is in relu's kernel
    chain = narrowed(preamble, Recipe(config=settings), ("needs",))
    assert chain.needs == ("inductor.cpp.inject_relu_bug_TESTING_ONLY",)


def test_a_setting_that_makes_it_go_away(narrowed: Narrowed) -> None:
    preamble = TOGETHER.replace("isinstance(x.data.data, ir.Pointwise)", "ir.config.pattern_matcher")
    chain = narrowed(preamble, Recipe(), ("flips",))
    assert "inductor.pattern_matcher" in {flip.name for flip in chain.flips if not flip.limits}
