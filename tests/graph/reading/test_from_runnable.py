"""fx_graph_runnable artifacts as programs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.artefact.plain import runnable
from repro_kit.errors import CannotRunError, ReproKitError
from repro_kit.graph import ScalarInput, TensorInput, parse, render, size
from repro_kit.graph.placement import devices_in, on_cpu
from repro_kit.graph.reading.artifact_forms import artifacts_in, operators_in
from repro_kit.graph.reading.artifact_names import renamed
from repro_kit.graph.reading.artifact_sizes import symbol_values
from repro_kit.graph.reading.from_runnable import from_runnable
from repro_kit.recipe import Autocast, ProcessGroup, Recipe

#: As torch 2.13 writes it, less what is between.
ARTIFACT = """
s33 = 2
s69 = 8

import os
os.environ['TORCH_TRACE'] = '/tmp/trace'
os.environ['TORCHINDUCTOR_MAX_AUTOTUNE'] = '1'
os.environ['TORCHINDUCTOR_CACHE_DIR'] = '/tmp/cache'
import torch
from torch import tensor, device
import torch.fx as fx
from math import inf
import torch._inductor.inductor_prims
import torch._inductor.config
torch._inductor.config.triton.store_cubin = False
torch._inductor.config.post_grad_custom_pre_pass = some.function
torch._functorch.config.unlift_effect_tokens = True
class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer('_tensor_constant0', torch.randn([2], dtype=torch.float32))

    def forward(self, primals_1, primals_2, arg0_1, arg1_1, arg2_1, le):
        _tensor_constant0 = self._tensor_constant0
        permute = torch.ops.aten.permute.default(arg0_1, [1, 0]);  arg0_1 = None
        view = torch.ops.aten.view.default(permute, [primals_1, 4]);  permute = None
        seeds = torch.ops.prims.inductor_seeds.default(1, device(type='cpu'))
        where = torch.ops.aten.where.self(le, view, inf);  le = view = None
        return (where, arg1_1, None, seeds)

def load_args(reader):
    reader.symint(2, expr='s33')  # primals_1
    reader.const('primals_2')  # primals_2, filtered out during compilation
    buf0 = reader.storage(None, 12*s69**2*(s33 - 1))
    reader.tensor(buf0, (s33, Max(1, s69 - 2)), (2*s69, 2), is_leaf=True)  # arg0_1
    buf1 = reader.storage(None, 80, device=device(type='cuda', index=0), dtype_hint=torch.float16)
    reader.tensor(buf1, (3, 2), dtype=torch.float16, storage_offset=4, is_leaf=True)  # arg1_1
    reader.tensor(buf1, (8,), dtype=torch.float16, is_leaf=True)  # arg2_1
    buf2 = reader.storage(None, 5, dtype_hint=torch.bool)
    reader.tensor(buf2, (s33, 4), dtype=torch.bool, is_leaf=True)  # le
load_args._version = 0
mod = Repro()
if __name__ == '__main__':
    from torch._dynamo.repro.after_aot import run_repro
