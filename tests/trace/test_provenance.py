"""From the user's line to the kernel: by torch's mappings, by its stacks, and by the comments in the generated code."""

import hashlib
import json
from pathlib import Path

from repro_kit.explain.report import ExplainReport, page
from repro_kit.explain.sections.compiles import kernels_section
from repro_kit.serialize import from_data, to_data
from repro_kit.session.explained import context_of
from repro_kit.trace.insights import Insights, gather

FIXTURES = Path(__file__).parent / "fixtures" / "insights"
AT = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
PRE = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[8, 8]cuda:0", L_w_: "f32[8, 8]cuda:0"):
        # File: /me/net.py:3 in f, code: y = x.relu()
        y: "f32[8, 8]cuda:0" = L_x_.relu();  L_x_ = None

        # File: /me/net.py:4 in f, code: return y @ w
        mul: "f32[8, 8]cuda:0" = y @ L_w_;  y = L_w_ = None
        return (mul,)
"""
POST = """\
class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[8, 8]cuda:0", arg1_1: "f32[8, 8]cuda:0"):
        # File: /me/net.py:3 in f, code: y = x.relu()
        relu: "f32[8, 8]cuda:0" = torch.ops.aten.relu.default(arg0_1);  arg0_1 = None
        # No stacktrace found for following nodes
        mm: "f32[8, 8]cuda:0" = torch.ops.aten.mm.default(relu, arg1_1);  relu = arg1_1 = None
        return (mm,)
"""
CODE = """\
# kernel path: /tmp/x.py
# Topologically Sorted Source Nodes: [y], Original ATen: [aten.relu]
# Source node to ATen node mapping:
#   y => relu
# Graph fragment:
#   %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%arg0_1,), kwargs = {})
triton_poi_fused_relu_0 = async_compile.triton('triton_poi_fused_relu_0', '''
@triton.jit
def triton_poi_fused_relu_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    tmp0 = tl.load(in_ptr0)
''', device_str='cuda')
cpp_fused_add_1 = async_compile.cpp_pybinding(['float*'], r'''
''')

def call(args):
        # Topologically Sorted Source Nodes: [y], Original ATen: [aten.relu]
        stream0 = get_raw_stream(0)
        triton_poi_fused_relu_0.run(arg0_1, buf0, 64, stream=stream0)
        buf1 = empty_strided_cuda((8, 8), (8, 1), torch.float32)
        # Topologically Sorted Source Nodes: [mul], Original ATen: [aten.mm]
        extern_kernels.mm(buf0, arg1_1, out=buf1)
        cpp_fused_add_1(buf1)
"""
BACKWARD = """\
class <lambda>(torch.nn.Module):
    def forward(self, tangents_1: "f32[8, 8]cuda:0"):
        # File: /me/net.py:9 in f, code: return z * 3
        mul: "f32[8, 8]cuda:0" = torch.ops.aten.mul.Tensor(tangents_1, 3);  tangents_1 = None
        return (mul,)
