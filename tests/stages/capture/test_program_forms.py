from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from repro_kit.errors import ReproKitError
from repro_kit.failure.kinds import Kind
from repro_kit.graph import parse
from repro_kit.graph.reading.graph_record import BackendRecord, GraphRecord, InputRecord, KernelRecord, LaunchRecord
from repro_kit.recipe import ProcessGroup
from repro_kit.runner.read_findings import Recorded, RecordedEvent
from repro_kit.stages.capture.program_forms import Variants, of_two_codes

CODE = "def forward(self, L_x_):\n    l_x_ = L_x_\n    sin = torch.sin(l_x_)\n    return (sin,)\n"
X = InputRecord("tensor", "L_x_", "L['x']", shape=(2,), stride=(1,), storage="x")


def variants(
    graph: GraphRecord, *more: RecordedEvent, files: tuple[Path, ...] = (), kind: Kind = Kind.ACCURACY
) -> Variants:
    return Variants(Recorded(1, (graph,), (RecordedEvent("call-begin", graph.number, 0.0), *more)), kind, files)


def test_a_plain_graph_has_one_form() -> None:
    graph = GraphRecord(0, 1, "0/0", code=CODE, inputs=(X,))
    (attempt,) = variants(graph).attempts(graph)
    assert attempt.recipe.fullgraph
    assert attempt.recipe.check
    assert attempt.how == ""


def test_the_backward_is_run_as_the_script_ran_it() -> None:
    graph = GraphRecord(0, 1, "0/0", code=CODE, inputs=(X,))
    for uniform, backward in ((True, "sum"), (False, "randn")):
        seen = variants(graph, RecordedEvent("backward-begin", 0, 1.0, uniform=uniform))
        assert seen.recipe(graph).backward == backward


def test_several_calls_are_tried_after_one() -> None:
    graph = GraphRecord(0, 1, "0/0", code=CODE, inputs=(X,))
    again = RecordedEvent(
        "call-begin", 0, 1.0, call=1, inputs=(InputRecord("tensor", shape=(5,), stride=(1,), storage="0"),)
    )
    hows = [attempt.how for attempt in variants(graph, again).attempts(graph)]
    assert hows == ["", "2 calls", "2 calls, static first"]


def test_what_torch_sets_for_dynamic_is_not_the_users_setting() -> None:
    seen = {"config": {"dynamo.assume_static_by_default": False, "inductor.fallback_random": True}}
    graph = GraphRecord(0, 1, "0/0", code=CODE, inputs=(X,), recipe=seen, backend=BackendRecord(dynamic=True))
    assert variants(graph).recipe(graph).config == {"inductor.fallback_random": True}


def test_a_backend_of_the_users_is_carried_with_its_definition(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n\ndef mine(gm, inputs):\n    return gm.forward\n\ntorch.compile(f, backend=mine)\n"
    )
    backend = BackendRecord("mine", file=str(script), qualname="mine")
    graph = GraphRecord(0, 1, "0/0", code=CODE, inputs=(X,), backend=backend)
    (attempt,) = variants(graph, files=(script,)).attempts(graph)
    assert attempt.recipe.backend == "mine"
    assert "def mine(gm, inputs):" in attempt.text
    assert attempt.how == "with the script's definitions"
    hidden = GraphRecord(
        0, 1, "0/0", code=CODE, inputs=(X,), backend=BackendRecord("f", file=str(script), qualname="main.<locals>.f")
    )
    with pytest.raises(ReproKitError, match="top level"):
        list(variants(hidden, files=(script,)).attempts(hidden))


