"""The fixed parts of a program's text (docs/explanation/program-format.md)."""

from __future__ import annotations

import json

from repro_kit.probe.repro_probe.protocol.config_modules import CONFIG_MODULES

VERSION = "1"
MARK = "# repro-kit program"

STANDARD_IMPORTS = ("import pathlib", "import torch", "from torch import device, inf, nan")
PRIMS = "torch.ops.prims."  # some of these operators are Inductor's own, and exist only after this import
PRIMS_IMPORT = "import torch._inductor.inductor_prims"

HEADER = f"""{MARK} {VERSION}
import pathlib

import torch
from torch import device, inf, nan
"""

LOAD = """def load(name):
    return torch.load(pathlib.Path(__file__).with_name("inputs") / name, weights_only=True)
"""

#: Config modules that are not called ``torch._NAME.config``.
_IRREGULAR = {short: module for short, module in CONFIG_MODULES.items() if module != f"torch._{short}.config"}

#: Runs the program by hand, and exits 1 on a difference. It is a short form of the zygote, which judges queries.
FOOTER = """if __name__ == "__main__":
    import contextlib
    import importlib
    import os
    import sys

    from torch.utils import _pytree

    get = RECIPE.get
    if any(os.environ.get(name) != value for name, value in get("env", {}).items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **RECIPE["env"]})
    config = dict(get("config", {}))
    if not get("graph_caches", True):
        config |= {"inductor.fx_graph_cache": False, "functorch.enable_autograd_cache": False}
    if get("fallback_random"):
        config["inductor.fallback_random"] = True
    for key, value in config.items():
        home, *path, last = key.split(".")
        owner = @IRREGULAR@.get(home)
        owner = importlib.import_module(owner or f"torch._{home}.config")
        for name in path:
            owner = getattr(owner, name)
        setattr(owner, last, value)
    if get("memory"):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (get("memory"), get("memory")))
    if get("group"):
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore

        group = get("group")  # a fake one, whatever its backend: a single process runs here
        dist.init_process_group("fake", store=FakeStore(), rank=group.get("rank", 0), world_size=group["size"])
        for ranks in group.get("subgroups", []):
            dist.new_group(list(ranks))
    if get("threads"):
        torch.set_num_threads(get("threads"))
    if get("default_dtype"):
        torch.set_default_dtype(getattr(torch, get("default_dtype").removeprefix("torch.")))

    def surroundings():
        stack = contextlib.ExitStack()
        for expression in get("contexts", []):
            stack.enter_context(eval(expression))
        return stack

    def region():
        stack = surroundings()
        if get("grad_mode", "enabled") != "enabled":
            stack.enter_context(getattr(torch, get("grad_mode"))())
        if get("autocast"):
            autocast = {"device": "cpu", "dtype": "bfloat16", "cache_enabled": True, **get("autocast")}
            dtype, cache = getattr(torch, autocast["dtype"]), autocast["cache_enabled"]
            stack.enter_context(torch.autocast(autocast["device"], dtype, cache_enabled=cache))
        return stack

    def run(function):
        torch.manual_seed(get("seed", 0))
        results = []
        for arguments in calls():
            with region():
                result = function(*arguments)
            tensors = [it for it in _pytree.tree_leaves(result) if isinstance(it, torch.Tensor) and it.requires_grad]
            if tensors and get("backward", "none") != "none":
                like = torch.ones_like if get("backward") == "sum" else torch.randn_like
                with surroundings():
                    torch.autograd.backward(tensors, [like(it) for it in tensors])
            leaves = [it for it in arguments if isinstance(it, torch.Tensor)]
            results.append((result, [it.grad for it in leaves if it.is_leaf], leaves))
        return results

    expected = run(graph)
    options = {name: get(name) for name in ("mode", "dynamic", "fullgraph") if name in RECIPE}
    backend = get("backend", "inductor")
    backend = globals().get(backend, backend)
    options |= {"backend": backend, "options": get("options") or None}
    with contextlib.ExitStack() as stack:
        if get("compiled_autograd"):
            from torch._dynamo import compiled_autograd

            with_breaks = {**options, "fullgraph": False}
            stack.enter_context(compiled_autograd._enable(lambda gm: torch.compile(gm, **with_breaks)))
        if get("warm_caches"):
            run(torch.compile(graph, **options))
            torch._dynamo.reset()
        actual = run(torch.compile(graph, **options))
    if get("check", True):
        close = {"rtol": get("rtol"), "atol": get("atol"), "equal_nan": True}
        torch.testing.assert_close(actual, expected, **close)
    print("compiled and eager agree")
""".replace("@IRREGULAR@", json.dumps(_IRREGULAR))
