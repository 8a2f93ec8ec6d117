"""What a program changes in torch is put back before each compile; what torch itself registers stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.runner.supervised import PROBE

#: Programs that make Dynamo or AOTAutograd (which need no native compiler) compute another thing, one of each kind.
CHANGES = {
    "kernels": """
@torch.ops.aten.relu.default.py_impl(torch._C.DispatchKey.Autograd)
def mine(x):
    return torch.neg(x)

x.requires_grad_()
compiled = torch.compile(torch.relu, backend="aot_eager")
right = [torch.relu(x)]
""",
    "decompositions": """
from torch._inductor.decomposition import register_decomposition

@register_decomposition([torch.ops.aten.relu.default])
def mine(x):
    return torch.neg(x)

compiled = torch.compile(torch.relu, backend="aot_eager_decomp_partition")
right = [torch.relu(x)]
""",
    "calls": """
functional, exact = torch.nn.functional, torch.nn.functional.relu6

def mine(x):
    return torch.neg(x)

compiled = torch.compile(lambda x: functional.relu6(x), backend="eager")
right = [exact(x)]
functional.relu6 = mine
""",
    "functions": """
import torch._functorch.aot_autograd as aot
from torch._dynamo.output_graph import OutputGraph
call = OutputGraph.call_user_compiler

def mine(self, gm, *arguments):
    for node in gm.graph.nodes:
        node.target = torch.neg if node.target is torch.relu else node.target
    gm.recompile()
    return call(self, gm, *arguments)

OutputGraph.call_user_compiler = mine
compiled = torch.compile(torch.relu, backend="eager")
right = [torch.relu(x)]
""",
    "marks": """
from torch.compiler import assume_constant_result

calls = []

@assume_constant_result
def count():
    calls.append(1)
    return len(calls)

compiled = torch.compile(lambda x: x * count(), backend="eager")
right = [x * 1, x * 2]
""",
    "passes": """
def mine(graph):
    raise RuntimeError

config = torch._inductor.config
config.post_grad_custom_pre_pass = mine
torch.compile(torch.neg, backend="eager")(x)  # no native compiler: it is looked at which settings are left
given = torch._TorchCompileInductorWrapper(None, {"joint_custom_post_pass": mine, "max_fusion_size": 7}, False).config
compiled = lambda x: x + (mine in (config.post_grad_custom_pre_pass, given.get("joint_custom_post_pass")))
right = [x if given["max_fusion_size"] == 7 else -x]
""",
}
#: Promises that the program makes by settings and does not keep. Frozen weights need Inductor, but no native compiler.
SETTINGS = """
config = torch._inductor.config
config.cpp.enable_unsafe_math_opt_flag = True
torch.compile(torch.neg, backend="eager")(x)  # no native compiler: it is looked at which settings are left
options = {"cpp.enable_unsafe_math_opt_flag": True, "max_fusion_size": 7}
given = torch._TorchCompileInductorWrapper(None, options, False).config
compiled = lambda x: x + (config.cpp.enable_unsafe_math_opt_flag or len(given) == 2)
right = [x if given["max_fusion_size"] == 7 else -x]
"""
FROZEN = """
torch._inductor.config.freezing = True
torch.set_grad_enabled(False)
model = torch.nn.Linear(2, 2, bias=False)
model.weight[0, 0] = float("nan")
compiled_once = torch.compile(model)
compiled_once(x)
model.weight.data = torch.eye(2)
compiled, right = compiled_once, [x]
"""
#: Freezing itself is wrong, and no weight changes.
WRONGLY_FROZEN = """
from torch._inductor import freezing
fold = freezing.constant_fold

def mine(graph):
    for node in graph.graph.find_nodes(op="get_attr"):
        setattr(graph, node.target, getattr(graph, node.target) * 2)
    fold(graph)

