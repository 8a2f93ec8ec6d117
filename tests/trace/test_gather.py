"""What insights tell of real traces (fixtures: scripts/record_traces.py), and that real torch still writes them so."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.serialize import from_data, to_data
from repro_kit.trace.insights import Insights, gather
from repro_kit.trace.insights.overview import OverviewState

HEAD = "V1120 17:29:56.314000 4244 torch/_dynamo/utils.py:2350] "
HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures" / "insights"
CASES = sorted(path.stem for path in FIXTURES.glob("*.log"))
PARAMETERS, PROPERTY, INTEGER, STATIC = (
    f"torch._dynamo.config.{name}"
    for name in (
        "force_parameter_static_shapes",
        "force_nn_module_property_static_shapes",
        "allow_unspec_int_on_nn_module",
        "automatic_dynamic_shapes",
    )
)

#: case -> (states, breaks as (code, extra graphs), recompiles as (kind, source, expected), specializations as
#: (cause, source, value), blocked as (source, setting)); what is not named is empty.
EXPECTED = {
    "branch_on_size": {"states": "ok ok", "recompiles": {("size", "L['x'].size()[0]", "")}},
    "breaks_in_a_loop": {"states": "eager broken ok", "breaks": {("GB0059", 0), ("GB0059", 1)}},
    "breaks_on_data": {"states": "broken ok", "breaks": {("GB0170", 1)}},
    "breaks_on_item": {"states": "broken ok", "breaks": {("GB0124", 1)}},
    "breaks_on_open": {"states": "broken eager", "breaks": {("GB0059", 0), ("GB0142", 0)}},
    "breaks_on_print": {"states": "broken ok", "breaks": {("GB0059", 1)}},
    "duck_shaped": {
        "states": "ok ok",
        "recompiles": {("size", "L['y'].size()[0]", "x.size()[0]")},
        "specializations": {("duck shaping", "L['y'].size()[0]", "5")},
    },
    "float_constant": {"states": "ok ok", "recompiles": {("value", "L['scale']", "1.5")}},
    "four_sizes_automatic": {"states": "ok ok", "recompiles": {("size", "L['x'].size()[0]", "3")}},
    "four_sizes_dynamic": {"states": "ok"},
    "four_sizes_static": {
        "states": "ok ok ok ok",
        "recompiles": {("size", "L['x'].size()[0]", "3")},
        "blocked": {("L['x']", STATIC)},
    },
    "higher_order": {"states": "ok"},
    "hit_limit": {
        "states": "ok ok eager",
        "recompiles": {("size", "L['x'].size()[0]", "2")},
    },
    "kernels": {"states": "ok"},
    "learning_rate": {
        "states": "broken broken ok empty ok",
        "breaks": {("GB0007", 0), ("GB0025", 0)},
        "recompiles": {("value", "L['self'].param_groups[0]['lr']", "0.1")},
    },
    "marked_dynamic_violated": {
        "states": "failed",
        "specializations": {
            ("code", "L['x'].size()[0]", "10"),
            ("mark_dynamic violated", "L['x'].size()[0]", "10"),
        },
    },
    "module_per_layer": {
        "states": "ok ok ok ok",
        "recompiles": {("size", "L['x'].size()[1]", "4")},
        "blocked": {
            ("L['self']._modules['linear']._parameters['weight']", PARAMETERS),
            ("L['self']._modules['linear']._parameters['bias']", PARAMETERS),
            ("L['x']", STATIC),
        },
    },
    "multiplied_with_static": {
        "states": "ok ok",
        "recompiles": {("size", "L['w'].size()[0]", "10")},
        "specializations": {("code", "L['x'].size()[0]", "10")},
    },
    "near_limit": {
        "states": "ok ok ok ok ok ok ok",
        "recompiles": {("value", "L['mode']", repr(mode)) for mode in "abcdef"},
    },
    "pgo_warm": {"states": "ok"},
    "size_equals_or_bounded": {
        "states": "ok ok empty",
        "recompiles": {("size", "L['x'].size()[0]", "10"), ("size", "L['x'].size()[0]", "")},
        "specializations": {("code", "L['x'].size()[0]", "10")},
    },
    "size_one": {
        "states": "ok ok",
        "recompiles": {("size", "L['x'].size()[0]", "1")},
        "specializations": {("0/1", "L['x'].size()[0]", "1")},
    },
    "specialized_by_equality": {
        "states": "ok ok",
        "recompiles": {("size", "L['m'].size()[0]", "33")},
        "specializations": {("code", "L['m'].size()[0]", "33")},
    },
    "static_module_attribute": {
        "states": "ok ok ok",
        "recompiles": {("value", "L['self'].steps", "0"), ("value", "L['self'].steps", "1")},
        "blocked": {("L['self'].steps", INTEGER)},
    },
    "static_module_size": {"states": "ok ok", "recompiles": {("size", "L['self'].cache.size()[0]", "3")}},
    "static_parameter": {
        "states": "ok ok ok",
        "recompiles": {("size", "L['w'].size()[0]", "3")},
        "blocked": {("L['w']", PARAMETERS)},
    },
    "unbacked_check": {"states": "ok"},
    "wrong_arguments": {"states": "failed"},
}


def record(data: dict, payload: str) -> str:
    data = {**data, "has_payload": hashlib.md5(payload.encode()).hexdigest()}
    return HEAD + json.dumps(data) + "".join(f"\n\t{line}" for line in payload.split("\n")) + "\n"


def told(insights: Insights) -> dict:
    """The gist of `insights`, in the form of `EXPECTED`."""
    found = {
        "states": " ".join(compile_.state for compile_ in insights.overview.compiles),
        "breaks": {(one.code, one.extra_graphs) for one in insights.breaks},
        "recompiles": {
            (reason.guard.kind, reason.guard.source, reason.guard.expected)
            for recompile in insights.recompiles
            for reason in recompile.reasons
        },
        "specializations": {
            (specialization.cause.value, specialization.sources[0], specialization.value)
            for specialization in insights.specializations
        },
        "blocked": {(one.source, one.setting.value) for one in insights.shapes.blocked},
    }
    return {key: value for key, value in found.items() if value}


@pytest.mark.parametrize("case", CASES)
def test_recorded_trace(case):
    insights = gather(FIXTURES / f"{case}.log")
    assert told(insights) == EXPECTED[case]
    assert from_data(to_data(insights), Insights) == insights
    assert insights.problems.damaged == insights.problems.stray == 0
    places = [one.where for one in (*insights.breaks, *insights.specializations, *insights.failures) if one.where]
    places += [
        reason.guard.where for recompile in insights.recompiles for reason in recompile.reasons if reason.guard.where
    ]
    assert all(place.line and place.file.startswith(("/home/me/", "/venv/")) for place in places)


@pytest.mark.torch
@pytest.mark.slow
def test_this_torch_writes_traces_so(tmp_path):
    cold = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "TORCHINDUCTOR_VEC_ISA_OK": "1"}  # no test libraries
    env = {**os.environ, "TORCH_TRACE": str(tmp_path / "warm"), **cold}
    command = [sys.executable, str(HERE / "insight_cases.py"), "--each", str(tmp_path)]
    subprocess.run(command, env=env, capture_output=True, check=True)
    assert {case: told(gather(tmp_path / case)) for case in EXPECTED} == EXPECTED


def test_break_says_where_why_and_what_to_do():
    (one,) = gather(FIXTURES / "breaks_on_item.log").breaks
    assert one.kind == "Unsupported Tensor.item() call with capture_scalar_outputs=False"
    assert one.explanation.startswith("Dynamo does not support tracing `Tensor.item()`")
    assert "capture_scalar_outputs = True" in one.hints[0] and one.context == "call_method TensorVariable() item () {}"
    assert one.where.code == "return x * x.sum().item()" and one.where.function == "f"
    assert [frame.function for frame in one.stack] == ["<module>", "each", "breaks_on_item", "f"]
    assert one.link.endswith("gb0124.html") and not one.skipped and one.count == 1


def test_a_break_in_a_loop_leaves_the_frame_to_eager_and_breaks_what_it_calls():
    broken, skipped = gather(FIXTURES / "breaks_in_a_loop.log").breaks
    assert not broken.skipped and broken.where == skipped.where and broken.where.code == 'print("y is made")'
    assert skipped.skipped
    assert "earlier graph break" in skipped.hints[-1] and skipped.count == broken.count == 1
    assert [str(ref) for ref in skipped.compiles] == ["0/0"]


def test_a_frame_that_is_skipped_is_one_break():
    (one,) = gather(HERE / "fixtures" / "graph_break_skips_frame.log").breaks
    assert one.code == "GB0025" and one.count == 1


def test_sizes_seen_over_time():
    (one,) = gather(FIXTURES / "four_sizes_static.log").recompiles
    assert one.values.sources == ("L['x'].size()[0]",)
    assert [(row.compile.compile_id, row.values) for row in one.values.rows] == [
        ("0/0", ("3",)), ("0/1", ("4",)), ("0/2", ("5",)), ("0/3", ("6",)),
    ]  # fmt: skip
    assert one.size_related and one.count == 3 and not one.hit and not one.near and one.limit == 8


def test_limit_hit_and_near():
    (hit,) = gather(FIXTURES / "hit_limit.log").recompiles
    assert hit.hit and hit.limit == 2 and [row.values for row in hit.values.rows] == [("2",), ("3",), ("4",)]
    (fullgraph,) = gather(HERE / "fixtures" / "recompile_limit_fullgraph.log").recompiles
    assert fullgraph.hit
    (near,) = gather(FIXTURES / "near_limit.log").recompiles
    assert near.near and not near.hit and not near.size_related
    assert [row.values for row in near.values.rows] == [(repr(mode),) for mode in "abcdefg"]


def test_values_of_a_number_on_a_module():
    (one,) = gather(FIXTURES / "static_module_attribute.log").recompiles
    assert one.values.sources == ("L['self'].steps",)
    assert [row.values for row in one.values.rows] == [("0",), ("1",), ("2",)]


def test_specialization_names_the_users_line_and_the_frameworks():
    one = next(iter(gather(FIXTURES / "specialized_by_equality.log").specializations))
    assert one.where.code == "if m.shape[0] == 33:" and one.code.function == "f"
    assert one.framework.file.endswith("torch/_dynamo/variables/tensor.py")


def test_symbols_with_source_range_and_what_made_them():
    symbols = gather(FIXTURES / "four_sizes_automatic.log").shapes
    (one,) = symbols.symbols
    assert (one.source, one.hints, one.range) == ("L['x'].size()[0]", ("4",), "[2, int_oo]")
    assert one.origin == "automatic dynamic" and symbols.suggested == ("L['x']",)
    origins = {symbol.origin.value for symbol in gather(FIXTURES / "unbacked_check.log").shapes.symbols}
    assert origins == {"unbacked"}
    (learned,) = gather(FIXTURES / "pgo_warm.log").shapes.symbols
    assert learned.origin == "PGO" and learned.source == "L['x'].size()[0]"
    both = gather(FIXTURES / "size_one.log").shapes.symbols
    assert {one.origin.value for one in both} == {"dynamic=True or a mark"}
    (marked, _) = gather(FIXTURES / "four_sizes_dynamic.log").shapes.symbols
    assert marked.origin == "dynamic=True or a mark"


def test_constants_of_a_users_triton_kernels(tmp_path):
    code = """async_compile.triton('add_kernel', \'\'\'
@triton.jit
def add_kernel(in_ptr0, out_ptr, n_elements, BLOCK_SIZE : "tl.constexpr", EVEN: tl.constexpr):
\'\'\')
@triton.jit
def triton_poi_fused_add_0(in_ptr0, xnumel, XBLOCK : tl.constexpr):
"""
    text = record({"artifact": {"name": "fx_graph_runnable"}, "frame_id": 0, "frame_compile_id": 1}, code)
    (tmp_path / "a.log").write_text(text)
    (one,) = gather(tmp_path / "a.log").shapes.kernels
    assert (one.kernel, one.arguments) == ("add_kernel", ("BLOCK_SIZE", "EVEN"))
    assert [str(ref) for ref in one.compiles] == ["0/1"]


def test_guards_by_source_and_line_with_shapes_apart():
    guards = gather(FIXTURES / "size_equals_or_bounded.log").guards
    assert {shape.text for shape in guards.shapes} == {
        "L['x'].size()[0] != 10", "2 <= L['x'].size()[0] <= 30", "31 <= L['x'].size()[0]",
    }  # fmt: skip
    bound = next(shape for shape in guards.shapes if shape.text.startswith("31"))
    assert bound.where.code == "if x.size()[0] <= 30:" and bound.where.file == "/home/me/insight_cases.py"
    tensors = [group for group in guards.groups if group.name == "TENSOR_MATCH"]
    assert {tensor.source for tensor in tensors} == {"L['x']"} and guards.dynamic[0].sizes == "[None]"
    assert guards.costly[0].latency_us >= guards.costly[-1].latency_us > 0
    assert guards.total == sum(one.count for one in (*guards.groups, *guards.shapes))


def test_guards_that_set_equal_graphs_apart_and_are_not_about_size():
    (one,) = gather(FIXTURES / "near_limit.log").guards.differing
    assert set(one.texts) == {f"EQUALS_MATCH: L['mode'] == {mode!r}" for mode in "abcdefg"}
    assert gather(FIXTURES / "four_sizes_static.log").guards.differing == ()


def test_similar_graphs():
    (one,) = gather(FIXTURES / "module_per_layer.log").similar
    assert one.count == 4 and one.ops == 2 and one.inputs[-1] == "L_x_"
    assert [member.sizes[-1] for member in one.members] == ["[2, 4]", "[2, 5]", "[2, 6]", "[2, 7]"]
    assert gather(FIXTURES / "breaks_on_item.log").similar == ()
    assert gather(FIXTURES / "duck_shaped.log").similar == ()  # dynamic already


def test_settings_that_are_not_at_their_default():
    overview = gather(FIXTURES / "hit_limit.log").overview
    assert {(setting.name, setting.value, setting.default) for setting in overview.settings} == {
        ("torch._dynamo.config.automatic_dynamic_shapes", "False", "True"),
        ("torch._dynamo.config.recompile_limit", "2", "8"),
    }
    assert overview.versions["torch"].startswith("2.")


def test_tree_lists_stack_frames_from_the_root_downwards():
    overview = gather(FIXTURES / "breaks_on_item.log").overview
    nodes = [(node.depth, node.frame.function, [ref.compile_id for ref in node.compiles]) for node in overview.tree]
    assert nodes[0] == (0, "<module>", []) and (2, "f", ["0/0"]) in nodes
    assert overview.states() == {OverviewState.OK: 1, OverviewState.BROKEN: 1} and overview.ops == 2


def test_failures_say_what_and_where():
    (one,) = gather(FIXTURES / "wrong_arguments.log").failures
    assert one.type == "TorchRuntimeError" and "matmul" in one.where.code and one.count == 1


def test_equal_failures_are_one(tmp_path):
    text = (HERE / "fixtures" / "backend_error.log").read_text()
    for rank in (0, 1):
        (tmp_path / f"rank_{rank}.log").write_text(text.replace('"frame_id"', f'"rank": {rank}, "frame_id"'))
    (one,) = gather(tmp_path).failures
    assert one.count == 2 and [ref.rank for ref in one.compiles] == [0, 1]


def test_ranks_that_diverge(tmp_path):
    text = (FIXTURES / "four_sizes_static.log").read_text()
    for rank, log in enumerate((text, text[: text.rindex("V1")], (FIXTURES / "four_sizes_automatic.log").read_text())):
        (tmp_path / f"rank_{rank}.log").write_text(log.replace('"frame_id"', f'"rank": {rank}, "frame_id"'))
    ranks = gather(tmp_path).ranks
    assert ranks.ranks == (0, 1, 2) and ranks.compiles == {0: 4, 1: 4, 2: 2}
    found = {(divergence.what, divergence.compile_id): divergence.groups for divergence in ranks.divergences}
    assert ranks.divergences[-1].compile_ids == ("0/2", "0/3")
    assert found["compiles", "0/2"] == (("compiled", (0, 1)), ("not compiled", (2,)))
    assert [ranks for _, ranks in found["graph", "0/1"]] == [(0, 1), (2,)]
    assert ("graph", "0/0") not in found


def test_compiled_collectives_in_another_order(tmp_path):
    text = (FIXTURES / "four_sizes_static.log").read_text()
    for rank, names in enumerate(
        (["all_reduce_", "all_gather_into_tensor"], ["all_gather_into_tensor", "all_reduce_"])
    ):
        payload = json.dumps([f"torch.ops._c10d_functional.{name}.default" for name in names]).encode()
        head = {
            "artifact": {"name": "inductor_collective_schedule", "encoding": "json"},
            "frame_id": 0,
            "frame_compile_id": 0,
            "attempt": 0,
            "has_payload": hashlib.md5(payload, usedforsecurity=False).hexdigest(),
        }
        record = f"V1120 17:29:59.000000 4244 torch/_inductor/debug.py:764] {json.dumps(head)}"
        log = f"{text.rstrip()}\n{record}\n\t{payload.decode()}\n"
        (tmp_path / f"rank_{rank}.log").write_text(log.replace('"frame_id"', f'"rank": {rank}, "frame_id"'))
    (one,) = gather(tmp_path).ranks.divergences
    assert (one.what, one.compile_id) == ("collectives", "0/0")
    assert one.groups == (("all_reduce, all_gather_into_tensor", (0,)), ("all_gather_into_tensor, all_reduce", (1,)))


def test_one_rank_diverges_from_none():
    assert gather(FIXTURES / "four_sizes_static.log").ranks.divergences == ()
