"""Scripts that raise errors for which the compiler is not to blame, and scripts whose eager run proves nothing."""

from __future__ import annotations

#: Without Inductor, whose native compiler takes long and has no part in the blame.
_COMPILED = "import os, sys, time, torch\n@torch.compile(backend='aot_eager')\ndef f(x):\n    return x * 2 + 1\n"
_STORE = (
    "import pathlib\nplace = pathlib.Path(__file__).with_suffix('.count')\n"
    "count = int(place.read_text()) if place.exists() else 0\nplace.write_text(str(count + 1))\n"
)
_BUG = "import torch\ntorch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = {kind!r}\n"
_EAGER = "os.environ.get('TORCH_COMPILE_DISABLE') == '1'"

#: (name, source): for the errors of these scripts, nobody is blamed.
NOBODYS = {
    "sla_message": _COMPILED
    + "start = time.time()\nf(torch.ones(4))\n"
    + "if time.time() - start > 0.05:\n    raise RuntimeError('SLA missed: too long')\n",
    "sla_without_a_word": _COMPILED
    + "start = time.perf_counter()\nf(torch.ones(4))\nused = time.perf_counter() - start\nassert used < 0.05\n",
    "ratio_of_two_times": _COMPILED
    + "def took(function):\n    start = time.perf_counter_ns()\n    function(torch.ones(4))\n"
    + "    return time.perf_counter_ns() - start\n"
    + "budget = {'eager': took(torch.sin)}\nratio = took(f) / budget['eager']\n"
    + "if ratio > 40:\n    raise ValueError(f'model is not good enough: {ratio:.0f}')\n",
    "ratio_of_timeit": _COMPILED
    + "import timeit\nx = torch.ones(4)\nslow = timeit.timeit(lambda: f(x), number=1)\n"
    + "if slow > 40 * timeit.timeit(lambda: x * 2 + 1, number=1):\n    raise ValueError('not good enough')\n",
    "dates": _COMPILED
    + "from datetime import datetime\nstart = datetime.now()\nf(torch.ones(4))\n"
    + "assert (datetime.now() - start).total_seconds() < 0.05\n",
    "every_other_run": _COMPILED + _STORE + "f(torch.ones(4))\nif count % 2 == 0:\n    raise ValueError('not ready')\n",
    "every_other_check": _COMPILED
    + _STORE
    + "x = f(torch.ones(4)) + (count % 2 == 0)\n"
    + "if not torch.equal(x, torch.ones(4) * 3):\n    raise ValueError('off')\n",
    "every_third_run": _COMPILED + _STORE + "f(torch.ones(4))\nif count % 3 == 0:\n    raise KeyError('batch')\n",
    "too_many_files": _COMPILED + f"f(torch.ones(4))\nif not {_EAGER}:\n    raise OSError(24, 'Too many open files')\n",
    "full_disk": _COMPILED + f"f(torch.ones(4))\nif not {_EAGER}:\n    raise RuntimeError('No space left on device')\n",
    "lost_connection": _COMPILED + f"f(torch.ones(4))\nif not {_EAGER}:\n    raise ConnectionResetError('peer')\n",
    "empty_queue": _COMPILED
    + "import queue, threading\ndone = queue.Queue()\n"
    + "threading.Thread(target=lambda: done.put(f(torch.ones(4))), daemon=True).start()\ndone.get(timeout=0.2)\n",
    "wrapped_timeout": _COMPILED
    + f"f(torch.ones(4))\ntry:\n    if not {_EAGER}:\n        raise TimeoutError()\n"
    + "except OSError as error:\n    raise RuntimeError('loader failed') from error\n",
}
#: These scripts never see the variable TORCH_COMPILE_DISABLE, so their eager run proves nothing by the variable alone.
LOST_VARIABLE = {
    "cleared_environment": "import os\npath = os.environ['PATH']\nos.environ.clear()\nos.environ['PATH'] = path\n"
    + _BUG.format(kind="compile_error")
    + "torch.compile(torch.relu)(torch.ones(4))\n",
}
#: These scripts have wrong results, which must be reported as such.
WRONG_RESULTS = {
    "testing": _BUG.format(kind="accuracy")
    + "x = torch.randn(64)\ntorch.testing.assert_close(torch.compile(torch.relu)(x), torch.relu(x))\n",
    "plain_check": _BUG.format(kind="accuracy")
    + "x = torch.randn(64)\n"
    + "if not torch.allclose(torch.compile(torch.relu)(x), torch.relu(x)):\n    raise ValueError('off')\n",
}