"""
OF_BACKWARD = """\
# Topologically Sorted Source Nodes: [mul], Original ATen: [aten.mul]
# Source node to ATen node mapping:
#   mul => mul
triton_poi_fused_mul_0 = async_compile.triton('triton_poi_fused_mul_0', '''
''', device_str='cuda')
"""


def written(name, payload, **context):
    event = {name: {}} if name in ("inductor_output_code", "dynamo_output_graph") else {"artifact": {"name": name}}
    text = payload if isinstance(payload, str) else json.dumps(payload)
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    head = json.dumps({**event, **context, "has_payload": digest})
    return "".join(
        [f"V1120 17:29:59.000000 4244 torch/_inductor/x.py:1] {head}\n", *(f"\t{line}\n" for line in text.split("\n"))]
    )


def log(*records, **context):
    return "".join(written(name, payload, **(context or AT)) for name, payload in records)


def found(path, text):
    path.write_text(text)
    return gather(path).provenance.graphs


FORWARD = (("before_pre_grad_graph", PRE), ("after_post_grad_graph", POST), ("inductor_output_code", CODE))
MAPPINGS = {
    "postToPre": {"relu": ["y"], "mm": ["mul"]},
    "cppCodeToPost": {"triton_poi_fused_relu_0:1": ["relu"], "extern_kernels.mm:2": ["mm"]},
    "version": 2.0,
}


def test_a_real_trace_from_the_lines_to_the_kernels_forward_and_backward(tmp_path):
    insights = gather(FIXTURES / "kernels.log")
    forward, backward = insights.provenance.graphs
    assert [(one.name, one.pre_grad, one.post_grad, [line.code for line in one.lines]) for one in forward.kernels] == [
        ("cpp_fused_mul_relu_0", ("y", "relu"), ("mul", "relu"), ["y = torch.relu(x) * 2"]),
        ("extern_kernels.mm", ("z",), ("mm",), ["z = y @ w"]),
        ("cpp_fused_sin_sum_1", ("sum_1", "sin"), ("sum_1", "sin"), ["return z.sin().sum()"]),
    ]
    assert backward.later and {one.name: one.post_grad for one in backward.kernels} == {
        "cpp_fused_cos_expand_mul_0": (), "extern_kernels.mm": ("expand", "cos", "mul_1", "mm_1"),
    }  # fmt: skip
    assert [line.code for one in backward.kernels for line in one.lines] == ["return z.sin().sum()", "z = y @ w"]
    assert from_data(to_data(insights), Insights).provenance == insights.provenance
    report = ExplainReport("a trace", (), (kernels_section(context_of(insights, tmp_path)),))
    assert "cpp_fused_mul_relu_0" in page(report)


def test_without_mappings_the_comments_in_the_code_tell_it(tmp_path):
    (graph,) = found(tmp_path / "a.log", log(*FORWARD))
    fused, cpp, product = graph.kernels
    assert not graph.mapped and [ref.compile_id for ref in graph.compiles] == ["0/0"]
    assert (fused.name, fused.pre_grad, fused.post_grad) == ("triton_poi_fused_relu_0", ("y",), ("relu",))
    assert [(line.file, line.line, line.code) for line in fused.lines] == [("/me/net.py", 3, "y = x.relu()")]
    assert (product.name, product.pre_grad, product.lines[0].line) == ("extern_kernels.mm", ("mul",), 4)
    assert cpp.name == "cpp_fused_add_1" and not cpp.known


def test_mappings_and_stacks_of_torch_come_first(tmp_path):
    stack = '  File "/me/main.py", line 2, in run\n    f(x)\n  File "/me/net.py", line 4, in f\n    return y @ w\n'
    inner = stack + '  File "/v/site-packages/torch/nn/modules/linear.py", line 9, in forward\n    return F.linear()\n'
    stacks = {"extern_kernels.mm:2": [stack, inner]}
    text = log(*FORWARD, ("inductor_provenance_tracking_node_mappings", MAPPINGS),
               ("inductor_provenance_tracking_kernel_stack_traces", stacks))  # fmt: skip
    (graph,) = found(tmp_path / "a.log", text)
    fused, product, cpp = graph.kernels
    assert graph.mapped and (product.name, product.pre_grad, product.post_grad) == (
        "extern_kernels.mm", ("mul",), ("mm",),
    )  # fmt: skip
    assert [(line.file, line.line, line.code) for line in product.lines] == [("/me/net.py", 4, "return y @ w")]
    assert fused.lines[0].line == 3 and not cpp.known


def test_a_node_of_the_backward_is_not_taken_for_one_of_the_forward(tmp_path):
    text = log(*FORWARD, ("after_post_grad_graph", BACKWARD), ("inductor_output_code", OF_BACKWARD))
    _, backward = found(tmp_path / "a.log", text)
    (kernel,) = backward.kernels
    assert (
        backward.later
        and (kernel.pre_grad, kernel.post_grad) == ((), ("mul",))
        and [line.line for line in kernel.lines] == [9]
    )


def test_ranks_with_the_same_kernels_are_one_and_a_damaged_record_hides_nothing(tmp_path):
    for rank in range(3):
        damaged = ("inductor_provenance_tracking_node_mappings", ["no", "mapping"] if rank else {"cppCodeToPost": 3})
        (tmp_path / f"rank_{rank}.log").write_text(log(*FORWARD, damaged, rank=rank, **AT))
    insights = gather(tmp_path)
    (graph,) = insights.provenance.graphs
    assert graph.count == 3 and [ref.rank for ref in graph.compiles] == [0, 1, 2]
    section = kernels_section(context_of(insights, tmp_path))
    assert section.summary == "3 kernels of 1 graph, 1 of unknown origin"
    _, item = section.items
    assert ("triton_poi_fused_relu_0", "/me/net.py:3 in f: y = x.relu()", "y", "relu") in item.blocks[1].rows


def test_ahead_of_time_without_a_compile_id(tmp_path):
    cpp = """\
    // Topologically Sorted Source Nodes: [mul, ], Original ATen: [aten.mm]
    static constexpr int64_t int_array_2[] = {10L, 16L};
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cuda_mm_out(buf0, arg0_1, arg1_1));
    // Topologically Sorted Source Nodes: [y], Original ATen: [aten.relu]
    call_triton_poi_fused_relu_0(buf0, 64L, stream, kernels, this->cubin_dir_);
"""
    text = log(*FORWARD[:2], ("inductor_aot_wrapper_code", cpp), process="x")
    (graph,) = found(tmp_path / "a.log", text)
    assert graph.compiles == () and [(one.name, one.pre_grad, one.lines[0].line) for one in graph.kernels] == [
        ("aoti_torch_cuda_mm_out", ("mul",), 4), ("triton_poi_fused_relu_0", ("y",), 3),
    ]  # fmt: skip
