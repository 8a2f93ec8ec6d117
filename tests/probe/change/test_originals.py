"""What a program changes in torch is put back before each compile; what torch itself registers stays."""

from __future__ import annotations

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
    from repro_kit.diagnosis.layer import TAKEN_OUT

    sys.path.insert(0, str(PROBE))
    from repro_probe.embedded import originals

    assert tuple(TAKEN_OUT) == originals.KINDS


@pytest.mark.torch
@pytest.mark.slow
def test_a_change_is_seen_and_taken_out(tmp_path: Path) -> None:
    """All in one interpreter, in forks: importing the compiler takes most of the time."""
    pytest.importorskip("torch")
    from repro_kit.stages.ablate.special_contrasts import keeping

    script = ["import os, sys, torch, torch._inductor.compile_fx"]
    changes = [*CHANGES.items(), ("marks", GUARDS), ("marks", STANCE)]
    for kind, change in changes:
        for setup in ("", keeping([kind]), keeping(tuple(CHANGES))):
            path = tmp_path / f"{len(script)}.py"
            path.write_text(FRAME.format(setup=setup, change=change), encoding="utf-8")
            script.append(_IN_A_FORK.format(path=str(path)))
    ran = subprocess.run([sys.executable, "-c", "\n".join(script)], capture_output=True, text=True, check=False)
    told = [eval(line) for line in ran.stdout.splitlines()]
    assert [all(each) for each in told] == [False, True, True] * len(changes), ran.stdout + ran.stderr