freezing.constant_fold = mine
torch._inductor.config.freezing = True
torch.set_grad_enabled(False)
model = torch.nn.Linear(2, 2, bias=False)
compiled, right = torch.compile(model), [model(x)]
"""
#: What the program's own `__torch_dispatch__` keeps, in ways that differ in how they are reached.
COUNTS = """
import itertools
from torch.utils._pytree import tree_map
numbers, kept, last, calls = itertools.count(1), {}, 0, []

def noted(function, out):
    global last
    last += 1
    calls.append(function)
    Mine.seen = getattr(Mine, "seen", 0) + 1
    kept[function] = kept.get(function, 0) + 1
    return out * (next(numbers) + last + len(calls) + Mine.seen + kept[function])

class Mine(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(tensors, context, size, stride):
        return Mine(tensors["inner"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        out = function(*tree_map(lambda a: a.inner if isinstance(a, Mine) else a, args), **(kwargs or {}))
        return Mine(noted(function, out)) if isinstance(out, torch.Tensor) else out

def own(x):
    return x.sin() + 1

right = [own(Mine(x)).inner]
compiled_own = torch.compile(own, backend="aot_eager")
compiled = lambda x: compiled_own(Mine(x)).inner
"""
MODE = """
from torch.utils._python_dispatch import TorchDispatchMode

class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.steps += 1
        return function(*args, **(kwargs or {})) * self.steps

mode = Counting()

def compiled(x):  # newer torch compiles nothing in a mode
    with mode:
        return x.sin() + 1

right = [compiled(x)]
"""
LOGS = """
seen, written, total = [], [], torch.zeros(())

@torch.library.custom_op("mine::log", mutates_args=())
def log(x: torch.Tensor) -> torch.Tensor:
    seen.append(x)
    total.add_(1)
    return x * len(seen) * total

log.register_fake(torch.empty_like)

@torch.library.custom_op("mine::twice", mutates_args=(), device_types="cuda")
def twice(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError

@twice.register_kernel("cpu")
def _(x):
    seen.append(x)
    return x * len(seen) * 2

twice.register_fake(torch.empty_like)

@torch.library.custom_op("mine::writes", mutates_args=("x",))
def writes(x: torch.Tensor) -> None:
    written.append(x)

def own(x):
    return log(x) + twice(x)

writes(x)
right = [own(x)] if written else [None]  # an operator that says that it writes keeps what it writes
compiled = torch.compile(own, backend="eager")
"""
#: A function is changed while something is compiled.
CALLED_BACK = """
from torch._dynamo.callback import on_compile_end, on_compile_start

functional, exact = torch.nn.functional, torch.nn.functional.relu6

@on_compile_start
def change(*_):
    functional.relu6 = lambda x: torch.neg(x)

@on_compile_end
def change_again(*_):
    functional.relu6 = exact

compiled = torch.compile(lambda x: functional.relu6(x), backend="eager")
right = [exact(x)]
"""
#: A tensor subclass that forgets its scale where it is rebuilt.
REBUILT = """
from torch.utils._pytree import tree_map

class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, scale=1.0):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner, scale=1.0):
        self.inner, self.scale = inner, scale

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(tensors, context, size, stride):
        return Scaled(tensors["inner"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        scale = next(arg.scale for arg in args if isinstance(arg, Scaled))
        plain = tree_map(lambda a: a.inner * a.scale if isinstance(a, Scaled) else a, args)
        return Scaled(function(*plain, **(kwargs or {})) / scale, scale)

def values(function):
    out = function(Scaled(x, 3.0))
    return out.inner * out.scale

right = [values(torch.sin)]
compiled = lambda x: values(torch.compile(torch.sin, backend="aot_eager"))
"""
#: Other changes of kinds that are above.
GUARDS = """
scale = [1.0]
compiled_once = torch.compile(
    lambda x: x * scale[0], backend="eager", options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
)
compiled_once(x)
scale[0] = 2.0
compiled, right = compiled_once, [x * 2]
"""
STANCE = """
scale = [1.0]
once = torch.compile(lambda x: x * scale[0], backend="eager")
once(x)
scale[0] = 2.0

def compiled(x):
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        return once(x)

right = [x * 2]
"""
LEFT_OUT = """
seen = []
def note():
    seen.append(len(seen))

torch._dynamo.config.ignore_logging_functions.add(note)

def noted(x):
    note()
    return x + 1

once = torch.compile(noted, backend="eager")
compiled = lambda x: once(x) * len(seen)
right = [x + 1]
"""
FRAME = """
import torch
{setup}
x = torch.tensor([-1.0, 2.0])
{change}

def computes(expected):
    try:
        return torch.equal(compiled(x), expected)
    except Exception:
        return False

print([computes(expected) for expected in right])
"""
_IN_A_FORK = """
child = os.fork()
if not child:
    try:
        exec(compile(open({path!r}).read(), {path!r}, "exec"), {{"__name__": "__main__"}})
    finally:
        sys.stdout.flush()
        os._exit(0)
os.waitpid(child, 0)
"""


def test_the_kinds_are_those_that_have_words() -> None:
    from repro_kit.diagnosis.layer import INTERRUPTIONS, OF_STATE, PROMISES, TAKEN_OUT

    sys.path.insert(0, str(PROBE))
    from repro_probe.embedded import originals, own_state

    assert OF_STATE == own_state.KINDS
    assert tuple(TAKEN_OUT) == (*originals.KINDS, *own_state.KINDS, INTERRUPTIONS, PROMISES)


def test_a_module_is_one_that_programs_call_or_one_of_the_compiler() -> None:
    from repro_probe.embedded.originals import OF_COMPILER

    called = ("torch", "torch.nn.functional", "torch.nn.modules.module", "torch.linalg", "torch.export_of_mine")
    of_compiler = ("torch._inductor.ir", "torch.fx.graph", "torch.utils._pytree", "torch.compiler", "torch._tensor")
    assert not any(map(OF_COMPILER.match, called)) and all(map(OF_COMPILER.match, of_compiler))


@pytest.mark.torch
@pytest.mark.slow
def test_a_change_is_seen_and_taken_out(tmp_path: Path) -> None:
    """All in one interpreter, in forks: importing the compiler takes most of the time."""
    pytest.importorskip("torch")
    from repro_kit.diagnosis.layer import PROMISES, TAKEN_OUT
    from repro_kit.diagnosis.promises import withdrawn
    from repro_kit.failure.failure import Failure
    from repro_kit.failure.kinds import Kind
    from repro_kit.stages.ablate.special_contrasts import keeping

    settings = withdrawn(Failure(Kind.ACCURACY))
    changes = [*CHANGES.items(), ("marks", GUARDS), ("marks", STANCE), ("handlers", COUNTS), ("handlers", MODE)]
    changes += [("handlers", LOGS), ("subclasses", REBUILT), ("calls", CALLED_BACK), ("marks", LEFT_OUT)]
    changes += [(PROMISES, SETTINGS), (PROMISES, FROZEN)]
    runs = [
        (setup, change, bool(setup))
        for kind, change in changes
        for setup in ("", keeping([kind], settings), keeping(tuple(TAKEN_OUT), settings))
    ]
    runs.append((keeping([PROMISES], settings), WRONGLY_FROZEN, False))
    script = ["import os, sys, torch, torch._inductor.compile_fx"]
    for at, (setup, change, _) in enumerate(runs):
        path = tmp_path / f"{at}.py"
        path.write_text(FRAME.format(setup=setup, change=change), encoding="utf-8")
        script.append(_IN_A_FORK.format(path=str(path)))
    env = {**os.environ, "PYTHONPATH": str(PROBE)}
    code = "\n".join(script)
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    told = [eval(line) for line in ran.stdout.splitlines()]
    assert [all(each) for each in told] == [right for _, _, right in runs], ran.stdout + ran.stderr
