"""Titles: what fails, for which operator or construct, under which condition; recorded for every example and case."""

import ast
import itertools
from dataclasses import replace

import pytest

from programs import HEAD
from repro_kit.bundle.story.addressee import Addressee
from repro_kit.bundle.story.story import Aspect, Excerpt
from repro_kit.bundle.story.title import LONGEST, headline, title, title_from, title_of
from repro_kit.bundle.story.title_facts import TitleFacts
from repro_kit.case.stage_results import NumberFound, Reduction
from repro_kit.diagnosis.answers import Answers, FirstWrong, GeneratedKernel
from repro_kit.diagnosis.causes import GUARDS
from repro_kit.diagnosis.cell import Ablation
from repro_kit.diagnosis.culprit import SCRIPT_CODE
from repro_kit.diagnosis.evidence import Chain, Link
from repro_kit.failure.failure import STATE, Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.graph import parse
from repro_kit.graph.effects import NAMESPACES
from repro_kit.probe import embedded
from repro_kit.probe.repro_probe.protocol.recipe_data import AOT_INDUCTOR, EXPORT
from stories import story_of

POOL = (("avg_pool2d", "avg_pool2d(ceil_mode=True)"),)


def wrong(difference="value", *places, **more):
    return Signature(Kind.ACCURACY, difference=difference, places=places, **more)


@pytest.mark.parametrize(
    ("signature", "error", "expected"),
    [
        (wrong("value", "output"), "", "wrong result of relu"),
        (wrong("value", "gradient"), "", "wrong gradient of relu; forward agrees"),
        (wrong("value", "argument"), "", "wrong input mutation by relu"),
        (wrong("value", "gradient", "output"), "", "wrong result of relu"),
        (wrong("nan", "output"), "", "wrong NaN from relu"),
        (wrong("nan", "gradient"), "", "wrong NaN in the gradient of relu; forward agrees"),
        (wrong("shape"), "", "wrong shape from relu"),
        (wrong("dtype"), "", "wrong dtype from relu"),
        (wrong("stride"), "", "wrong strides from relu"),
        (wrong("alias"), "", "wrong aliasing by relu"),
        (wrong("structure"), "", "wrong output structure of relu"),
        (wrong("requires_grad"), "", "wrong requires_grad from relu"),
        (wrong(STATE), "", "side effects of relu differ under torch.compile"),
        (wrong("value", "output", rounding=True), "", "rounding of relu differs from eager's"),
        (
            wrong(None, exceptions=("AssertionError",), message="expected # records, have #"),
            "wrong result: expected 6 records, have 0",
            "wrong result of relu: expected 6 records, have 0",
        ),
        (wrong(None, exceptions=("SystemExit",)), "wrong result: the script's own check fails", "wrong result of relu"),
        (wrong(None, message="tensor(#)"), "wrong result: tensor(4.9115)", "wrong result of relu"),
        (
            Signature(Kind.VALIDATION, ("RuntimeError",), "all elements of target should be between # and #"),
            "RuntimeError: all elements of target should be between 0 and 1",
            "compiled relu does not raise eager's RuntimeError",
        ),
        (
            Signature(Kind.COMPILE_ERROR, ("InductorError", "CppCompileError"), "conflicting declaration"),
            "CppCompileError: error: conflicting declaration ‘auto at_Half_tmp_acc1_vec’",
            "generated code of relu does not compile: conflicting declaration",
        ),
        (
            Signature(Kind.VALIDATION, ("RuntimeError",), "ZeroDivisionError"),
            "compiled code does not raise eager's RuntimeError: ZeroDivisionError",
            "compiled relu does not raise eager's RuntimeError: ZeroDivisionError",
        ),
        (
            Signature(Kind.COMPILE_ERROR, ("InductorError", "TypeError"), "cannot determine truth value"),
            "TypeError: cannot determine truth value",
            "relu does not compile: TypeError: cannot determine truth value",
        ),
        (
            Signature(Kind.COMPILE_ERROR, ("InductorError", "AssertionError"), "", ("cpp.py:store",)),
            "AssertionError",
            "relu does not compile in cpp.py:store",
        ),
        (
            Signature(Kind.COMPILE_ERROR, ("InductorError", "CppCompileError"), "no match"),
            "CppCompileError: error: no match for 'operator='",
            "generated code of relu does not compile: no match for 'operator='",
        ),
        (
            Signature(Kind.DYNAMO_ERROR, ("InternalTorchDynamoError", "TypeError"), "no"),
            "TypeError: no",
            "relu does not compile: TypeError: no",
        ),
        (
            Signature(Kind.RUNTIME_ERROR, ("AssertionError",), "expected size #==#"),
            "AssertionError: expected size 8==8, stride 32==1 at dim=0",
            "compiled relu raises AssertionError: expected size 8==8, stride 32==1 at dim=0",
        ),
        (Signature(Kind.CRASH, signal="memory"), "", "memory corruption in compiled relu"),
        (
            Signature(Kind.CRASH, signal="SIGABRT", message="terminate called"),
            "",
            "abort in compiled relu: terminate called",
        ),
        (Signature(Kind.CRASH, signal="SIGUSR1"), "", "crash in compiled relu"),
        (Signature(Kind.TIMEOUT), "", "compiled relu hangs"),
        (Signature(Kind.TIMEOUT, message="compiling in Inductor"), "", "compiling relu does not end"),
        (Signature(Kind.DEADLOCK), "", "ranks deadlock in compiled relu"),
        (
            Signature(Kind.DEADLOCK),
            "the run does not end: the ranks wait for each other: rank 0 in gloo:barrier, rank 1 in gloo:all_reduce",
            "ranks deadlock in compiled relu: rank 0 in gloo:barrier, rank 1 in gloo:all_reduce",
        ),
        (Signature(Kind.OOM), "", "compiled relu runs out of memory, eager does not"),
        (
            Signature(Kind.COMPILE_GROWTH, message="it doubles with each of # steps"),
            "",
            "compile time of relu grows too fast: it doubles with each of # steps",
        ),
        (Signature(Kind.RECOMPILES, message="5 recompiles > 3"), "", "relu: 5 recompiles > 3"),
        (Signature(Kind.GRAPH_BREAKS, message="1 graph break > 0"), "", "relu: 1 graph break > 0"),
        (Signature(Kind.COMPILE_TIME, message="31 s > 30 s"), "", "relu: 31 s > 30 s"),
        (Signature(Kind.SLOWDOWN, message="1.43x eager's time"), "", "relu: 1.43x eager's time"),
        (Signature(Kind.MEMORY, message="2.00x eager's memory"), "", "relu: 2.00x eager's memory"),
        (Signature(Kind.ORACLE, message="the oracle says bad"), "", "relu: the oracle says bad"),
    ],
)
def test_each_kind_in_the_words_of_the_field(signature, error, expected) -> None:
    facts = TitleFacts(signature, error, (("relu", "relu"),), places=signature.places)
    assert title(facts) == expected
    alone = replace(facts, operators=())
    assert title(alone).strip() and len(title(alone)) <= LONGEST
    assert title(replace(facts, layer=Layer.INDUCTOR)) in (expected, f"[inductor] {expected}")