def test_changes_to_the_compiler_are_tried_after_the_graph_alone(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("from torch._inductor import lowering\nlowering.lowerings.clear()\n")
    graph = GraphRecord(0, 1, "0/0", code=CODE, inputs=(X,))
    plain, changed = variants(graph, files=(script,)).attempts(graph)
    assert "lowerings" not in plain.text
    assert "lowering.lowerings.clear()" in changed.text
    assert (plain.how, changed.how) == ("", "with the script's definitions")


def test_a_graph_that_could_not_be_recorded_says_why() -> None:
    graph = GraphRecord(0, 1, "0/0", problem="TypeError: input x is a tensor subclass, DTensor")
    with pytest.raises(ReproKitError, match="DTensor"):
        list(variants(graph).attempts(graph))


MODE = """
import torch
from torch._inductor import lowering
from torch.overrides import TorchFunctionMode

class Mode(TorchFunctionMode):
    pass

lowering.lowerings.clear()
"""


def test_contexts_are_tried_after_all_else(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(MODE)
    regions = [
        {"file": str(script), "expression": text, "names": {name: str(script)}}
        for text, name in (("Mode()", "Mode"), ("here()", "here"), ("torch.f()", "torch"), ("open('x')", "torch"))
    ]
    seen = {"regions": regions, "switches": ["torch.use_deterministic_algorithms(True)"], "device": "meta"}
    graph = GraphRecord(0, 1, "0/0", code=CODE, inputs=(X,), recipe=seen)
    *without, inside = variants(graph, files=(script,)).attempts(graph)
    assert [it.recipe.contexts for it in without] == [("torch.device('meta')",)] * 2
    assert inside.recipe.contexts == ("torch.device('meta')", "Mode()", "torch.f()")
    assert inside.how == "in the script's contexts"
    assert "class Mode(TorchFunctionMode):" in inside.text and "lowerings.clear()" in inside.text
    assert all("torch.use_deterministic_algorithms(True)" in it.text for it in (*without, inside))


def test_a_graph_that_was_compiled_before_may_come_from_a_cache() -> None:
    first, again = (GraphRecord(number, 1, f"{number}/0", code=CODE, inputs=(X,)) for number in (0, 1))
    recorded = Recorded(1, (first, again), (RecordedEvent("call-begin", 1, 0.0),))
    assert [attempt.recipe.warm_caches for attempt in Variants(recorded, Kind.ACCURACY, ()).attempts(first)] == [False]
    assert [attempt.recipe.warm_caches for attempt in Variants(recorded, Kind.ACCURACY, ()).attempts(again)] == [
        False,
        True,
    ]


def test_the_limit_that_an_allocation_ran_into_is_carried() -> None:
    for seen, limit in (({"memory": 1 << 33}, 1 << 33), ({"memory": None}, psutil.virtual_memory().total)):
        graph = GraphRecord(0, 1, "0/0", code=CODE, inputs=(X,), recipe=seen)
        assert variants(graph, kind=Kind.OOM).recipe(graph).memory == limit
        assert variants(graph, kind=Kind.CRASH).recipe(graph).memory is None
        graph = replace(graph, inputs=(replace(X, device="cuda:0"),))
        assert variants(graph, kind=Kind.OOM).recipe(graph).memory is None


def test_a_graph_of_compiled_autograd_means_that_the_backward_is_compiled() -> None:
    graph = GraphRecord(0, 1, "0/0", code=CODE, inputs=(replace(X, requires_grad=True),))
    other = GraphRecord(1, 1, "!0/1/0", code=CODE, inputs=(X,))
    recipe = Variants(Recorded(1, (graph, other), ()), Kind.ACCURACY, ()).recipe(graph)
    assert (recipe.compiled_autograd, recipe.backward) == (True, "sum")


def of_rank(rank: int, code: str, size: int = 2) -> Recorded:
    world = {"size": size, "rank": rank, "groups": {"0": list(range(size))}}
    graph = GraphRecord(0, 10 + rank, "0/0", code=code, inputs=(X,), recipe={"world": world})
    return Recorded(10 + rank, (graph,), (RecordedEvent("call-begin", 0, 0.0),))


REDUCED = CODE.replace("torch.sin(l_x_)", "torch.ops._c10d_functional.all_reduce(l_x_, 'sum', '0')")
DOUBLED = REDUCED.replace("all_reduce(l_x_,", "all_reduce(l_x_ * 2,")


def test_the_graph_of_each_rank_can_run_beside_that_of_the_judged_one() -> None:
    ranks = [of_rank(0, REDUCED, 3), of_rank(1, DOUBLED, 3), of_rank(2, REDUCED, 3)]
    judged, *_ = attempts = list(of_two_codes([ranks[1], ranks[0], ranks[2]], Kind.CRASH, ()))
    assert len(attempts) == 3, "each rank is judged once"
    program = parse(judged.text)
    assert program.recipe.group == ProcessGroup(3, "gloo", rank=1, others=(0, 2))
    assert "l_x_ * 2" in program.graph.statements[0].text or "* 2" in judged.text.partition("def graph")[2]
    assert program.peer is not None and "* 2" not in program.peer.graph.statements[0].text
    assert judged.how == "3 ranks, with another graph on ranks 0, 2"


def test_ranks_with_equal_graphs_or_without_a_graph_are_left_out() -> None:
    assert not list(of_two_codes([of_rank(0, REDUCED), of_rank(1, REDUCED)], Kind.CRASH, ()))
    assert not list(of_two_codes([of_rank(0, REDUCED), Recorded(11, (), ())], Kind.CRASH, ()))
    assert not list(of_two_codes([of_rank(0, CODE), of_rank(1, CODE.replace("sin", "cos"))], Kind.CRASH, ()))


KERNEL = """import torch
import triton
import triton.language as tl

LANES = 32


@triton.jit
def copied(source, target, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < n), mask=at < n)


model = torch.nn.Linear(2, 2)
torch.compile(model)(torch.ones(2))
"""
LAUNCHES = """def forward(self, L_x_):
    l_x_ = L_x_
    out = torch.empty_like(l_x_)
    wrapper = torch.ops.higher_order.triton_kernel_wrapper_mutation(kernel_idx = 0, constant_args_idx = 0, grid = [(1, 1, 1)], tma_descriptor_metadata = {}, kwargs = {'source': l_x_, 'target': out});  wrapper = None
    return (out,)
"""  # noqa: E501 - as torch prints it


def test_a_kernel_of_the_users_is_carried_with_its_definition(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(KERNEL)
    launch = LaunchRecord(KernelRecord("__main__", "copied", str(script)), {"n": "2", "BLOCK": "32"})
    graph = GraphRecord(0, 1, "0/0", code=LAUNCHES, inputs=(X,), launches={"0/0": launch})
    (attempt,) = variants(graph, files=(script,)).attempts(graph)
    program = parse(attempt.text)
    assert program.graph.statements[1].line == "copied[1, 1, 1](source=x, target=out, n=2, BLOCK=32)"
    assert "@triton.jit\ndef copied(" in program.preamble and "import triton" in program.preamble
    assert "LANES" not in program.preamble and "Linear" not in program.preamble
    assert attempt.how == "with the script's definitions"


def test_a_kernel_of_a_library_is_imported() -> None:
    launch = LaunchRecord(KernelRecord("fast.kernels", "copied", "/venv/fast/kernels.py"), {"n": "2", "BLOCK": "32"})
    graph = GraphRecord(0, 1, "0/0", code=LAUNCHES, inputs=(X,), launches={"0/0": launch})
    (attempt,) = variants(graph).attempts(graph)
    assert "from fast.kernels import copied" in attempt.text


def test_a_kernel_that_is_not_at_the_top_of_its_file_is_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    launch = LaunchRecord(KernelRecord("__main__", "copied", str(script)), {})
    graph = GraphRecord(0, 1, "0/0", code=LAUNCHES, inputs=(X,), launches={"0/0": launch})
    with pytest.raises(ReproKitError, match="kernel copied is not defined at the top level"):
        next(variants(graph, files=(script,)).attempts(graph))


def test_two_kernels_of_one_name_are_not_taken_for_each_other() -> None:
    launches = {f"{at}/0": LaunchRecord(KernelRecord("fast", "copied", f"/venv/{at}.py"), {}) for at in range(2)}
    graph = GraphRecord(0, 1, "0/0", code=LAUNCHES, inputs=(X,), launches=launches)
    with pytest.raises(ReproKitError, match="two files that are both called copied"):
        next(variants(graph).attempts(graph))