"""


def test_what_an_artifact_means():
    program = from_runnable(ARTIFACT)
    config = {"inductor.triton.store_cubin": False, "functorch.unlift_effect_tokens": True}
    env = {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
    assert program.recipe == Recipe(grad_mode="no_grad", dynamic=True, config=config, check=False, env=env)
    assert program.imports == ("import torch._inductor.inductor_prims",)
    assert program.graph.returns.text == "(where, arg1_1, None, seeds)"
    assert size(program) == 4
    assert program.graph.params[-1] == "constant_tensor_constant0" == program.calls[0][-1]
    assert [input_.line for input_ in program.inputs] == [
        "primals_1 = 2",
        "primals_2 = None",
        "arg0_1 = torch.randn(27).as_strided((2, 6), (16, 2))",
        "buf1 = torch.randn(10, dtype=torch.float16, device='cuda:0')",
        "arg1_1 = buf1.as_strided((3, 2), (2, 1), 4)",
        "arg2_1 = buf1.as_strided((8,), (1,))",
        "le = torch.zeros(2, 4, dtype=torch.bool)",
        "constant_tensor_constant0 = torch.randn(2, dtype=torch.float32)",
    ]
    assert parse(render(program)) == program


def test_the_process_group_and_device_meshes_of_an_artifact():
    text = ARTIFACT.replace("reader.const('primals_2')", "reader.opaque('torch.distributed.device_mesh.DeviceMesh')")
    text = text.replace("return (where", "t = torch.ops._c10d_functional.wait_tensor.default(where)\n        return (t")
    text = text.replace("where.self(le, view, inf)", "_c10d_functional.all_reduce.default(view, 'sum', '3')")
    text = text.replace("torch.ops.aten._c10d", "torch.ops._c10d")
    program = from_runnable(text + "    setup_fake_process_groups({'3': {'size': 4, 'rank': 1}})\n")
    assert program.recipe.group == ProcessGroup(4, rank=1)
    assert "all_reduce.default(view, 'sum', '0')" in render(program)
    assert "primals_2 = None" in [input_.line for input_ in program.inputs]


def test_groups_that_a_script_does_not_set_up_get_the_size_that_the_collectives_say():
    reduced = "torch.ops._c10d_functional.all_reduce.default(permute, 'avg', '7')"
    gathered = "torch.ops._c10d_functional.all_gather_into_tensor.default(permute, 4, '7')"
    for call, ranks in ((reduced, 2), (gathered, 4)):
        program = from_runnable(ARTIFACT.replace("torch.ops.aten.view.default(permute, [primals_1, 4])", call))
        assert program.recipe.group == ProcessGroup(ranks, rank=0)
        assert call.replace("'7'", "'0'") in render(program)
    assert from_runnable(ARTIFACT).recipe.group is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("class Repro", "class Other", "no class Repro"),
        ("def forward", "def backward", "no forward"),
        ("self._tensor_constant0\n", "self.true_graph_0\n", "self.true_graph_0"),
        ("reader.symint(2, expr='s33')", "reader.unsupported('x')", "kind unsupported"),
        ("s69 - 2)", "s12 - 2)", "s12"),
        ("reader.const('primals_2')", "pass", "fewer arguments"),
        ("torch.ops.prims.inductor_seeds", "torch.ops.higher_order.triton_kernel_wrapper_mutation", "Triton kernels"),
        ("def load_args(reader):", "def load_args(reader:", r"not valid Python \(line \d+: def load_args"),
    ],
)
def test_what_cannot_be_carried_is_said(old, new, message):
    assert old in ARTIFACT
    with pytest.raises(ReproKitError, match=message):
        from_runnable(ARTIFACT.replace(old, new, 1))


@pytest.mark.torch
@pytest.mark.slow
def test_artifacts_of_a_real_trace_run_by_themselves(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())\n"
        "torch.compile(model, dynamic=True)(torch.randn(5, 4)).sum().backward()\n"
    )
    environment = {"TORCH_TRACE": str(tmp_path / "trace"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    environment["TORCHINDUCTOR_VEC_ISA_OK"] = "1"  # without test libraries for the CPU
    subprocess.run([sys.executable, script], check=True, env=environment, cwd=tmp_path)
    (log,) = (tmp_path / "trace").glob("*.log")
    artifacts = [text for text in _payloads(log.read_text()) if "class Repro" in text and "load_args" in text]
    assert len(artifacts) == 2  # forward and backward
    for artifact in artifacts:
        program = from_runnable(artifact)
        assert size(program) > 3
        (tmp_path / "program.py").write_text(runnable(program))
        run = subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
        )
        assert run.returncode == 0, run.stderr
        assert "eager and compiled code raise nothing" in run.stdout


def _payloads(log: str) -> list[str]:
    payloads: list[list[str]] = []
    for line in log.splitlines():
        if line.startswith("\t"):
            payloads[-1].append(line[1:])
        else:
            payloads.append([])
    return ["\n".join(lines) for lines in payloads]


DYNAMO = """
import torch
from math import inf
import torch._inductor.config
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'
class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()

    def forward(self, L_x_ : torch.Tensor):
        l_x_ = L_x_
        relu = torch.relu(l_x_);  l_x_ = None
        return (relu,)

mod = Repro()

def load_args(reader):
    buf0 = reader.storage('0123abcd', 40)
    reader.tensor(buf0, (10,), requires_grad=True)  # L_x_
load_args._version = 0

