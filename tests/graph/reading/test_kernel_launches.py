"""Launches of a user's Triton kernels: what a graph says by numbers, as the user wrote it."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from repro_kit.errors import StageError
from repro_kit.graph import parse
from repro_kit.graph.effects import effects_of
from repro_kit.graph.program import Statement
from repro_kit.graph.reading.from_graph import Variant, build_program
from repro_kit.graph.reading.graph_record import GraphRecord, InputRecord, KernelRecord, LaunchRecord
from repro_kit.graph.reading.raw_graph import with_launches
from repro_kit.recipe import Recipe

OPERATOR = "torch.ops.higher_order.triton_kernel_wrapper_mutation"
SCALE = LaunchRecord(KernelRecord("__main__", "scale", "/home/me/train.py"), {"factor": "0.5", "BLOCK": "256"})


def launched(launch: LaunchRecord, grid: str = "[(12, 1, 1)]", descriptors: str = "{}") -> str:
    text = (
        f"wrapper = {OPERATOR}(kernel_idx = 0, constant_args_idx = 3, grid = {grid}, "
        f"tma_descriptor_metadata = {descriptors}, kwargs = {{'x': matmul, 'out': out}})"
    )
    return "\n".join(map(ast.unparse, with_launches(ast.parse(text).body, {"0/3": launch})))


def test_a_launch_is_written_as_the_user_wrote_it():
    assert launched(SCALE) == "scale[12, 1, 1](x=matmul, out=out, factor=0.5, BLOCK=256)"


def test_other_statements_stay():
    text = "y = torch.relu(x)\nz = y[0]"
    assert "\n".join(map(ast.unparse, with_launches(ast.parse(text).body, {}))) == text


def test_each_configuration_of_an_autotuned_kernel_has_its_grid():
    configs = ({"BLOCK": "128", "STAGES": "2"}, {"BLOCK": "256", "STAGES": "2"})
    tuned = LaunchRecord(KernelRecord("__main__", "scale", "/home/me/train.py", configs), {"factor": "2"})
    text = launched(tuned, "[(24, 1, 1), (12, 1, 1)]")
    called = ast.parse(text, mode="eval").body
    assert isinstance(called, ast.Call) and isinstance(called.func, ast.Subscript)
    grid = eval(ast.unparse(called.func.slice))
    assert grid({"BLOCK": 128}) == (24, 1, 1) and grid({"BLOCK": 256}) == (12, 1, 1)


def test_configurations_with_one_grid_need_no_function():
    tuned = LaunchRecord(KernelRecord("__main__", "scale", "", ({"BLOCK": "128"}, {"BLOCK": "256"})))
    assert launched(tuned, "[(24, 1, 1), (24, 1, 1)]") == "scale[24, 1, 1](x=matmul, out=out)"


@pytest.mark.parametrize(
    ("launch", "options", "said"),
    [
        (LaunchRecord(KernelRecord("m", "make.<locals>.scale")), {}, "not defined at the top level"),
        (LaunchRecord(KernelRecord("m", "scale"), {"dtype": None}), {}, "argument dtype, which a program cannot hold"),
        (SCALE, {"descriptors": "{'x': 1}"}, "a tensor descriptor"),
        (SCALE, {"grid": "[(1, 1, 1), (2, 1, 1)]"}, "a grid for each configuration"),
        (LaunchRecord(), {}, "was not recorded"),
    ],
)
def test_what_a_launch_cannot_say_is_named(launch, options, said):
    with pytest.raises(StageError, match=said):
        launched(launch, **options)


def test_a_launch_may_write_to_each_of_its_arguments():
    effects = effects_of(Statement(None, "scale[12, 1, 1](x=matmul, out=out, factor=0.5)"))
    assert effects.mutates == ("matmul", "out") and not effects.state


def test_a_graph_with_launches_becomes_a_program():
    code = f"""
def forward(self, L_x_ : torch.Tensor):
    l_x_ = L_x_
    out = torch.empty_like(l_x_)
    wrapper = {OPERATOR}(kernel_idx = 0, constant_args_idx = 3, grid = [(4, 1, 1)], tma_descriptor_metadata = {{}}, kwargs = {{'x': l_x_, 'out': out}});  l_x_ = wrapper = None
    return (out,)
"""  # noqa: E501 - as torch prints it
    inputs = (InputRecord(name="L_x_", source="L['x']", shape=(8,), stride=(1,), device="cuda:0"),)
    graph = GraphRecord(0, 1, "0/0", code=code, inputs=inputs, launches={"0/3": SCALE})
    program = parse(build_program(graph, Recipe(), Variant(preamble="def scale(): ...")))
    assert [statement.line for statement in program.graph.statements] == [
        "out = torch.empty_like(x)",
        "scale[4, 1, 1](x=x, out=out, factor=0.5, BLOCK=256)",
    ]
    clashing = replace(graph, code=code.replace("out", "scale"))
    with pytest.raises(StageError, match="the name of the Triton kernel scale"):
        build_program(clashing, Recipe(), Variant())