OPERATORS = (("relu", "relu"), ("torch.nested.nested_tensor", "torch.nested.nested_tensor(layout='jagged')"), *POOL)
CONDITIONS = ("with dynamic=True", "with mode='max-autotune-no-cudagraphs'", "under torch.func.jvp of vmap")
LONG = "ValueError: " + "the sizes of these tensors must match except in one dimension, " * 4


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_a_title_is_short_and_never_cut_inside_a_word(kind, count) -> None:
    named = tuple(itertools.islice(itertools.cycle(OPERATORS), count))
    for conditions in (CONDITIONS[:number] for number in range(4)):
        signature = Signature(kind, ("ValueError",), "the sizes", difference="value" * (kind is Kind.ACCURACY) or None)
        facts = TitleFacts(signature, LONG, named, conditions=conditions, layer=Layer.AOT_INDUCTOR)
        text = title(facts)
        assert len(text) <= LONGEST and text == " ".join(text.split())
        words = f"{text} {LONG}".replace("…", "").replace(",", "").split()
        assert set(text.replace("…", "").rstrip(",").replace(",", "").split()) <= set(words)
        assert count == 0 or named[0][0] in text or (count == 7 and "graph of 7 operators" in text and "sizes" in text)
        assert len(conditions) != 1 or count != 1 or conditions[0] in text


def test_the_operator_at_fault_is_named_alone_and_of_many_the_first_two() -> None:
    many = tuple((name, name) for name in ("sin", "cos", "mul", "relu"))
    assert title(TitleFacts(wrong(), operators=many)) == "wrong result of sin, cos and 2 more operators"
    assert title(TitleFacts(wrong(), operators=many, is_narrowed=True)) == "wrong result of sin"


def test_a_failure_of_other_code_says_so() -> None:
    facts = TitleFacts(wrong(), operators=POOL, layer=Layer.DYNAMO, addressee=Addressee.SCRIPT_CODE)
    assert title(facts) == "[code of the script] wrong result of avg_pool2d(ceil_mode=True)"
    error = Signature(Kind.RUNTIME_ERROR, ("ValueError",), "no")
    in_eager = TitleFacts(error, "ValueError: no", construct="f()", in_eager=True)
    assert title(in_eager) == "f() raises ValueError in eager too: no"


def program(body, inputs, recipe="{}"):
    names = ", ".join(line.partition(" = ")[0] for line in inputs)
    lines = "".join(f"    {line}\n" for line in inputs)
    given = f"({names},)" if names else "()"
    return f"{HEAD}RECIPE = {recipe}\n\n\ndef graph({names}):\n{body}\n\ndef calls():\n{lines}    return [{given}]\n"


def chain(culprit):
    return Ablation("program", chain=Chain("program", (Link("op", culprit, "It begins there."),)))


def inductor_error(message, *exceptions):
    return Signature(Kind.COMPILE_ERROR, ("InductorError", *exceptions), message)