if __name__ == '__main__':
    from torch._dynamo.repro.after_dynamo import run_repro
    run_repro(mod, load_args, accuracy=True, command='run', save_dir=None, autocast=True, backend='aot_eager')
"""


def test_what_a_script_of_dynamo_s_graph_means():
    program = from_runnable(DYNAMO)
    assert program.recipe == Recipe(
        backend="aot_eager",
        backward="sum",
        autocast=Autocast(),
        config={"inductor.cpp.inject_relu_bug_TESTING_ONLY": "accuracy"},
    )
    assert [statement.text for statement in program.graph.statements][-1] == "torch.relu(l_x_)"
    assert "requires_grad_()" in render(program)


def test_values_at_hand_are_loaded():
    program = from_runnable(DYNAMO, ["0123abcd"])
    (line,) = program.inputs
    assert line.line == 'L_x_ = load("buf0_0123abcd.pt").requires_grad_()'
    assert (line.data.sizes, program.stored) == ((10,), ("buf0_0123abcd.pt",))
    shared = ARTIFACT.replace("storage(None, 80", "storage('ef', 80")
    lines = render(from_runnable(shared, ["ef"]))
    assert 'buf1 = load("buf1_ef.pt")' in lines
    assert "arg1_1 = buf1.as_strided((3, 2), (2, 1), 4)" in lines


def test_bodies_that_are_classes_of_the_text_become_functions():
    text = """
import torch
class Body_a_b(torch.nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x: 'f32[2]'):
        y = torch.ops.aten.sin.default(x);  x = None
        return (y,)
