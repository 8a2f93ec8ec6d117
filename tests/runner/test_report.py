"""What torch is asked for a report: values, double precision, precision casts, kernels, places in its source."""

import pytest

from repro_kit.probe.repro_probe.protocol.queries import PlaceAsked, PlaceKind, ReportAsked
from repro_kit.runner.program_oracle import ProgramOracle
from texts import program, spoiling

pytestmark = pytest.mark.torch

ASKED: list[tuple[PlaceKind, str, str, str]] = [
    ("lowering", "aten.avg_pool2d_backward.default", "torch/_inductor/lowering.py", "avg_pool2d_backward"),
    ("lowering", "aten.relu.default", "torch/_inductor/lowering.py", "register_pointwise"),
    ("lowering", "aten.mm.default", "torch/_inductor/kernel/mm.py", "tuned_mm"),
    ("decomposition", "aten.hardswish_backward.default", "torch/_decomp/decompositions.py", "hardswish_backward"),
    ("python-kernel", "dropout", "torch/_decomp/decompositions.py", "dropout"),
    ("pass", "joint_graph_passes:remove_noop_ops", "torch/_inductor/fx_passes/post_grad.py", "remove_noop_ops"),
    ("pass", "joint_graph_passes:pass_pattern_1", "torch/_inductor/fx_passes/joint_graph.py", "pass_pattern_1"),
    ("pass", "post_grad_passes:pass_pattern_1", "torch/_inductor/fx_passes/post_grad.py", "pass_pattern_1"),
    ("handler", "torch.use_deterministic_algorithms", "torch/_dynamo/variables/torch.py", "handle_"),
    ("object", "torch._dynamo.side_effects:SideEffects", "torch/_dynamo/side_effects.py", "SideEffects"),
]


def relu_with(bug: str) -> str:
    """The text of a program that Inductor compiles with this bug of torch's own tests."""
    return program(
        "y = torch.relu(x)\nreturn (y,)",
        "x = torch.ones(3, 8)\nreturn [(x,)]",
        backend="inductor",
        config={"inductor.cpp.inject_relu_bug_TESTING_ONLY": bug},
    )


@pytest.mark.slow
def test_each_kind_of_place_is_found_in_the_source_of_this_torch(oracle: ProgramOracle) -> None:
    places: list[PlaceAsked] = [{"kind": kind, "name": name} for kind, name, _, _ in ASKED]
    asked: ReportAsked = {"run": "nothing", "places": [*places, {"kind": "lowering", "name": "aten.no_such.default"}]}
    told = oracle.report("", None, asked, timeout=600)["told"]
    assert not told.get("missing"), told
    found = [(place["file"], place["function"]) for place in told["places"]]
    for kind, name, file, function in ASKED:
        assert any(path.startswith(file) and function in shown for path, shown in found), (kind, name, told["places"])
    assert all(place["line"] > 1 for place in told["places"])
    code = [place for place in told["places"] if place["what"] == "code that is generated for relu"]
    assert {place["function"] for place in code} == {"CppVecOverrides.relu", "CppOverrides.relu"}


@pytest.mark.slow
def test_a_wrong_result_of_inductor_is_told_with_its_kernel(oracle: ProgramOracle) -> None:
    told = oracle.report(relu_with("accuracy"), None, {"run": "compiled", "places": []}, timeout=600)["told"]
    (difference,) = told["differences"]
    assert (difference["where"], difference["index"], difference["eager"]) == ("output 0", [0, 0], "1.0")
    assert difference["compiled"] == "2.0" and told["double"] == {"output 0": "1.0"}
    assert told["with_casts"] is True
    (row,) = told["errors"]
    assert (row["eager"], row["compiled"]) == (0.0, 1.0)
    (kernel,) = told["kernels"]
    assert kernel["language"] == "cpp" and "relu" in kernel["name"]
    assert "#include" not in kernel["code"] and 'extern "C"' in kernel["code"]


@pytest.mark.slow
def test_the_kernels_of_a_program_that_dies_in_one_are_told_without_building_them(oracle: ProgramOracle) -> None:
    told = oracle.report(relu_with("compile_error"), None, {"run": "native", "places": []}, timeout=600)["told"]
    (kernel,) = told["kernels"]
    assert "relu" in kernel["name"] and "compile error!" in kernel["code"] and "differences" not in told


def test_a_program_that_draws_random_numbers_has_no_double(oracle: ProgramOracle) -> None:
    text = spoiling("out * 2", body="y = x + torch.rand(3)\nreturn (y,)", calls="x = torch.ones(3)\nreturn [(x,)]")
    told = oracle.report(text, None, {"run": "compiled", "places": []}, timeout=600)["told"]
    assert "random" in told["missing"]["double"] and "Inductor" in told["missing"]["with_casts"]


def test_an_element_that_is_nan_on_one_side_is_counted_and_has_no_error(oracle: ProgramOracle) -> None:
    text = spoiling(
        "torch.nan_to_num(out)", body="y = x / x\nreturn (y,)", calls="x = torch.arange(3.0)\nreturn [(x,)]"
    )
    (row,) = oracle.report(text, None, {"run": "compiled", "places": []}, timeout=600)["told"]["errors"]
    assert (row["eager"], row["eager_apart"], row["compiled"], row["compiled_apart"]) == (0.0, 0, 0.0, 1)


def test_what_a_hang_takes_in_eager_is_measured(oracle: ProgramOracle) -> None:
    told = oracle.report(spoiling("out"), None, {"run": "eager", "places": []}, timeout=600)["told"]
    assert 0 < told["eager_seconds"] < 600 and "differences" not in told