#: These scripts fail by checks of their own that no compiled call explains: each call agrees with eager, and leaves the
#: same Python state. They fail with all graphs in eager, too.
UNSEEN = {
    "counters": _COMPILED
    + "f(torch.ones(4))\nimport torch._dynamo.utils as utils\n"
    + "if utils.counters['stats']:\n    raise ValueError('the model is not good enough')\n",
    "memory": _COMPILED
    + "import resource\ndef peak():\n    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
    + "before = peak()\nf(torch.ones(4))\nif peak() > 1.02 * before:\n    raise ValueError('not good enough')\n",
    "objects": _COMPILED
    + "import gc\nbefore = len(gc.get_objects())\nf(torch.ones(4))\n"
    + "assert len(gc.get_objects()) < before + 100, 'the model is not good enough'\n",
    "modules": _COMPILED
    + "before = len(sys.modules)\nf(torch.ones(4))\n"
    + "if len(sys.modules) > before + 20:\n    sys.exit('not good enough')\n",
}
UNSEEN |= {
    "cpu_time": _COMPILED
    + "import resource\ndef used():\n    return resource.getrusage(resource.RUSAGE_SELF).ru_utime\n"
    + "before = used()\nf(torch.ones(4))\nif used() > before + 0.02:\n    raise ValueError('not good enough')\n",
    "other_clock": _COMPILED
    + "def stamp():\n    return time.clock_gettime(time.CLOCK_MONOTONIC)\n"
    + "before = stamp()\nf(torch.ones(4))\nif stamp() - before > 0.05:\n    raise ValueError('not good enough')\n",
    "blocks": _COMPILED
    + "before = sys.getallocatedblocks()\nf(torch.ones(4))\n"
    + "assert sys.getallocatedblocks() < 1.02 * before, 'the model is not good enough'\n",
    "logged": _COMPILED
    + "import logging\nseen = []\nclass Kept(logging.Handler):\n    def emit(self, record):\n"
    + "        seen.append(record)\nlogger = logging.getLogger('torch._dynamo.symbolic_convert')\n"
    + "logger.addHandler(Kept())\nlogger.setLevel(logging.DEBUG)\nf(torch.ones(4))\n"
    + "assert not seen, 'the model is not good enough'\n",
    "compile_times": _COMPILED
    + "f(torch.ones(4))\nimport torch._dynamo.utils as utils\n"
    + "if any(utils.compilation_time_metrics.values()):\n    raise ValueError('the model is not good enough')\n",
}
UNSEEN |= {
    "clock_inside": "import time, torch\nstart = time.perf_counter()\ndef own(x):\n    x = x.sin()\n"
    + "    elapsed = time.perf_counter() - start\n    return x.cos() + elapsed\nx = torch.ones(100)\n"
    + "a, b = torch.compile(own)(x), own(x)\nassert (a - b).abs().max() < 0.2, 'results drift'\n",
    "node_of_autograd": "import torch\ndef own(x):\n    return x * 2\nx = torch.ones(3, requires_grad=True)\n"
    + "a, b = torch.compile(own, backend='aot_eager')(x), own(x)\n"
    + "assert a.grad_fn.name() == b.grad_fn.name(), 'another graph'\n",
}
_CHECKED = "x = torch.tensor([-1.0, 2.0])\ntorch.testing.assert_close(compiled(x), torch.relu(x))\n"
_NEGATED = "def mine(x):\n    return torch.neg(x)\n"
#: These scripts change torch, or tell Dynamo what is not true. The failure is theirs.
OWN_CHANGES = {
    "decomposition": "import torch\nfrom torch._inductor.decomposition import decompositions\n"
    + f"{_NEGATED}decompositions[torch.ops.aten.relu.default] = mine\n"
    + f"compiled = torch.compile(torch.relu, backend='aot_eager_decomp_partition')\n{_CHECKED}",
    "registered_decomposition": "import torch\nfrom torch._inductor.decomposition import register_decomposition\n"
    + "register_decomposition([torch.ops.aten.relu.default])(lambda x: torch.neg(x))\n"
    + f"compiled = torch.compile(torch.relu, backend='aot_eager_decomp_partition')\n{_CHECKED}",
    "kernel": f"import torch\n{_NEGATED}torch.ops.aten.relu.default.py_impl(torch._C.DispatchKey.Autograd)(mine)\n"
    + f"compiled = torch.compile(torch.relu, backend='aot_eager')\n{_CHECKED}".replace(
        "2.0])", "2.0], requires_grad=True)"
    ),
    "patched_method": "import torch\nfrom torch._dynamo.output_graph import OutputGraph\n"
    + "call = OutputGraph.call_user_compiler\ndef mine(self, gm, *arguments):\n    for node in gm.graph.nodes:\n"
    + "        node.target = torch.neg if node.target is torch.relu else node.target\n    gm.recompile()\n"
    + "    return call(self, gm, *arguments)\nOutputGraph.call_user_compiler = mine\n"
    + f"compiled = torch.compile(torch.relu, backend='eager')\n{_CHECKED}",
    "constant": "import torch\ncalls = []\n@torch.compiler.assume_constant_result\ndef count():\n    calls.append(1)\n"
    + "    return len(calls)\ncompiled = torch.compile(lambda x: x * count(), backend='eager')\n"
    + "x = torch.ones(2)\nfirst, second = compiled(x), compiled(x)\ntorch.testing.assert_close(second, first + 1)\n",
    "substitute": "import torch\ndef own(x):\n    return torch.relu(x)\n"
    + "@torch.compiler.substitute_in_graph(own)\ndef other(x):\n    return torch.neg(x)\n"
    + "compiled = torch.compile(lambda x: own(x), backend='eager')\n"
    + _CHECKED,
    "is_compiling": "import torch\ndef own(x):\n    if torch.compiler.is_compiling():\n        x = x * 1.5\n"
    + f"    return torch.relu(x)\ncompiled = torch.compile(own, backend='eager')\n{_CHECKED}",
    "lowering": "import torch\nfrom torch._inductor.lowering import lowerings\ndef mine(x):\n"
    + "    return lowerings[torch.ops.aten.neg.default](x)\nlowerings[torch.ops.aten.relu.default] = mine\n"
    + f"compiled = torch.compile(torch.relu)\n{_CHECKED}",
    "registered_lowering": "import torch\nfrom torch._inductor.lowering import lowerings, register_lowering\n"
    + "@register_lowering(torch.ops.aten.relu.default)\ndef mine(x):\n"
    + f"    return lowerings[torch.ops.aten.neg.default](x)\ncompiled = torch.compile(torch.relu)\n{_CHECKED}",
}
_SCALED = "compiled(x)\nscale[0] = 2.0\ntorch.testing.assert_close(compiled(x), x * 2)\n"
_OPERATOR = "import torch\n@torch.library.custom_op('mine::op', mutates_args=())\n"
OWN_CHANGES |= {
    "allowed": "import torch\nscale, x = [1.0], torch.ones(2)\n@torch.compiler.allow_in_graph\ndef own(x):\n"
    + f"    return x * scale[0]\ncompiled = torch.compile(lambda x: own(x), backend='aot_eager')\n{_SCALED}",
    "nonstrict": "import torch\nscale, x = [1.0], torch.ones(2)\n@torch._dynamo.nonstrict_trace\ndef own(x):\n"
    + f"    return x * scale[0]\ncompiled = torch.compile(lambda x: own(x), backend='aot_eager')\n{_SCALED}",
    "constant_method": "import torch\nx = torch.ones(2)\nclass Model(torch.nn.Module):\n    steps = 0\n"
    + "    @torch._dynamo.assume_constant_result\n    def scale(self):\n        return 1.0 + self.steps\n"
    + "    def forward(self, x):\n        return x * self.scale()\nmodel = Model()\n"
    + "compiled = torch.compile(model, backend='eager')\ncompiled(x)\nmodel.steps = 1\n"
    + "torch.testing.assert_close(compiled(x), x * 2)\n",
    "no_guards": "import torch\nscale, x = [1.0], torch.ones(2)\ncompiled = torch.compile(\n"
    + "    lambda x: x * scale[0], backend='eager',\n"
    + "    options={'guard_filter_fn': torch.compiler.skip_all_guards_unsafe})\n"
    + _SCALED,
    "composite": "import torch\ndef mine(x, weight, bias=None):\n    return torch.ops.aten.mm.default(x, weight)\n"
    + "torch.ops.aten.linear.default.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)(mine)\n"
    + "x, weight = torch.randn(3, 3), torch.randn(3, 3)\n"
    + "compiled = torch.compile(torch.nn.functional.linear, backend='aot_eager')\n"
    + "torch.testing.assert_close(compiled(x, weight), torch.nn.functional.linear(x, weight))\n",
    "patched_backend": "import torch\nfrom torch._dynamo.backends import debugging\ndef mine(graph, inputs):\n"
    + "    def run(args):\n        return [result + 1 for result in graph.forward(*args)]\n"
    + "    run._boxed_call = True\n    return run\ndebugging.boxed_nop = mine\n"
    + f"compiled = torch.compile(torch.relu, backend='aot_eager')\n{_CHECKED}",
    "patched_table": f"import torch\nfrom torch._inductor import compile_fx\n{_NEGATED}"
    + "table = compile_fx.select_decomp_table\n"
    + "compile_fx.select_decomp_table = lambda: {**table(), torch.ops.aten.relu.default: mine}\n"
    + f"compiled = torch.compile(torch.relu, backend='aot_eager_decomp_partition')\n{_CHECKED}",
    "patched_variable": "import torch\nfrom torch._dynamo.variables import ConstantVariable\n"
    + "as_proxy = ConstantVariable.as_proxy\ndef mine(self):\n    proxy = as_proxy(self)\n"
    + "    return proxy + 1 if isinstance(proxy, float) else proxy\nConstantVariable.as_proxy = mine\n"
    + "x = torch.ones(2)\ncompiled = torch.compile(lambda x: x * 1.5, backend='eager')\n"
    + "torch.testing.assert_close(compiled(x), x * 1.5)\n",
    "branch_of_a_method": "import torch\nfrom torch.compiler import is_compiling as fast\n"
    + "class Model(torch.nn.Module):\n    def forward(self, x):\n"
    + "        return torch.relu(x).half().float() if fast() else torch.relu(x)\n"
    + "x = torch.randn(64)\nmodel = Model()\ncompiled = torch.compile(model, backend='eager')\n"
    + "torch.testing.assert_close(compiled(x), model(x))\n",
    "undeclared_write": f"{_OPERATOR}def op(x: torch.Tensor) -> torch.Tensor:\n    x.add_(1)\n    return x * 2\n"
    + "op.register_fake(lambda x: torch.empty_like(x))\ndef own(x):\n    y = x.clone()\n    op(y)\n    return y * 3\n"
    + "x = torch.ones(2)\ncompiled = torch.compile(own, backend='aot_eager')\n"
    + "torch.testing.assert_close(compiled(x), own(x))\n",
    "fake_size": f"{_OPERATOR}def op(x: torch.Tensor) -> torch.Tensor:\n    return x[: 2].clone()\n"
    + "op.register_fake(lambda x: torch.empty_like(x))\ndef own(x):\n    y = op(x)\n    return y * y.shape[0]\n"
    + "x = torch.ones(4)\ncompiled = torch.compile(own, backend='eager')\n"
    + "torch.testing.assert_close(compiled(x), own(x))\n",
    "custom_pass": "import operator, torch\ndef mine(graph):\n    for node in graph.nodes:\n"
    + "        if node.target is torch.ops.aten.relu.default:\n            node.target = torch.ops.aten.neg.default\n"
    + "torch._inductor.config.post_grad_custom_pre_pass = mine\n"
    + f"compiled = torch.compile(torch.relu)\n{_CHECKED}",
}
_TRAINED = (
    "x = torch.ones(2, requires_grad=True)\ndef gradient(function):\n"
    "    return torch.autograd.grad(function(x).sum(), x)[0]\ncompiled = torch.compile(own, backend='aot_eager')\n"
    "gradient(compiled)\nscale[0] = 2.0\ntorch.testing.assert_close(gradient(compiled), gradient(own))\n"
)
_RUN = "torch.testing.assert_close(compiled(x), own(x))\n"
OWN_CHANGES |= {
    "fake_dtype": "import torch\nlibrary = torch.library.Library('mine', 'DEF')\n"
    + "library.define('op(Tensor x) -> Tensor')\nlibrary.impl('op', lambda x: x.double(), 'CPU')\n"
    + "library.impl('op', lambda x: torch.empty_like(x), 'Meta')\n"
    + "def own(x):\n    y = torch.ops.mine.op(x)\n    return torch.full((2,), 1.1, dtype=y.dtype) * 3\n"
    + f"x = torch.ones(4)\ncompiled = torch.compile(own, backend='eager')\n{_RUN}",
    "fake_argument": f"{_OPERATOR}def op(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n"
    + "op.register_fake(lambda x: x)\ndef own(x):\n    y = op(x)\n    y.add_(1)\n    return y + x\n"
    + f"x = torch.ones(4)\ncompiled = torch.compile(own, backend='aot_eager')\n{_RUN}",
    "formula": f"{_OPERATOR}def op(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n"
    + "op.register_fake(lambda x: torch.empty_like(x))\nscale = [1.0]\n"
    + "op.register_autograd(lambda ctx, grad: grad * scale[0])\ndef own(x):\n    return op(x) + 1\n"
    + _TRAINED,
    "counting": "calls = []\n"
    + f"{_OPERATOR}def op(x: torch.Tensor) -> torch.Tensor:\n    calls.append(1)\n    return x * len(calls)\n"
    + "op.register_fake(lambda x: torch.empty_like(x))\ndef own(x):\n    op(x)\n    return op(x)\n"
    + "x = torch.ones(4)\ncompiled = torch.compile(own, backend='aot_eager')\nfirst = compiled(x)\ncalls.clear()\n"
    + "torch.testing.assert_close(first, own(x))\n",
}
OWN_CHANGES |= {
    "generated_code": "import torch\nfrom torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides\n"
    + "CppOverrides.relu = staticmethod(lambda x: f'decltype({x})(-{x})')\n"
    + f"CppVecOverrides.relu = staticmethod(lambda x: f'-{{x}}')\ncompiled = torch.compile(torch.relu)\n{_CHECKED}",
    "pattern": "import torch\nfrom torch._inductor.fx_passes import post_grad\n"
    + "from torch._inductor.pattern_matcher import fwd_only, register_replacement\n"
    + "register_replacement(lambda x, y: torch.relu(x) + y, lambda x, y: x + y,\n"
    + "    [torch.ones(4), torch.ones(4)], fwd_only, post_grad.pass_patterns[1])\n"
    + "def own(x, y):\n    return torch.relu(x) + y\nx = torch.tensor([-1.0, 2.0, -3.0, 1.0])\n"
    + "torch.testing.assert_close(torch.compile(own)(x, x), own(x, x))\n",
}
OWN_CHANGES |= {
    "pass_by_options": "import torch\nfrom torch._inductor.custom_graph_pass import CustomGraphPass\n"
    + "class Mine(CustomGraphPass):\n    def __call__(self, graph):\n        for node in graph.nodes:\n"
    + "            if node.target is torch.ops.aten.relu.default:\n"
    + "                node.target = torch.ops.aten.abs.default\n    def uuid(self):\n        return 'mine'\n"
    + "compiled = torch.compile(torch.relu, options={'post_grad_custom_post_pass': Mine()})\n"
    + _CHECKED,
    "stance": "import torch\nscale, x = [1.0], torch.ones(2)\n"
    + "once = torch.compile(lambda x: x * scale[0], backend='aot_eager')\nonce(x)\ndef compiled(x):\n"
    + "    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):\n        return once(x)\n"
    + _SCALED,
    "no_recompile": "import torch\ncompiled = torch.compile(torch.sin, backend='aot_eager', dynamic=False)\n"
    + "compiled(torch.ones(4))\nwith torch.compiler.set_stance('fail_on_recompile'):\n    compiled(torch.ones(5))\n",
    "kernel_of_torchs": "import torch\nlibrary = torch.library.Library('aten', 'IMPL')\n"
    + "library.impl('hardtanh', lambda x, low=-1.0, high=1.0: x * 0.5, 'CPU')\nx = torch.tensor([-3.0, 0.2])\n"
    + "own = torch.nn.functional.hardtanh\ncompiled = torch.compile(own)\n"
    + _RUN,
    "cached_by_address": f"kept = {{}}\n{_OPERATOR}def op(x: torch.Tensor) -> torch.Tensor:\n"
    + "    if x.data_ptr() not in kept:\n        kept[x.data_ptr()] = x * 2\n"
    + "    return kept[x.data_ptr()].clone()\nop.register_fake(lambda x: torch.empty_like(x))\n"
    + "def own(x):\n    a = x + 1\n    y = op(a)\n    b = y.sin() + x\n    z = op(b)\n    return y + z\n"
    + "x = torch.randn(500)\nexpected = own(x)\nkept.clear()\n"
    + "torch.testing.assert_close(torch.compile(own)(x), expected)\n",
}
_WRAPPER = (
    "import torch\nfrom torch.utils._pytree import tree_map\ncalls = []\nclass Mine(torch.Tensor):\n"
    "    @staticmethod\n    def __new__(cls, inner):\n"
    "        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)\n"
    "    def __init__(self, inner):\n        self.inner = inner\n    def __tensor_flatten__(self):\n"
    "        return ['inner'], None\n    @staticmethod\n    def __tensor_unflatten__(tensors, context, size, stride):\n"
    "        return Mine(tensors['inner'])\n    @classmethod\n"
    "    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):\n        calls.append(1)\n"
    "        out = function(*tree_map(lambda a: a.inner if isinstance(a, Mine) else a, args), **(kwargs or {}))\n"
    "        return tree_map(lambda a: Mine({out}) if isinstance(a, torch.Tensor) else a, out)\n"
    "def own(x):\n    return torch.tanh(x) * 2\ncompiled = torch.compile(own, backend='aot_eager')\n"
)
OWN_CHANGES["operator_logs"] = (
    f"{_OPERATOR}def op(x: torch.Tensor) -> torch.Tensor:\n    seen.append(float(x.sum()))\n    return x.clone()\n"
    "seen = []\nop.register_fake(lambda x: torch.empty_like(x))\n@torch.compile(backend='aot_eager')\ndef f(x):\n"
    "    h = x * 2\n    op(h)\n    return h + 1\nf(torch.ones(3))\nassert seen == [6.0], f'logged {seen}'\n"
)
OWN_CHANGES["operator_adds"] = (
    f"total = 0\n{_OPERATOR}def op(x: torch.Tensor) -> torch.Tensor:\n    total.add_(x.abs().max())\n"
    "    return x.new_zeros(())\nop.register_fake(lambda x: x.new_zeros(()))\ntotal = torch.zeros(())\n"
    "def own(x):\n    y = x.sin()\n    op(y)\n    return y * 2\nx = torch.ones(3)\nown(x)\nexpected = total.clone()\n"
    "total.zero_()\ntorch.compile(own, backend='aot_eager')(x)\ntorch.testing.assert_close(total, expected)\n"
)
OWN_CHANGES["rebuilt_without_scale"] = (
    _WRAPPER.replace("{out}", "a / args[0].scale, args[0].scale")
    .replace("(cls, inner)", "(cls, inner, scale=1.0)")
    .replace("(self, inner)", "(self, inner, scale=1.0)")
    .replace("self.inner = inner", "self.inner, self.scale = inner, scale")
    .replace("lambda a: a.inner if", "lambda a: a.inner * a.scale if")
) + (
    "x = Mine(torch.ones(3), 3.0)\nexpected, got = own(x), compiled(x)\n"
    "torch.testing.assert_close(got.inner * got.scale, expected.inner * expected.scale)\n"
)
OWN_CHANGES["handler_counts"] = _WRAPPER.replace("{out}", "a * len(calls)") + (
    "x = Mine(torch.ones(3))\nexpected = own(x).inner\ncalls.clear()\n"
    "torch.testing.assert_close(compiled(x).inner, expected)\n"
)
UNSEEN["handler_calls"] = _WRAPPER.replace("{out}", "a") + (
    "def seen(function):\n    calls.clear()\n    function(Mine(torch.ones(3)))\n    return torch.tensor(len(calls))\n"
    "torch.testing.assert_close(seen(compiled), seen(own))\n"
)
UNSEEN["saved_values"] = (
    "import torch\ndef own(x):\n    return (x.exp() * x.sin()).sum()\n"
    "x = torch.linspace(0, 3, 50, requires_grad=True)\ndef gradient(function):\n"
    "    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.bfloat16(), lambda t: t.float()):\n"
    "        return torch.autograd.grad(function(x), x)[0]\n"
    "torch.testing.assert_close(gradient(torch.compile(own)), gradient(own), rtol=1e-3, atol=1e-3)\n"
)
_MODEL = "model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)\ncompiled = torch.compile(model)\n"
_FROZEN = _MODEL + (
    "with torch.no_grad():\n    compiled(x)\n    {change}\n    torch.testing.assert_close(compiled(x), model(x))\n"
)
#: What these scripts promise by a setting, they do not keep.
OWN_CHANGES |= {
    "frozen": "import torch\ntorch._inductor.config.freezing = True\n" + _FROZEN.format(change="model.weight.mul_(2)"),
    "frozen_by_data": "import os\nos.environ['TORCHINDUCTOR_FREEZING'] = '1'\nimport torch\n"
    + _FROZEN.format(change="model.bias.data = torch.ones(4)"),
    "unsafe_math": "import torch\ntorch._inductor.config.cpp.enable_unsafe_math_opt_flag = True\ndef own(x):\n"
    + "    return x - x + 1\nx, compiled = torch.randn(64), torch.compile(own)\nx[3] = float('inf')\n"
    + "if not torch.equal(compiled(x).isnan(), own(x).isnan()):\n    raise ValueError('a NaN is lost')\n",
    "unguarded_default": "import torch\ntorch._dynamo.config.skip_guards_on_constant_func_defaults = True\n"
    + "def scaled(x, scale=1.0):\n    return x * scale\ndef own(x):\n    return scaled(x)\n"
    + "x, compiled = torch.ones(2), torch.compile(own, backend='aot_eager')\ncompiled(x)\n"
    + "scaled.__defaults__ = (2.0,)\n"
    + _RUN,
}
#: What the check asks for is what only the branch for eager does.
OWN_CHANGES["branch_for_eager"] = (
    "import torch\nseen = []\ndef own(x):\n    if not torch.compiler.is_compiling():\n        seen.append(x.shape)\n"
    "    return x.tanh() * 2\ncompiled = torch.compile(own, backend='aot_eager')\n"
    "outs = [compiled(torch.ones(size)) for size in (2, 3, 4)]\n"
    "if len(seen) != len(outs):\n    raise RuntimeError(f'{len(seen)} calls in place of {len(outs)}')\n"
)
_OPERATORS = "x, compiled = torch.randn(32), torch.compile(own, backend='aot_eager_decomp_partition')\ncompiled(x)\n"
UNSEEN |= {
    "profiled_calls": "import torch\nfrom torch.profiler import profile\ndef own(x):\n"
    + "    return torch.nn.functional.silu(x) * 2\ndef calls(function, x):\n    with profile() as seen:\n"
    + "        function(x)\n    return {event.key: event.count for event in seen.key_averages()}\n"
    + _OPERATORS
    + "assert calls(compiled, x) == calls(own, x), 'other operators'\n",
}
UNSEEN |= {
    "text_of_a_result": "import torch\ndef own(x):\n    return (x * 2).sum()\nx = torch.ones(3, requires_grad=True)\n"
    + "a, b = str(torch.compile(own, backend='aot_eager')(x)), str(own(x))\n"
    + "assert a == b, f'printed {a}, expected {b}'\n",
    "packed_elements": "import torch\npacked = []\ndef pack(t):\n    packed.append(t.numel())\n    return t\n"
    + "def own(x):\n    return (x.exp() * x.sin()).tanh().sum()\n"
    + "x = torch.linspace(0, 3, 50, requires_grad=True)\ndef saved(function):\n    packed.clear()\n"
    + "    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):\n        function(x).backward()\n"
    + "    return sum(packed)\nwant, got = saved(own), saved(torch.compile(own, backend='aot_eager'))\n"
    + "if want != got:\n    raise RuntimeError(f'saves {got} elements in place of {want}')\n",
}
#: Hooks of the script's own, which raise wherever the process is.
OWN_CHANGES |= {
    "callback": "import torch\nfrom torch._dynamo.callback import on_compile_start\n@on_compile_start\n"
    + "def forbid(args):\n    raise RuntimeError('compiling is not allowed on this host')\n"
    + "torch.compile(torch.sin, backend='aot_eager')(torch.ones(3))\n",
    "audit_hook": "import sys, torch\ndef guard(event, args):\n    if event == 'subprocess.Popen':\n"
    + "        raise RuntimeError(f'sandbox: {event} is not allowed')\nsys.addaudithook(guard)\n"
    + "torch.compile(lambda x: torch.softmax(x.sin(), -1))(torch.ones(3))\n",
}
_HARDTANH = "def mine(x, low=-1.0, high=1.0):\n    return torch.relu(x - low) + low - torch.relu(x - high)\n"
#: What these scripts change in torch is right, and leads to a graph that Inductor compiles wrongly.
RIGHT_CHANGES = {
    "right_decomposition": _BUG.format(kind="accuracy").partition("def ")[0]
    + f"from torch._inductor.decomposition import decompositions\n{_HARDTANH}"
    + "decompositions[torch.ops.aten.hardtanh.default] = mine\nown = torch.nn.functional.hardtanh\n"
    + f"x, compiled = torch.randn(16) * 2, torch.compile(own)\n{_RUN}",
    "right_pass": _BUG.format(kind="accuracy").partition("def ")[0]
    + "def mine(graph):\n    for node in graph.nodes:\n"
    + "        if node.target is torch.ops.aten.clamp_min.default and node.args[1] == 0:\n"
    + "            node.target, node.args = torch.ops.aten.relu.default, node.args[:1]\n"
    + "torch._inductor.config.post_grad_custom_pre_pass = mine\ndef own(x):\n    return torch.clamp_min(x, 0) * 3\n"
    + f"x, compiled = torch.randn(16), torch.compile(own)\n{_RUN}",
}
#: The backend is the script's own.
OWN_BACKENDS = {
    "function": "import torch\ndef mine(graph, inputs):\n    return lambda *args: [-y for y in graph(*args)]\n"
    + f"compiled = torch.compile(torch.relu, backend=mine)\n{_CHECKED}",
    "registered": "import torch\nfrom torch._dynamo import register_backend\n"
    + "from torch._dynamo.backends.common import aot_autograd\ndef compiler(graph, inputs):\n"
    + "    def run(args):\n        return [-y for y in graph.forward(*args)]\n    run._boxed_call = True\n"
    + "    return run\nregister_backend(aot_autograd(fw_compiler=compiler), name='mine')\n"
    + f"compiled = torch.compile(torch.relu, backend='mine')\n{_CHECKED}",
    "around_a_backend": "import torch\nfrom torch._dynamo.backends.registry import lookup_backend\n"
    + "class Mine:\n    def __call__(self, graph, inputs):\n        for node in graph.graph.nodes:\n"
    + "            node.target = torch.neg if node.target is torch.relu else node.target\n"
    + "        graph.recompile()\n        return lookup_backend('aot_eager')(graph, inputs)\n"
    + f"compiled = torch.compile(torch.relu, backend=Mine())\n{_CHECKED}",
}