class Body_a(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.b = Body_a_b()
    def forward(self, x):
        b = self.b
        y = torch.ops.higher_order.wrap(b, x);  b = x = None
        return (y[0],)
class Repro(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Body_a()
    def forward(self, x):
        a = self.a
        y = torch.ops.higher_order.cond(True, a, self.a, (x,));  a = x = None
        return (y[0],)
def load_args(reader):
    buf0 = reader.storage(None, 8)
    reader.tensor(buf0, (2,), is_leaf=True)
"""
    program = from_runnable(text)
    assert [body.name for body in program.bodies] == ["body_a_b", "body_a"]
    assert program.graph.statements[0].text == "torch.ops.higher_order.cond(True, body_a, body_a, (x,))"
    assert "wrap(body_a_b, x)" in program.bodies[1].statements[0].text
    assert parse(render(program)) == program


def test_a_body_with_tensors_of_its_own_is_refused():
    text = """
class Body_a(torch.nn.Module):
    def forward(self, x):
        y = torch.ops.aten.add.Tensor(x, self._tensor_constant0)
        return (y,)
class Repro(torch.nn.Module):
    def __init__(self):
        self.a = Body_a()
    def forward(self, x):
        a = self.a
        return (a,)
def load_args(reader):
    buf0 = reader.storage(None, 8)
    reader.tensor(buf0, (2,), is_leaf=True)
"""
    with pytest.raises(ReproKitError, match="The body Body_a of the artifact has its own tensors"):
        from_runnable(text)


#: As torch 2.0 writes it, less what is between.
OF_TORCH_2_0 = """
import torch
from torch._dynamo.testing import rand_strided
from torch.fx.experimental.proxy_tensor import make_fx
torch._inductor.config.load_config(b'1')
class Repro(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, arg0_1, arg1_1, arg2_1):
        add = torch.ops.aten.add.Tensor(arg0_1, arg1_1);  arg0_1 = arg1_1 = None
        return (add, arg2_1)

args = [((4, 8), (1, 4), torch.float16, 'cuda'), ((8,), (1,), torch.int64, 'cpu')]
args = [rand_strided(sh, st, dt, dev) for (sh, st, dt, dev) in args]
args.append(rand_strided((), (), torch.float32, 'cuda'))
mod = make_fx(Repro(), tracing_mode='real')(*args)
from torch._inductor.compile_fx import compile_fx_inner
compiled = compile_fx_inner(mod, args)
ref = compiled(args)
"""


def test_what_an_aten_graph_of_torch_2_0_means():
    program = from_runnable(OF_TORCH_2_0)
    assert program.recipe == Recipe(grad_mode="no_grad", check=False)
    assert from_runnable(OF_TORCH_2_0 + "same_two_models(mod, compiled, args)\n").recipe.check
    assert [input_.line for input_ in program.inputs] == [
        "arg0_1 = torch.randn(32, dtype=torch.float16, device='cuda').as_strided((4, 8), (1, 4))",
        "arg1_1 = torch.zeros(8, dtype=torch.int64, device='cpu')",
        "arg2_1 = torch.randn((), device='cuda')",
    ]


#: As the minifier of torch 2.0 writes a graph of Dynamo's, which calls modules.
DYNAMO_OF_TORCH_2_0 = """
import torch
import torch._dynamo
from torch._dynamo.testing import rand_strided
from torch._dynamo.debug_utils import run_fwd_maybe_bwd
args = [((2, 4), (4, 1), torch.float32, 'cuda', True)]
args = [rand_strided(sh, st, dt, dev).requires_grad_(rg) for (sh, st, dt, dev, rg) in args]
from torch.nn import *
class Repro(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.self_linear = Linear(in_features=4, out_features=4, bias=True)
        self.self_scale = torch.nn.Parameter(torch.randn([4], dtype=torch.float32))

    def forward(self, x : torch.Tensor):
        self_linear = self.self_linear(x);  x = None
        self_scale = self.self_scale
        mul = self_linear * self_scale;  self_linear = self_scale = None
        return (mul,)

mod = Repro().cuda()
opt_mod = torch._dynamo.optimize("inductor")(mod)
with torch.cuda.amp.autocast(enabled=False):
    res = run_fwd_maybe_bwd(opt_mod, args)
"""


def test_the_backend_of_torch_2_0_and_a_module_that_is_moved_within_a_call():
    toy = from_runnable(DYNAMO_OF_TORCH_2_0.replace('optimize("inductor")', 'optimize("toy_compiler")'))
    assert toy.recipe.backend == "toy_compiler"
    moved = DYNAMO_OF_TORCH_2_0.replace("Repro().cuda()", 'make_fx(Repro().to(device="cuda"))(*args)')
    program = from_runnable(moved)
    assert program.inputs[2].line.endswith("dtype=torch.float32)).to(device='cuda')")
    assert devices_in(program) == {"cuda"}


@pytest.mark.torch
@pytest.mark.slow
def test_a_graph_of_dynamo_s_of_torch_2_0_keeps_its_modules(python_in_forks: Path, tmp_path: Path):
    program = from_runnable(DYNAMO_OF_TORCH_2_0)
    assert program.recipe == Recipe(backward="sum", check=False)
    assert [input_.line for input_ in program.inputs] == [
        "x = torch.randn(2, 4, device='cuda').requires_grad_()",
        "constant_self_linear = torch.nn.Linear(in_features=4, out_features=4, bias=True).cuda()",
        "constant_self_scale = torch.nn.Parameter(torch.randn([4], dtype=torch.float32)).cuda()",
    ]
    assert devices_in(program) == {"cuda"}
    path = tmp_path / "program.py"
    path.write_text(runnable(on_cpu(program.with_(recipe=Recipe(backend="eager")), ["cuda"])))
    ended = subprocess.run([python_in_forks, str(path)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_symbols_without_values_are_the_sizes_among_the_arguments():
    text = ARTIFACT.replace("s33 = 2\ns69 = 8\n", "").replace(
        "reader.const('primals_2')  # primals_2, filtered out during compilation", "reader.symint(8)  # primals_2"
    )
    lines = [input_.line for input_ in from_runnable(text).inputs]
    assert "arg0_1 = torch.randn(27).as_strided((2, 6), (16, 2))" in lines


@pytest.mark.parametrize(
    "given",
    ["reader.generator('cuda', 0)", "# seed was unsupported type for dumping: <class 'torch._C.Generator'>"],
)
def test_operators_with_the_state_of_a_generator_are_called_by_themselves(given: str):
    text = f"""
class Repro(torch.nn.Module):
    def forward(self, x, seed):
        run = torch.ops.higher_order.graphsafe_run_with_rng_state(torch.ops.aten.relu.default, x, rng_state = seed)
        return (run,)

def load_args(reader):
    buf0 = reader.storage(None, 16)
    reader.tensor(buf0, (4,), is_leaf=True)  # x
    {given}
"""
    program = from_runnable(text)
    assert [statement.text for statement in program.graph.statements] == ["torch.ops.aten.relu.default(x)"]
    assert "seed = None" in [input_.line for input_ in program.inputs]


def test_values_of_eight_bits_are_not_random():
    text = ARTIFACT.replace("dtype=torch.float16", "dtype=torch.float8_e4m3fn")
    lines = [input_.line for input_ in from_runnable(text).inputs]
    assert "buf1 = torch.ones(10, dtype=torch.float8_e4m3fn, device='cuda:0')" in lines


def test_what_torch_writes_that_is_no_python_is_mended():
    program = from_runnable(f"8*s33 = 16\nMax(1, s69 - 2) = 6\n{ARTIFACT}")
    assert program == from_runnable(ARTIFACT)
    assert from_runnable(f"\ufeff```python\n{ARTIFACT}```\n") == from_runnable(ARTIFACT)  # copied out of a text
    without = from_runnable(
        "class Repro(torch.nn.Module):\n    def forward(self):\n        ones = torch.ones(2)\n        return (ones,)\n"
        "def load_args(reader):\nload_args._version = 0\n"
    )
    assert without.inputs == () and without.calls == ((),)


def test_the_trees_of_an_exported_graph_are_unpacked():
    packed = """
class Repro(torch.nn.Module):
    def forward(self):
        arg0_1, arg1_1, = fx_pytree.tree_flatten_spec([], self._in_spec)
        add = torch.ops.aten.add.Tensor(arg0_1, arg1_1);  arg0_1 = arg1_1 = None
        return pytree.tree_unflatten([add], self._out_spec)

def load_args(reader):
    buf0 = reader.storage(None, 8)
    reader.tensor(buf0, (2,), is_leaf=True)  # arg0_1
    buf1 = reader.storage(None, 4)
    reader.tensor(buf1, (1,), is_leaf=True)  # arg1_1
"""
    program = from_runnable(packed)
    assert (program.graph.params, program.graph.returns.text) == (("arg0_1", "arg1_1"), "[add]")
    assert [input_.line for input_ in program.inputs] == ["arg0_1 = torch.randn(2)", "arg1_1 = torch.randn(1)"]


def test_what_registers_the_operators_of_others_is_kept():
    text = """
import os
import torch
import fbgemm_gpu
from torch.nn import *
SCALE = 2
torch.ops.load_library("ops.so")
@torch.library.custom_op("mylib::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE
double.register_fake(torch.empty_like)
class Repro(torch.nn.Module):
    def forward(self, x):
        y = torch.ops.mylib.double.default(x)
        return (y,)

def load_args(reader):
    buf0 = reader.storage(None, 8)
    reader.tensor(buf0, (2,), is_leaf=True)  # x
load_args._version = 0
mod = Repro()
"""
    program = from_runnable(text)
    assert program.imports == ("import fbgemm_gpu",)
    for words in ("SCALE = 2", "load_library", "custom_op('mylib::double'", "double.register_fake(torch.empty_like)"):
        assert words in program.preamble
    assert parse(render(program)) == program
    own = from_runnable(text.replace("mylib.double", "aten.relu"))
    assert (own.imports, own.preamble) == ((), "")


def test_torch_s_own_lists_among_the_settings_are_left_out():
    own = "torch._dynamo.config.skipped = {'a'}\ntorch._inductor.config._save_config_ignore = ['x']\n"
    assert from_runnable(own + ARTIFACT).recipe == from_runnable(ARTIFACT).recipe


def with_lines(*forward: str, top: str = "", init: str = "") -> str:
    """An artifact of one argument."""
    body = "".join(f"        {line}\n" for line in forward)
    return (
        "import torch\nfrom torch import tensor, device\nfrom math import inf\nfrom torch.nn import *\n"
        f"{top}\nclass Repro(torch.nn.Module):\n    def __init__(self) -> None:\n        super().__init__()\n{init}\n"
        f"    def forward(self, x):\n{body}\ndef load_args(reader):\n"
        "    buf0 = reader.storage(None, 8)\n    reader.tensor(buf0, (2,), is_leaf=True)\nmod = Repro()\n"
    )


@pytest.mark.parametrize("setting", ["self.register_buffer('c', tensor(2))", "self.c = tensor([1, 2])"])
def test_a_small_tensor_that_torch_prints_by_its_short_name(setting: str) -> None:
    program = from_runnable(with_lines("c = self.c", "return (c * x,)", init=f"        {setting}"))
    assert "constant_c = torch.tensor(" in render(program)


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ("math_ceil(2.5)", "from math import ceil as math_ceil"),
        ("operator_add(1, 2)", "from operator import add as operator_add"),
        ("sym_max(1, 2)", "from torch import sym_max"),
        ("tensor(3)", "from torch import tensor, device"),
        ("pytree.tree_leaves(x)", "import torch.utils._pytree as pytree"),
        ("Linear(2, 2)", "from torch.nn import Linear"),
        ("mine.f(x)", "import somewhere.mine as mine"),
    ],
)
def test_names_that_are_imported_or_left_out_are_supplied(expression: str, line: str) -> None:
    program = from_runnable(with_lines(f"y = {expression}", "return (y,)", top="import somewhere.mine as mine"))
    assert program.imports == (line,)
    assert parse(render(program)).imports == (line,)


def test_what_the_artifact_defines_goes_with_the_graph() -> None:
    top = "import math\nscale = 3\n\ndef other():\n    pass\n\ndef twice(x):\n    return math.floor(x * scale)\n"
    program = from_runnable(with_lines("y = twice(len(x))", "z = x + inf", "return (y, z)", top=top))
    assert program.preamble == "scale = 3\n\n\ndef twice(x):\n    return math.floor(x * scale)"
    assert program.imports == ("import math",)


def test_a_name_that_nothing_supplies_is_told() -> None:
    with pytest.raises(CannotRunError, match="uses lost, other_lost, which it neither defines nor imports"):
        from_runnable(with_lines("y = lost(x, other_lost)", "return (y,)"))


def test_sizes_in_words_of_python_and_sympy() -> None:
    sizes = "(math_ceil(s0 / 2), OpaqueUnaryFn_sqrt(s1), Abs(-s0), RoundToInt(2.6))"
    text = with_lines("return (x,)").replace("(2,)", sizes)
    program = from_runnable(f"s0 = 3\ns1 = 16\n{text}")
    assert program.inputs[0].line == "x = torch.randn(2, 4, 3, 3)"
    with pytest.raises(ReproKitError, match="A size cannot be evaluated"):
        from_runnable(f"s0 = 0\ns1 = 1\n{text.replace('s0 / 2', '2 % s0')}".replace("math_ceil(2 % s0)", "Mod(2, s0)"))


CORPUS = Path(__file__).parent / "artefacts"
#: Bodies that torch wrote as ``<lambda>()`` or ``GraphModule()`` before 2.14.
WITHOUT_BODIES = {("2.5.1", "branches"), ("2.13.0", "branches")}


def corpus() -> list[tuple[str, str, str]]:
    """(version of torch, "runnable PROGRAM" or "launcher PROGRAM", text) of scripts/record_artefacts.py."""
    found = []
    for file in sorted(CORPUS.glob("*.txt")):
        _, *parts = re.split(r"^##### (.*)\n", file.read_text(), flags=re.MULTILINE)
        found += [(file.stem, title, text) for title, text in zip(parts[::2], parts[1::2], strict=True)]
    return found


def test_what_each_torch_writes_is_read_or_the_reason_is_said() -> None:
    assert len(corpus()) >= 60
    for version, title, text in corpus():
        name = title.split()[1]
        if (version, name) in WITHOUT_BODIES:
            with pytest.raises(CannotRunError, match=r"lacks the bodies of its operators .*TORCH_TRACE"):
                from_runnable(text)
            continue
        program = from_runnable(text)
        assert parse(render(program)) == program, (version, title)
        numbers = [line.value for line in program.inputs if isinstance(line, ScalarInput)]
        assert None not in numbers, (version, title)
        if name == "sizes":
            shapes = [line.shape for line in program.inputs if isinstance(line, TensorInput)]
            assert sorted(shapes, key=str) == [(1, 3, 6, 8), (5,)], (version, title)


def test_sizes_that_the_printer_of_2_15_writes_are_evaluated() -> None:
    text = ARTIFACT.replace("12*s69**2*(s33 - 1)", "4*math.ceil(s69 / 3)*math.trunc(s33)")
    text = text.replace("(s33, Max(1, s69 - 2)), (2*s69, 2)", "(math.ceil(s69 / 3), 6)")
    program = from_runnable(text)
    assert [line.shape for line in program.inputs if line.line.startswith("arg0_1")] == [(3, 6)]  # type: ignore[union-attr]


REPEATS = """
import torch
class Repro(torch.nn.Module):
    def forward(self, x, times, total):
        return (torch.ops.aten.repeat_interleave.Tensor(times, output_size = total), x)

def load_args(reader):
    buf0 = reader.storage(None, 16, dtype_hint=torch.complex64)
    reader.tensor(buf0, (2,), dtype=torch.complex64, conj=True, is_leaf=True)  # x
    buf1 = reader.storage(None, 24, dtype_hint=torch.int64)
    reader.tensor(buf1, (3,), dtype=torch.int64, is_leaf=True)  # times
    reader.symint(8)  # total
    # Fixup: ensure sum(repeats) == output_size for repeat_interleave
    if hasattr(reader, 'args'):
        _repeats = reader.args[1]
        _output_size = reader.args[2]
        if isinstance(_repeats, torch.Tensor) and _repeats.dtype == torch.int64:
            _n = _repeats.numel()
            _repeats.fill_(_output_size // _n)
            _repeats[:_output_size % _n] += 1
load_args._version = 0
mod = Repro()
"""


def test_values_that_must_fit_and_bits_of_values_are_kept() -> None:
    lines = {line.line for line in from_runnable(REPEATS).inputs}
    assert "times = torch.tensor([3, 3, 2], dtype=torch.int64)" in lines
    assert "x = torch.randn(2, dtype=torch.complex64).conj()" in lines


def test_a_graph_that_says_the_size_of_what_is_repeated_gets_values_that_fit() -> None:
    for version, title, text in corpus():
        if title == "launcher repeated":
            lines = [line.line for line in from_runnable(text).inputs]
            assert [line for line in lines if "torch.tensor([3, 3], dtype=torch.int64)" in line], (version, lines)


def test_a_module_on_a_device_is_no_lost_name() -> None:
    made = 'super().__init__()\n        self.lin = Linear(10, 3).to("cuda:0")\n'
    text = DYNAMO.replace("super().__init__()\n", made, 1).replace("torch.relu(l_x_)", "self.lin(l_x_)")
    assert "constant_lin = torch.nn.Linear(10, 3).to('cuda:0')" in render(from_runnable(text))


def test_a_graph_with_kernels_of_the_user_s_is_for_their_gpu() -> None:
    launch = "torch.ops.higher_order.triton_kernel_wrapper_functional(kernel_idx = 0)"
    text = REPEATS.replace("        return (torch", f"        y = {launch}\n        return (torch")
    with pytest.raises(CannotRunError, match=r"^GPU only: the graph calls Triton kernels of the user's own"):
        from_runnable(text)


def test_several_artifacts_in_one_text_are_told_apart() -> None:
    for version in ("2.5.1", "2.13.0", "2.15.0"):
        texts = [text for number, title, text in corpus() if number == version and "branches" not in title]
        parts = artifacts_in("\n".join(texts))
        assert [from_runnable(part) for part in parts] == list(map(from_runnable, texts))
    headless = "\n".join([REPEATS, *REPEATS.split("import torch\n")[1:]])
    assert [from_runnable(part) for part in artifacts_in(headless)] == [from_runnable(REPEATS)] * 2
    assert operators_in(REPEATS) == ("repeat_interleave",)
    assert operators_in(DYNAMO.replace("torch.relu(l_x_)", "l_x_.expand_as(l_x_)")) == ("expand_as",)


def test_arguments_that_a_reader_at_the_top_makes() -> None:
    head, calls = REPEATS.split("def load_args(reader):\n")
    lines = [line.strip() for line in calls.splitlines() if "reader.storage" in line or "reader.tensor" in line]
    made = "\n".join(line.replace("reader.", "inputs.") for line in [*lines, "reader.symint(8)"])
    text = f"{head}from torch._dynamo.debug_utils import InputReader\ninputs = InputReader()\n{made}\nmod = Repro()\n"
    assert [line.line for line in from_runnable(text).inputs if "times" not in line.line] == [
        line.line for line in from_runnable(REPEATS).inputs if "times" not in line.line
    ]


def test_an_operator_that_torch_renamed_has_its_other_name() -> None:
    old = "a = torch.ops.prims._low_memory_max_pool2d_with_offsets.default(x, [2, 2], [2, 2], [0, 0], [1, 1], False)"
    lost = "AttributeError: '_OpNamespace' 'prims' object has no attribute '_low_memory_max_pool{}_with_offsets'"
    new = renamed(old, lost.format("2d"))
    assert new == old.replace("pool2d", "pool")
    assert renamed(new, lost.format("")) == old
    assert renamed(old, "NameError: name 'x' is not defined") == ""
    assert renamed(old, "") == ""
    written = next(text for version, title, text in corpus() if (version, title) == ("2.5.1", "runnable pooled"))
    assert renamed(render(from_runnable(written)), lost.format("2d"))


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        # As torch 2.3 writes a graph with two numbers that are no size of any tensor.
        (["symint(3)", "symint(500)", "symint(400)", "(1, s0, s1, s2)", "symint(300)", "symint(256)"],
         {"s0": 3, "s1": 500, "s2": 400}),
        (["symint(7)", "symint(5)", "(s0, 4)", "symint(9)", "(s3, s0)"], {"s0": 5, "s3": 9}),
        (["symint(893092)", "(s38, 4)"], {"s38": 893092}),
        (["symint(2)", "symint(3)", "symint(4)", "(s0,)", "(s1,)"], {"s0": 2, "s1": 3}),  # a backward
    ],
)  # fmt: skip
def test_symbols_among_other_numbers_have_the_nearest_values(lines: list[str], values: dict[str, int]) -> None:
    calls = [f"reader.{line}" if line.startswith("symint") else f"reader.tensor(buf0, {line})" for line in lines]
    load_args = ast.parse("def load_args(reader):\n" + "".join(f"    {call}\n" for call in calls)).body[0]
    assert isinstance(load_args, ast.FunctionDef)
    assert symbol_values(ast.parse(""), load_args) == values


def test_a_size_whose_value_the_artifact_lacks_is_named() -> None:
    text = REPEATS.replace("(3,), dtype=torch.int64", "(s7,), dtype=torch.int64")
    with pytest.raises(CannotRunError, match=r"does not hold the value of the size s7; .*\(s7 = 8\)"):
        from_runnable(text.replace("reader.symint(8)", "reader.const('total')"))
    with pytest.raises(CannotRunError, match="the size total, which depended on data"):
        from_runnable(REPEATS.replace("symint(8)", "symint(None)"))
    assert from_runnable("s7 = 3\n" + text)


def test_a_graph_that_returns_nothing() -> None:
    text = REPEATS.replace(
        "return (torch.ops.aten.repeat_interleave.Tensor(times, output_size = total), x)", "return ()"
    )
    assert from_runnable(text).graph.returns


BODIES = """import torch
from torch import tensor
class true_0_0(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer('k', tensor(2))
    def forward(self, a):
        k = self.k
        mul = torch.ops.aten.mul.Tensor(a, k)
        return (mul,)
class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer('none', tensor([], size=(0, 4), dtype=torch.int64))
        self.true_0 = true_0_0()
    def forward(self, x):
        true_0 = self.true_0
        none = self.none
        cond = torch.ops.higher_order.cond(True, true_0, true_0, (x,))
        getitem = cond[0]
        return (getitem, none)
def load_args(reader):
    buf0 = reader.storage(None, 16)
    reader.tensor(buf0, (4,), is_leaf=True)  # x
mod = Repro()
"""


def test_small_tensors_of_a_body_and_tensors_without_elements() -> None:
    text = render(from_runnable(BODIES))
    assert "def true_0_0(a):\n    k = torch.tensor(2)" in text
    assert "constant_none = torch.empty(0, 4, dtype=torch.int64)" in text
    with pytest.raises(ReproKitError, match="true_0_0 of the artifact has its own tensors"):
        from_runnable(BODIES.replace("tensor(2)", "torch.randn([8])"))


def test_an_argument_that_only_a_comment_names() -> None:
    text = REPEATS.replace("reader.symint(8)  # total", "# total was unsupported type for dumping: <class 'list'>")
    with pytest.raises(ReproKitError, match="Input total of the artifact is of kind unsupported"):
        from_runnable(text)