X = "x = torch.ones(4)"
FUSED = GeneratedKernel("cpp_fused_add_sin_0", "cpp", "")
WRONG_GRADIENT = {"signature": wrong("value", "gradient")}
RECORDED = {
    "pooling_gradient": (
        "[inductor] wrong gradient of avg_pool2d(ceil_mode=True); forward agrees",
        {**WRONG_GRADIENT, "layer": Layer.INDUCTOR, "ablation": chain("#1 aten.avg_pool2d_backward.default")},
        program("    y = torch._C._nn.avg_pool2d(x, 2, 2, 0, True)\n    return (y,)\n", [X], "{'backward': 'sum'}"),
    ),
    "dynamic_shape_error": (
        "[inductor] F.interpolate(mode='area') does not compile with dynamic=True",
        {
            "signature": inductor_error("cannot determine truth value of Relational", "TypeError"),
            "error": "TypeError: cannot determine truth value of Relational: (((2*s17 + 1)//s17)) > 25",
            "layer": Layer.INDUCTOR,
            "ablation": chain("#0 aten._adaptive_avg_pool2d.default"),
        },
        program(
            "    y = torch.nn.functional.interpolate(x, None, 1, 'area')\n    return (y,)\n",
            ["x = torch.rand(1, 1, 3, 1)"], "{'dynamic': True}",
        ),
    ),
    "inductor_accuracy": (
        "[inductor] wrong result of arange(dtype=torch.int64), mul",
        {"signature": wrong("value", "output"), "layer": Layer.INDUCTOR},
        program("    a = torch.arange(4, dtype=torch.int64)\n    y = a * 1000000000\n    return (y,)\n", []),
    ),
    "inductor_cpp_compile_error": (
        "generated code of relu does not compile: 'compile' was not declared in this scope",
        {
            "signature": inductor_error("'compile' was not declared in this scope", "CppCompileError"),
            "error": "CppCompileError: error: 'compile' was not declared in this scope",
            "layer": Layer.INDUCTOR,
        },
        program("    y = torch.relu(x)\n    return (y,)\n", [X]),
    ),
    "inductor_runtime_error": (
        "[user code] compiled custom operator examples::whiten raises AssertionError",
        {
            "signature": Signature(Kind.RUNTIME_ERROR, ("AssertionError",), "expected size #==#, stride #==# at dim=#"),
            "error": "AssertionError: expected size 8==8, stride 32==1 at dim=0; expected size 32==32, stride 1==8",
            "layer": Layer.USER,
        },
        program("    y = torch.ops.examples.whiten.default(x)\n    return (y,)\n", [X]),
    ),
    "aot_backward_accuracy": (
        "[aotautograd] wrong gradient of matmul under autocast(bfloat16); forward agrees",
        {"signature": wrong("value", "gradient"), "layer": Layer.AOT},
        program(
            "    y = x @ x\n    return (y,)\n", ["x = torch.ones(2, 2)"],
            "{'backward': 'sum', 'backend': 'aot_eager', 'autocast': {'device': 'cpu', 'dtype': 'bfloat16'}}",
        ),
    ),
    "aot_runtime_error": (
        "[aotautograd] compiled mul_, view raise AssertionError with inputs that share memory",
        {
            "signature": Signature(Kind.RUNTIME_ERROR, ("AssertionError",), "incorrect out shape"),
            "error": "AssertionError: incorrect out shape after application of ViewMeta sequence: (20,) (actual)",
            "layer": Layer.AOT,
        },
        program("    m = x.mul_(0.9)\n    y = w.view(-1)\n    return (y,)\n", [X, "w = x.as_strided((2,), (1,))"]),
    ),
    "lost_shape_check": (
        "[decomposition] compiled index_copy does not raise eager's RuntimeError",
        {
            "signature": Signature(Kind.VALIDATION, ("RuntimeError",), "index_copy_(): Source must have"),
            "error": "RuntimeError: index_copy_(): Source/destination tensor must have same slice shapes",
            "layer": Layer.DECOMPOSITION,
        },
        program("    y = torch.index_copy(x, 0, x, x)\n    return (y,)\n", [X]),
    ),
    "aot_inductor_error": (
        "[aotinductor] to_sparse, to_dense do not compile with AOTInductor: aten::_to_dense",
        {
            "signature": inductor_error("aten::_to_dense: attempted to run", "NotImplementedError"),
            "error": "NotImplementedError: aten::_to_dense: attempted to run this operator with Meta tensors",
            "layer": Layer.AOT_INDUCTOR,
        },
        program(
            "    a = x.to_sparse()\n    y = a.to_dense()\n    return (y,)\n", [X], f"{{'backend': {AOT_INDUCTOR!r}}}"
        ),
    ),
    "precompiled_overflow": (
        "[inductor] wrong result of arange, mul",
        {"signature": wrong("value", "output"), "layer": Layer.INDUCTOR},
        program("    a = torch.arange(4)\n    y = a * 1000000000\n    return (y,)\n", []),
    ),
    "a function whose backward the program defines": (
        "a custom autograd.Function does not compile: Node add was invalid, but is output",
        {
            "signature": Signature(Kind.COMPILE_ERROR, ("BackendCompilerFailed", "AssertionError"), "Node add"),
            "error": "AssertionError: Node add was invalid, but is output",
            "layer": Layer.AOT,
        },
        program(
            "    y = x.clone()\n    v = AutogradFunction.apply(body_0, body_1, x, y)\n    return (y, v[0])\n", [X]
        ),
    ),
    "a message that names the operator first": (
        "[aotautograd] abs_ does not compile: functionalization encountered a tensor",
        {
            "signature": Signature(Kind.COMPILE_ERROR, ("BackendCompilerFailed", "RuntimeError"), "While executing"),
            "error": "RuntimeError: While executing unfold, functionalization encountered a tensor",
            "layer": Layer.AOT,
        },
        program("    y = x.abs_()\n    return (y,)\n", [X]),
    ),
    "a number that the compiler asks for": (
        "scan, mul do not compile: DataDependentOutputException: aten._local_scalar_dense.default",
        {
            "signature": replace(inductor_error("", "DataDependentOutputException"), op="aten._local_scalar_dense"),
            "error": "DataDependentOutputException: aten._local_scalar_dense.default",
            "layer": Layer.INDUCTOR,
        },
        program("    y = flat_scan(body_0, [x], [x], [])\n    z = y[0]\n    return (z,)\n", [X]).replace(
            "def graph", "def body_0(a, b):\n    c = a * b\n    return [c]\n\n\ndef graph"
        ),
    ),
    "a view that an index becomes": (
        "[inductor] wrong result of mul, add_, setitem",
        {"signature": wrong("value", "output"), "layer": Layer.INDUCTOR, "ablation": chain("#6 aten.slice.Tensor")},
        program("    y = x * 2\n    y.add_(1)\n    x[2:5] = 2\n    return (y,)\n", [X]),
    ),
    "a dtype that indices leave telling": (
        "[inductor] wrong result of amin in uint8",
        {"signature": wrong("value", "output"), "layer": Layer.INDUCTOR},
        program(
            "    y = x.amin(1)\n    return (y,)\n",
            ["x = torch.ones(1, 16, dtype=torch.uint8)", "i = torch.tensor([1])"],
        ),
    ),
    "backend_failure": (
        "F.hardswish does not compile with backend 'toy_npu': toy_npu has no kernel for hardswish",
        {
            "signature": Signature(Kind.COMPILE_ERROR, ("BackendCompilerFailed", "NotImplementedError")),
            "error": "NotImplementedError: toy_npu has no kernel for hardswish",
            "layer": Layer.BACKEND,
        },
        program("    y = torch.nn.functional.hardswish(x)\n    return (y,)\n", [X], "{'backend': 'toy_npu'}"),
    ),
    "crash_signal": (
        "[inductor] abort in compiled relu: terminate called",
        {
            "signature": Signature(Kind.CRASH, message="terminate called", signal="SIGABRT"),
            "error": "the process dies of SIGABRT",
            "layer": Layer.INDUCTOR,
        },
        program("    y = torch.relu(x)\n    return (y,)\n", [X]),
    ),
    "hang": (
        "[inductor] compile time of add, mul grows too fast: exponential in the number of steps",
        {
            "signature": Signature(Kind.COMPILE_GROWTH, message="exponential in the number of steps"),
            "layer": Layer.INDUCTOR,
        },
        program("    a = x + x\n    y = a * x\n    return (y,)\n", [X], "{'backward': 'sum', 'growth': 2.0}"),
    ),
    "191837_tile2d_atomic_add": (
        "[inductor] memory corruption in compiled x[:, i]",
        {
            "signature": Signature(Kind.CRASH, signal="memory"),
            "layer": Layer.INDUCTOR,
            "ablation": chain("#4 aten.index_put_.default"),
        },
        program("    a = x[:, i]\n    y = a * x\n    return (y,)\n", ["x = torch.ones(4, 4)", "i = torch.ones(4)"]),
    ),
    "an index beside another operator": (
        "[inductor] memory corruption in compiled mul",
        {"signature": Signature(Kind.CRASH, signal="memory"), "layer": Layer.INDUCTOR},
        program("    a = x[:, i]\n    y = a * x\n    return (y,)\n", ["x = torch.ones(4, 4)", "i = torch.ones(4)"]),
    ),
    "193757_bce_target": (
        "[decomposition] compiled binary_cross_entropy does not raise eager's RuntimeError",
        {
            "signature": Signature(Kind.VALIDATION, ("RuntimeError",), "all elements of target should be between"),
            "error": "RuntimeError: all elements of target should be between 0 and 1",
            "layer": Layer.DECOMPOSITION,
        },
        program("    y = torch._C._nn.binary_cross_entropy(x, x, None, 1)\n    return (y,)\n", [X]),
    ),
    "194706_jacfwd_fp16": (
        "generated code of mm, prod does not compile under torch.func.vmap of jvp in float16",
        {
            "signature": inductor_error("no match for 'operator*'", "CppCompileError"),
            "error": "CppCompileError: error: no match for 'operator*' (operand types are 'Half' and 'Vectorized')",
            "layer": Layer.INDUCTOR,
        },
        program(
            "    a = torch._functorch.predispatch._vmap_increment_nesting(3, 'error')\n"
            "    b = torch._functorch.predispatch._jvp_increment_nesting()\n"
            "    c = torch.mm(x, x)\n    y = torch.prod(c)\n    return (y,)\n",
            ["x = torch.ones(3, 3, dtype=torch.float16)"],
        ),
    ),
    "197622_bicubic_antialias": (
        "F.interpolate(mode='bicubic', antialias=True) does not compile with dynamic=True",
        {
            "signature": Signature(Kind.COMPILE_ERROR, ("BackendCompilerFailed", "RuntimeError")),
            "error": "RuntimeError: isIntList() INTERNAL ASSERT FAILED at ivalue.h:706, please report a bug to PyTorch",
            "layer": Layer.AOT,
        },
        program(
            "    y = torch.nn.functional.interpolate(x, (21, 21), mode='bicubic', antialias=True)\n    return (y,)\n",
            ["x = torch.rand(1, 1, 3, 1)"], "{'dynamic': True, 'backend': 'aot_eager'}",
        ),
    ),
    "large_dlrm_index_put": (
        "[inductor] index_put(accumulate=True) does not compile in cpp.py:store",
        {
            "signature": Signature(Kind.COMPILE_ERROR, ("InductorError", "AssertionError"), "", ("cpp.py:store",)),
            "error": "AssertionError",
            "layer": Layer.INDUCTOR,
        },
        program("    y = x.index_put((i,), x, True)\n    return (y,)\n", [X, "i = torch.ones(4)"]),
    ),
    "foreach": (
        "[inductor] wrong result of _foreach_add_",
        {"signature": wrong(), "layer": Layer.INDUCTOR},
        program("    y = torch._foreach_add_([x], 1)\n    return (x,)\n", [X]),
    ),
    "higher_order": (
        "exported cond raises TypeError: no",
        {"signature": Signature(Kind.RUNTIME_ERROR, ("TypeError",), "no"), "error": "TypeError: no", "layer": None},
        program("    y = torch.ops.higher_order.cond(x, x)\n    return (y,)\n", [X], f"{{'backend': {EXPORT!r}}}"),
    ),
    "custom_operator": (
        "[inductor] wrong result of custom operator mine::double between add and sin",
        {"signature": wrong("value", "output"), "layer": Layer.INDUCTOR},
        program("    a = x + 1\n    b = torch.ops.mine.double(a)\n    y = torch.sin(b)\n    return (y,)\n", [X]),
    ),
    "custom_operator_at_the_end_of_many": (
        "wrong gradient of custom operator mine::double with 2 other operators; forward agrees",
        {**WRONG_GRADIENT, "layer": Layer.INDUCTOR},
        program("    a = x + 1\n    b = torch.sin(a)\n    y = torch.ops.mine.double(b)\n    return (y,)\n", [X]),
    ),
    "custom_operators": (
        "[inductor] custom operators mine::double, its::half do not compile: TypeError: no",
        {"signature": inductor_error("no", "TypeError"), "error": "TypeError: no", "layer": Layer.INDUCTOR},
        program("    a = torch.ops.mine.double(x)\n    y = torch.ops.its.half(a)\n    return (y,)\n", [X]),
    ),
    "custom_operator_at_fault": (
        "[inductor] wrong result of custom operator mine::double after add",
        {"signature": wrong(), "layer": Layer.INDUCTOR, "ablation": chain("#1 mine.double.default")},
        program("    a = x + 1\n    y = torch.ops.mine.double.default(a)\n    return (y,)\n", [X]),
    ),
    "beside_a_custom_operator": (
        "[inductor] wrong result of sin with custom operator mine::double",
        {"signature": wrong(), "layer": Layer.INDUCTOR, "ablation": chain("#2 aten.sin.default")},
        program("    a = torch.ops.mine.double.default(x)\n    y = torch.sin(a)\n    return (y,)\n", [X]),
    ),
    "torchs_own_namespace": (
        "[inductor] wrong result of _c10d_functional.wait_tensor, sin",
        {"signature": wrong(), "layer": Layer.INDUCTOR},
        program("    a = torch.ops._c10d_functional.wait_tensor(x)\n    y = torch.sin(a)\n    return (y,)\n", [X]),
    ),
    "fused": (
        "[inductor] wrong result of add + sin fused",
        {"signature": wrong(), "layer": Layer.INDUCTOR, "answers": Answers(kernel=FUSED)},
        program("    a = x + 1\n    y = torch.sin(a)\n    return (y,)\n", [X]),
    ),
    "fused_in_part": (
        "[inductor] wrong result of add, sin, mm",
        {"signature": wrong(), "layer": Layer.INDUCTOR, "answers": Answers(kernel=FUSED)},
        program("    a = x + 1\n    b = torch.sin(a)\n    y = torch.mm(b, b)\n    return (y,)\n", [X]),
    ),
    "prims_at_fault": (
        "[inductor] wrong result of aten.bmm",
        {"signature": wrong(), "layer": Layer.INDUCTOR, "ablation": chain("#3 aten.bmm.default")},
        program("    a = x @ x\n    y = torch.relu(a)\n    return (y,)\n", [X]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_the_title_of_a_reduced_program(name) -> None:
    expected, changes, text = RECORDED[name]
    story = story_of("accuracy", program=text, **{"ablation": None, **changes})
    story = replace(story, recipe=parse(text).recipe)
    assert title_of(story) == expected
    assert len(title_of(story)) <= LONGEST


DYNAMO = """import torch

weights = [torch.ones(2), torch.ones(2)]

@torch.compile(dynamic=True, backend='eager')
def step(x):
    return x + weights.pop(x.shape[0] - 3)

step(torch.ones(5))
"""
DETERMINISM = """import torch

def f(x):
    torch.use_deterministic_algorithms(True)
    return x + 1

torch.compile(f)(torch.ones(1))
assert torch.are_deterministic_algorithms_enabled()
"""
SUBCLASS = """import torch

class Quirky(torch.Tensor):
    pass

def fn(x):
    return torch.sin(x)

torch.compile(fn, backend='eager')(torch.randn(4).as_subclass(Quirky))
"""
MARKED = """import torch

@torch.compiler.assume_constant_result
def f(x):
    return torch.sin(x)

torch.compile(lambda x: x * f(x))(torch.ones(1))
"""
MODULE = """import torch
class A(torch.nn.Module):
    def forward(self):
        return self.sub(torch.arange(4.0))
torch.compile(A())()
"""
OWN_BACKWARD = """import torch

class A(torch.autograd.Function):
    def forward(ctx, x, y):
        return x, torch.sin(y)

    def backward(ctx, g, h):
        return None, h

class B(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.h = torch.nn.Linear(2, 2)

    def forward(self, x):
        i = self.h(x)
        return A.apply(torch.cos(i), i)[0]

l = B()
torch.compile(l)(torch.ones(2))
"""
STALE = """import torch
d = torch.nn.Linear(1, 1)
def h(x):
    f = d(x)
    f.t_()
    return f * f.shape[0]
x = torch.randn(2, 1)
if (h(x) - torch.compile(h, backend='eager')(x)).max(): raise SystemExit('')
"""
EXPRESSION = """import torch
scale = [2.0]
torch.compile(lambda x: x * scale[0], options={})(torch.ones(1))
"""
TRANSFORMED = """import torch
g = torch.vmap(torch.func.jacfwd(lambda x: x))
def h(x):
    return g(x)
torch.compile(h)(torch.ones(1))
"""


@pytest.mark.parametrize(
    ("source", "signature", "error", "expected"),
    [
        (
            DYNAMO,
            Signature(
                Kind.DYNAMO_ERROR, ("InternalTorchDynamoError", "AsPythonConstantNotImplementedError"), "not const"
            ),
            "AsPythonConstantNotImplementedError: SymNodeVariable() is not a constant",
            "[dynamo] weights.pop(x.shape[0] - 3) does not compile with dynamic=True",
        ),
        (
            STALE,
            wrong(None, exceptions=("SystemExit",)),
            "wrong result: the script's own check fails",
            "[dynamo] wrong result of f.t_()",
        ),
        (
            DETERMINISM,
            wrong(None, exceptions=("AssertionError",)),
            "wrong result: the script's own check fails: AssertionError",
            "[dynamo] torch.use_deterministic_algorithms inside a compiled function is lost",
        ),
        (
            SUBCLASS,
            Signature(Kind.DYNAMO_ERROR, ("InternalTorchDynamoError", "AttributeError"), "'int' object has no"),
            "AttributeError: 'int' object has no attribute 'as_subclass'",
            "sin does not compile with a tensor subclass: 'int' object has no attribute 'as_subclass'",
        ),
        (TRANSFORMED, wrong("value"), "", "[dynamo] wrong result of g(x)"),
        (EXPRESSION, wrong("value"), "", "[dynamo] wrong result of x * scale[0]"),
        (MARKED, wrong("value"), "", "[dynamo] wrong result of torch.compiler.assume_constant_result"),
        (
            MARKED.replace("compiler.assume_constant_result", "library.custom_op('mine::op', mutates_args=())"),
            wrong("value"),
            "",
            "[dynamo] wrong result of custom operator mine::op",
        ),
        (MARKED.replace("@torch", "# "), wrong("value"), "", "[dynamo] wrong result of sin"),
        (
            TRANSFORMED.replace("g(x)", "torch.sin(torch.ops.mine.double.default(torch.cos(x)))"),
            wrong("value"),
            "",
            "[dynamo] wrong result of custom operator mine::double",
        ),
        (OWN_BACKWARD, wrong("value"), "", "[dynamo] wrong result of a custom autograd.Function"),
        (
            OWN_BACKWARD.replace("compile(l)(torch.ones(2))", "compile(torch.vmap(grad(lambda x: A.apply(x, x))))(1)"),
            wrong("value"),
            "",
            "[dynamo] wrong result of a custom autograd.Function under torch.func.vmap of grad",
        ),
        ("import torch\n(", wrong("value"), "", "[dynamo] wrong result of the compiled function"),
        ("import torch\n(", wrong(None), "", "[dynamo] the script's own check fails under torch.compile"),
        (
            "import torch\n(",
            wrong(None, exceptions=("AssertionError",), message="expected # records, have #"),
            "wrong result: expected 6 records, have 0",
            "[dynamo] the script's own check fails under torch.compile: expected 6 records, have 0",
        ),
        (
            "import torch\n(",
            Signature(Kind.RUNTIME_ERROR, ("RuntimeError",), "a backward"),
            "RuntimeError: It looks like you're trying to call a compiled backward function within vmap/grad/vjp",
            "[dynamo] RuntimeError: It looks like you're trying to call a compiled backward function",
        ),
        (
            "import torch\n(",
            Signature(Kind.RUNTIME_ERROR, ("RuntimeError",), "a backward"),
            "RuntimeError: somebody has written quite so much about its function at 'a long file name.py:3'",
            "[dynamo] RuntimeError: somebody has written quite so much about its function",
        ),
        (MODULE, wrong("value"), "", "[dynamo] wrong result of self.sub(torch.arange(4.0))"),
        (
            f"import os\nos.environ['TORCHDYNAMO_X'] = '1'\n{OWN_BACKWARD}",
            wrong("value"),
            "",
            "[dynamo] wrong result of a custom autograd.Function with TORCHDYNAMO_X=1",
        ),
        (
            f"{OWN_BACKWARD}\ntorch._dynamo.config.verbose = True\nmine.config.size = 3",
            wrong("value"),
            "",
            "[dynamo] wrong result of a custom autograd.Function with dynamo.verbose=True",
        ),
    ],
)
def test_the_title_of_a_reduced_script(source, signature, error, expected) -> None:
    reduced = {"level": "script", "program": "", "ops": (), "named": ("files/reduced.py",), "layer": Layer.DYNAMO}
    story = story_of("accuracy", **reduced, sources=(("files/reduced.py", source),), signature=signature, error=error)
    assert title_of(replace(story, ablation=None)) == expected


def test_of_a_reduced_script_the_line_at_which_dynamo_stops_is_named() -> None:
    source = DYNAMO.replace("    return", "    w = list(weights)\n    return")
    log = 'TypeError: no\n\nfrom user code:\n   File "repro.py", line 8, in step\n    return x\n'
    reduced = {"level": "script", "program": "", "ops": (), "named": ("files/reduced.py",), "layer": Layer.DYNAMO}
    signature = Signature(Kind.DYNAMO_ERROR, ("InternalTorchDynamoError", "TypeError"), "no")
    story = story_of("accuracy", **reduced, sources=(("files/reduced.py", source),), signature=signature, log=log)
    assert "weights.pop(x.shape[0] - 3) does not compile with dynamic=True" in title_of(story)
    assert "list(weights) does not compile" in title_of(replace(story, log="")), "it is the first call"


def test_of_many_operators_the_error_is_told_and_not_some_names() -> None:
    many = tuple((name, name) for name in ("ones", "cumsum(dtype=torch.bfloat16)", "add", "cat", "linear"))
    error = "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16"
    facts = TitleFacts(Signature(Kind.RUNTIME_ERROR, ("RuntimeError",), "mat1 and mat2"), error, many)
    assert title(facts) == "compiled graph of 5 operators raises RuntimeError: mat1 and mat2 must have the same dtype"
    named = replace(facts, is_narrowed=True)
    assert title(named).startswith("compiled ones raises RuntimeError: mat1 and mat2 must have the same dtype")
    assert title(replace(facts, error="")) == (
        "compiled ones, cumsum(dtype=torch.bfloat16) and 3 more operators raise RuntimeError"
    ), "without a message, some names are all there is"


FLIPS = """import torch
side = 0
def f(x):
    global side
    if side is None:
        side = 1
        return x * 2
    side = None
    return x - 1
torch.compile(f)(torch.ones(1))
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (FLIPS, "[dynamo] missing guard on 'side is None': eager 2.0, compiled 0.0"),
        (FLIPS.replace("x - 1", "x if x else 1"), "[dynamo] missing guard: eager 2.0, compiled 0.0"),
        (EXPRESSION, "[dynamo] missing guard: wrong result of x * scale[0]: eager 2.0, compiled 0.0"),
    ],
)
def test_where_code_of_an_earlier_call_runs_again_a_guard_is_missing_and_no_operator_wrong(source, expected) -> None:
    reduced = {"level": "script", "program": "", "ops": (), "named": ("files/reduced.py",), "layer": Layer.DYNAMO}
    story = story_of("accuracy", **reduced, sources=(("files/reduced.py", source),), signature=wrong("value"), error="")
    values = FirstWrong("value", "output 0", "2.0", "0.0", "[0]")
    story = replace(story, ablation=replace(story.ablation, cause=GUARDS), answers=Answers(first_wrong=values))
    assert title_of(story) == expected


TRIED = """import torch
def f(x, a):
    try: x.reshape(a)
    except RuntimeError: pass
torch.compile(f, backend='eager')(torch.arange(1), 0)
"""


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        (TRIED, " in a try block"),
        (TRIED.replace("    except RuntimeError: pass", "    finally: pass"), ""),
        (TRIED.replace("x.reshape(a)", "pass").replace("RuntimeError: pass", "RuntimeError: x.reshape(a)"), ""),
    ],
)
def test_that_the_script_handles_the_exception_is_said(source, condition) -> None:
    reduced = {"level": "script", "program": "", "ops": (), "named": ("files/reduced.py",), "layer": Layer.DYNAMO}
    signature = Signature(Kind.DYNAMO_ERROR, ("TorchRuntimeError", "RuntimeError"), "shape # is invalid")
    error = "RuntimeError: shape '[0]' is invalid for input of size 1"
    story = story_of("accuracy", **reduced, sources=(("files/reduced.py", source),), signature=signature, error=error)
    assert f"x.reshape(a) does not compile{condition}: " in title_of(replace(story, ablation=None, log=""))


CALLED = """import torch
seen = []
class A:
    pass
def f(x, a):
    seen.append(0)
    y = torch.relu(x)
    return y + a.bias
torch.compile(f)(torch.ones(1), A())
assert len(seen) == 1
"""
FRAME = 'Traceback (most recent call last):\n  File "repro.py", line {}\n    {}\n    {}\n{}\n'


@pytest.mark.parametrize(
    ("frame", "signature", "error", "expected"),
    [
        (
            ("8, in f", "return y + a.bias", "           ^^^^^^", "AttributeError: 'A' object has no attribute 'bias'"),
            Signature(Kind.RUNTIME_ERROR, ("AttributeError",), "# object has no attribute"),
            "AttributeError: 'A' object has no attribute 'bias'",
            "the compiled function raises AttributeError: 'A' object has no attribute 'bias'",
        ),
        (
            ("7, in f", "y = torch.relu(x)", "    ^^^^^^^^^^^^^", "RuntimeError: no such storage"),
            Signature(Kind.RUNTIME_ERROR, ("RuntimeError",), "no such storage"),
            "RuntimeError: no such storage",
            "[dynamo] compiled relu raises RuntimeError: no such storage",
        ),
        (
            ("10, in <module>", "assert len(seen) == 1", "       ^^^^^^^^^^^^^^", "AssertionError"),
            wrong(None, exceptions=("AssertionError",)),
            "wrong result: the script's own check fails",
            "[dynamo] side effects of seen.append(0) differ under torch.compile",
        ),
        (
            ("10, in <module>", "assert torch.equal(got, want)", "       ^^^^^", "AssertionError"),
            wrong(None, exceptions=("AssertionError",)),
            "wrong result: the script's own check fails",
            "[dynamo] wrong result of relu",
        ),
    ],
)
def test_what_raises_and_what_the_script_checks_are_at_fault_and_no_call_beside(
    frame, signature, error, expected
) -> None:
    reduced = {"level": "script", "program": "", "ops": (), "named": ("files/reduced.py",), "layer": Layer.DYNAMO}
    log = FRAME.format(*frame)
    story = story_of("accuracy", **reduced, sources=(("files/reduced.py", CALLED),), signature=signature, error=error)
    assert expected in title_of(replace(story, ablation=None, log=log))


CHAINED = """import torch

def f(x):
    def g(grad):
        return grad
    torch.ones(()).requires_grad_().register_hook(g).remove()
    return torch.relu(torch.zeros(3)) + x.view(-1).unfold(0, 2, 1)
"""


@pytest.mark.parametrize(
    ("line", "marks", "expected"),
    [
        (6, "", ".register_hook(g).remove() does not compile"),
        (6, "^" * 14, "ones does not compile"),
        (7, " " * 18 + "^" * 14, "zeros does not compile"),
        (7, " " * 7 + "^" * 26, "relu does not compile"),
        (7, " " * 36 + "^" * 26, "x.view(-1).unfold(0, 2, 1) does not compile"),
        (7, " " * 7 + "~" * 27 + "^" + "~" * 27, "relu does not compile"),
    ],
)
def test_of_several_calls_in_one_line_the_one_that_fails_is_named(line, marks, expected) -> None:
    source = f"{CHAINED}torch.compile(f, backend='eager')(torch.ones(3))\n"
    text = source.splitlines()[line - 1].strip()
    log = f'AssertionError: no\n\nfrom user code:\n   File "repro.py", line {line}, in f\n    {text}\n'
    reduced = {"level": "script", "program": "", "ops": (), "named": ("files/reduced.py",), "layer": Layer.DYNAMO}
    signature = Signature(Kind.DYNAMO_ERROR, ("InternalTorchDynamoError", "AssertionError"), "no")
    story = story_of(
        "accuracy", **reduced, sources=(("files/reduced.py", source),), signature=signature, log=f"{log}    {marks}\n"
    )
    assert expected in title_of(story)


def test_of_code_of_the_script_the_function_that_raises_is_named() -> None:
    log = (
        '  File "repro.py", line 9, in <module>\n    f(x)\n'
        '  File "repro.py", line 5, in __torch_function__\n    b(*c)\n'
        '  File "repro.py", line 5, in <listcomp>\n    b(*c)\nAttributeError: no\n\nfrom user code:\n'
        '   File "repro.py", line 8, in f\n    pass\n'
    )
    reduced = {"level": "script", "program": "", "ops": (), "named": ("files/reduced.py",), "layer": Layer.DYNAMO}
    signature = Signature(Kind.DYNAMO_ERROR, ("InternalTorchDynamoError", "AttributeError"), "no")
    story = story_of("accuracy", **reduced, repro=SUBCLASS, signature=signature, log=log)
    called = replace(story.ablation, cause=SCRIPT_CODE)
    told = replace(story, ablation=called, error="AttributeError: 'int' object has no attribute 'as_subclass'")
    words = "__torch_function__ does not compile: 'int' object has no attribute 'as_subclass'"
    assert title_of(told) == words  # only a subclass has one


def test_a_large_number_and_a_subclass_are_conditions_and_what_fails_in_eager_has_none() -> None:
    text = program("    y = x * 900000000\n    return (y,)\n", [X], "{'dynamic': True}")
    number = NumberFound("argument 2 of `mul`", 900000000, 100, "fails with 900000000, passes with 100")
    of_size = replace(number, what="dimension 0 of `x`")
    story = story_of("accuracy", program=text, ablation=None, signature=wrong(), layer=None, aspects=())
    story = replace(story, reduction=Reduction(9, 1, 5, 1.0, True, True, number=number))
    assert title_of(story) == "wrong result of mul with dynamic=True, 900000000"
    values = FirstWrong("value", "output 0", "2147483649", "-2147483647", "[3]")
    shown = replace(story, program=text.replace("{'dynamic': True}", "{}"), answers=Answers(first_wrong=values))
    assert title_of(shown) == "wrong result of mul with 900000000: eager 2147483649, compiled -2147483647"
    shorter = replace(values, eager="0.7310585975646973", compiled="1.096587896347046")
    text = "wrong result of mul with 900000000: eager 0.731059, compiled 1.09659"
    assert title_of(replace(shown, answers=Answers(first_wrong=shorter))) == text
    alike = replace(shorter, compiled="0.7310585975646971")
    assert title_of(replace(shown, answers=Answers(first_wrong=alike))) == "wrong result of mul with 900000000"
    sized = replace(
        story, reduction=replace(story.reduction, number=of_size), aspects=(Aspect("Tensor subclasses", "", "Q"),)
    )
    assert title_of(sized) == "wrong result of mul with dynamic=True, a tensor subclass"
    error = {"signature": Signature(Kind.COMPILE_ERROR, ("ValueError",), "no"), "error": "ValueError: no"}
    assert title_of(replace(story, in_eager=True, **error)) == "mul fails without torch.compile too: ValueError: no"


def test_an_empty_tensor_is_a_condition_and_a_nan_that_only_eager_has_is_no_wrong_nan() -> None:
    text = program("    y = torch.mean(x)\n    return (y,)\n", ["x = torch.ones(0, 5)"])
    values = FirstWrong("nan", "output 0", "nan", "0.0")
    story = story_of("accuracy", program=text, ablation=None, signature=wrong("nan", "output"), layer=None, aspects=())
    lost = title_of(replace(story, answers=Answers(first_wrong=values)))
    assert lost == "wrong result of mean with an empty tensor: eager nan, compiled 0.0"
    made = replace(values, eager="0.0", compiled="nan")
    assert title_of(replace(story, answers=Answers(first_wrong=made))).startswith("wrong NaN from mean")


def test_a_wrong_form_is_told_with_both_forms_and_no_tolerance() -> None:
    text = program("    y = x.any(1)\n    return (y,)\n", [X])
    seen = Answers(first_wrong=FirstWrong("dtype", "output 0", "torch.uint8", "torch.bool"))
    story = story_of("accuracy", program=text, ablation=None, signature=wrong("dtype", "output"), layer=None)
    story = replace(story, answers=seen, aspects=())
    assert title_of(story) == "wrong dtype from any: eager uint8, compiled bool"
    kinds = Answers(first_wrong=FirstWrong("structure", "output 0", "generator", "tuple_iterator"))
    assert title_of(replace(story, answers=kinds)).endswith(": eager generator, compiled tuple_iterator")
    assert story.expected == "The compiled code gives the same dtype as eager."


def test_an_export_is_told_by_the_script_and_a_message_is_not_cut_inside_brackets() -> None:
    code = "import torch\nfrom torch import nn\n\nclass A(nn.Module):\n    def forward(self, d):\n"
    code += "        e = torch.randn(0)\n        nn.functional.gaussian_nll_loss(e, d, e)\n"
    code += "torch.export.export(A(), (0,))\n"
    error = "GuardOnDataDependentSymNode: Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1))."
    failing = Signature(Kind.DYNAMO_ERROR, ("GuardOnDataDependentSymNode",), "Could not guard on …")
    story = story_of("accuracy", program="", ablation=None, signature=failing, layer=Layer.DYNAMO, level="script")
    story = replace(story, repro=code, error=error, log="", named=("repro.py",), ops=())
    assert title_of(story) == "[dynamo] F.gaussian_nll_loss does not export: Could not guard"
    assert story.call == "torch.export.export"
    longer = replace(story, error="RuntimeError: no size (of two: 1, and 2) is known here, nor elsewhere")
    assert title_of(longer).endswith("does not export: no size (of two: 1, and 2) is known here")


def test_a_private_name_of_many_words_leaves_room_for_the_message() -> None:
    home = "torch.nested._internal.nested_tensor.nested_view_from_values_offsets_lengths"
    body = f"    a = {home}(x, o, None)\n    y = torch.nn.functional.layer_norm(a, [2])\n    return (y,)\n"
    failing = Signature(Kind.COMPILE_ERROR, ("IndexError",), "list index out of range")
    story = story_of("accuracy", program=program(body, [X, "o = torch.arange(2)"]), ablation=None, signature=failing)
    nested = Aspect("Tensor subclasses", "a nested tensor", "a nested tensor")
    story = replace(story, layer=Layer.DYNAMO, error="IndexError: list index out of range", aspects=(nested,))
    told = "F.layer_norm and 1 more operator do not compile: IndexError: list index out of range"
    assert title_of(story) == told


def test_a_message_that_no_short_part_tells_stands_beside_the_operator_that_has_the_bodies() -> None:
    """Not "A subgraph argument other", and not "list index out"."""
    error = "AssertionError: A subgraph argument other than striding has been modified; it cannot be updated!"
    failing = Signature(Kind.COMPILE_ERROR, ("InductorError", "AssertionError"), error.partition(": ")[2])
    body = "\n\ndef body_0(i, y):\n    a = i < 1\n    return a\n"
    body += "\n\ndef body_1(i, y):\n    b = y @ y\n    c = i + 1\n    return (c, b)\n"
    text = program("    w = torch.ops.higher_order.while_loop(body_0, body_1, (0, x), ())\n    return (w[1],)\n", [X])
    text = text.replace("\n\n\ndef graph", f"{body}\n\ndef graph")
    story = story_of("accuracy", program=text, ablation=None, signature=failing)
    told = "while_loop does not compile: A subgraph argument other than striding has been modified"
    assert title_of(replace(story, layer=Layer.INDUCTOR, error=error, aspects=())) == told


def test_an_internal_assert_of_torch_is_told_where_its_condition_is_too_long() -> None:
    error = "RuntimeError: InferenceMode::is_enabled() && self.is_inference() INTERNAL ASSERT FAILED"
    failing = Signature(Kind.DYNAMO_ERROR, ("TorchRuntimeError", "RuntimeError"), error.partition(": ")[2])
    facts = TitleFacts(failing, error, construct="vmap(jacfwd(lambda t, x: x * t))(t, x)", layer=Layer.DYNAMO)
    told = "[dynamo] vmap(jacfwd(lambda t, x: x * t))(t, x) does not compile: INTERNAL ASSERT FAILED"
    assert title(facts) == told


def test_an_export_of_which_no_construct_is_known_fails_with_its_message() -> None:
    error = "UserError: Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs[0]` is no"
    failing = Signature(Kind.DYNAMO_ERROR, ("UserError",), error.partition(": ")[2])
    facts = TitleFacts(failing, error, call="torch.export.export", layer=Layer.EXPORT)
    assert title(facts) == "export fails: Detected mismatch between the structure of `inputs` and `dynamic_shapes`"


def test_where_the_message_alone_tells_what_failed_it_comes_before_a_condition() -> None:
    error = "Unsupported: Invalid call to __build_class__: Cannot trace class definition: the class body"
    signature = Signature(Kind.DYNAMO_ERROR, ("Unsupported",), error.partition(": ")[2])
    facts = TitleFacts(signature, error, conditions=("with fullgraph=True",))
    assert title(facts) == "the compiled function does not compile: Invalid call to __build_class__"
    named = replace(facts, construct="f(x)")
    assert title(named).startswith("f(x) does not compile with fullgraph=True")


def test_a_recompile_limit_is_told_with_the_guard_that_failed_last() -> None:
    log = "[0/8]    function: 'f' (repro.py:3)\n[0/8]    last reason: 0/7: G['b'] == 7      # if b: …\nTraceback"
    limit = Signature(
        Kind.DYNAMO_ERROR, ("Unsupported", "FailOnRecompileLimitHit"), "Hard failure due to fullgraph=True"
    )
    story = story_of("accuracy", program="", ablation=None, signature=limit, layer=Layer.DYNAMO, level="script")
    story = replace(
        story, repro="import torch\ntorch.compile(f, fullgraph=True)()\n", log=log, named=("repro.py",), ops=()
    )
    assert title_of(story) == "[dynamo] recompile limit reached with fullgraph=True: guard G['b'] == 7"
    assert story.expected.startswith("The calls need no more compilations")
    assert title_of(replace(story, log="")) == "[dynamo] recompile limit reached with fullgraph=True"


def test_of_the_users_own_files_the_line_that_fails_is_named() -> None:
    files = (("files/train.py", DYNAMO),)
    signature = Signature(Kind.DYNAMO_ERROR, ("Unsupported",), "no")
    own = {"level": "script", "program": "", "ops": (), "named": ("files/train.py",), "sources": files}
    story = story_of(
        "accuracy", **own, signature=signature, excerpt=Excerpt("files/train.py", 7, "…"), error="Unsupported: no"
    )
    assert "weights.pop(x.shape[0] - 3) does not compile" in title_of(story)
    assert "weights.pop(x.shape[0] - 3) does not compile" in title_of(replace(story, excerpt=None)), "the only call"
    several = DYNAMO.replace("return x +", "return torch.sin(x) + torch.cos(x) +")
    unsure = replace(story, excerpt=None, sources=(("files/train.py", several),))
    assert title_of(unsure) == "[inductor] the compiled function does not compile with dynamic=True: Unsupported: no"
    lost = replace(story, excerpt=None, sources=(("files/train.py", DETERMINISM),), signature=wrong(None))
    assert "torch.use_deterministic_algorithms inside a compiled function is lost" in title_of(lost)


def test_what_torch_defines_is_what_the_probe_takes_for_torchs() -> None:
    tree = ast.parse(embedded("own_operators"))
    (listed,) = [each.value for each in tree.body if isinstance(each, ast.Assign) and "_OF_TORCH" in ast.dump(each)]
    assert {each.value for each in ast.walk(listed) if isinstance(each, ast.Constant)} <= NAMESPACES


def test_a_case_without_a_program_has_a_title_too() -> None:
    named = title_from(wrong("value", "gradient"), Layer.INDUCTOR, Addressee.PYTORCH, ("avg_pool2d",))
    assert named == "[inductor] wrong gradient of avg_pool2d; forward agrees"
    assert title_from(None, None, Addressee.PYTORCH, ()) == "repro.py fails"


def test_of_a_warning_the_title_tells_what_it_says() -> None:
    said = "Dynamo detected a call to a `functools.lru_cache`-wrapped function at 'repro.py:5'. Dynamo ignores it"
    facts = TitleFacts(Signature(Kind.WARNING, ("UserWarning",), said), f"UserWarning: {said}", construct="f()")
    assert headline(facts) == "UserWarning: Dynamo detected a call to a `functools.lru_cache`-wrapped function"
    assert headline(replace(facts, error="UserWarning: old code")) == "compiled f() gives a UserWarning: old code"
