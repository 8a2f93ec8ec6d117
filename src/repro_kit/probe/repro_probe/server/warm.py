"""Prepare a process for forking: do the imports and computations of every query before the first query."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import sys
import time
from typing import Any

from repro_probe.common import vec_isa
from repro_probe.common.findings_directory import write_whole
from repro_probe.protocol.queries import Query
from repro_probe.query import evaluate
from repro_probe.server import precompiled_headers, query_process
from repro_probe.server.children import die_with_parent, redirect
from repro_probe.server.forked_accelerator import in_child
from repro_probe.server.whole_files import build_whole

_LONGEST_QUERY = 600.0  # time limit of the warm-up query, in seconds

#: A program that uses Dynamo, AOTAutograd and Inductor, forward and backward, on a device.
_WARM_UP = """
import torch
RECIPE = {"backward": "randn"}
def graph(x):
    y = torch.relu(x) @ x
    return (y,)
def calls():
    x = torch.randn(8, 8, device="DEVICE").requires_grad_()
    return [(x,)]
"""


def import_torch(scratch: str) -> int:
    """Import everything that children will need. Return torch's default number of threads."""
    gc.disable()  # an import makes many objects and hardly any garbage
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    import torch._dynamo
    import torch._inductor.compile_fx

    build_whole(os.path.join(scratch, "libraries"))
    precompiled_headers.share_headers(scratch)
    _pick_instructions()
    _import_modules("cpu", scratch, threads)
    _compute_what_never_changes()
    _settle_garbage()
    return threads


def import_for(device: str, scratch: str, threads: int) -> None:
    """Import what queries on the accelerator `device` need besides."""
    gc.disable()
    _import_modules(device, scratch, threads)
    _settle_garbage()


def _settle_garbage() -> None:
    # The present objects are no garbage, and a collection in a child would copy all their pages.
    gc.collect()
    gc.freeze()
    gc.enable()


def _import_modules(device: str, scratch: str, threads: int) -> None:
    for name in _known_modules(device, scratch, threads):
        # A module that a query generates, such as that of a kernel, cannot be imported here.
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _pick_instructions() -> None:
    """Let torch test the vector instructions of this machine, which takes a C++ compiler."""
    try:
        vec_isa.pick()
    except Exception as error:  # each query says so itself, if it needs the compiler
        print(f"repro-kit: the choice of vector instructions is left to the queries: {error!r}", file=sys.stderr)


def _compute_what_never_changes() -> None:
    """Let torch fill caches that every query would fill again, where this torch has them.

    These are the hash of torch's sources (torch/_inductor/codecache.py), the joint graph's patterns
    (torch/_inductor/fx_passes/joint_graph.py), the names of backends, the functions that `__torch_function__` can
    override, and the registry of graph breaks. None depends on a program or on a setting.
    """
    import torch
    import torch._dynamo
    from torch._dynamo import exc
    from torch._inductor import codecache
    from torch._inductor.fx_passes import joint_graph

    caches: list[tuple[Any, ...]] = [
        (codecache, "torch_key"),
        (joint_graph, "lazy_init", torch.device("cpu")),
        (torch._dynamo, "list_backends"),
        (torch.overrides, "get_overridable_functions"),
    ]
    if hasattr(exc, "_load_gb_type_to_gb_id_map"):
        caches.append((exc, "_load_gb_type_to_gb_id_map"))
    for module, function, *arguments in caches:
        try:
            getattr(module, function)(*arguments)
        except Exception as error:  # queries are only slower then
            print(f"repro-kit: {module.__name__}.{function} is left to the queries: {error!r}", file=sys.stderr)
    _forget_decompositions()


def _forget_decompositions() -> None:
    """Clear torch's cached decompositions, since a program may register its own (torch/_inductor/decomposition.py)."""
    from torch._inductor import decomposition

    clear = getattr(getattr(decomposition, "fast_random_decomps", None), "cache_clear", None)
    if clear is not None:
        clear()


def _known_modules(device: str, scratch: str, threads: int) -> list[str]:
    """Return the names of the modules that a query on `device` imports. The shared cache directory keeps the names."""
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if not cache:
        return _modules_of_a_query(device, scratch, threads)
    import torch

    path = os.path.join(cache, f"modules-{torch.__version__}-{device}.txt")
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        return file.read().split()
    names = _modules_of_a_query(device, scratch, threads)
    with contextlib.suppress(OSError):
        write_whole(path, "\n".join(names))
    return names


def _modules_of_a_query(device: str, scratch: str, threads: int) -> list[str]:
    """Run a query on `device` in a child, and return the names of the modules that it imports.

    A query in this process would leave state behind, and would start the accelerator. On a CPU the query also
    precompiles the headers of kernels, without a short time-out.
    """
    directory = os.path.join(scratch, f"warm-up-{device}")
    os.makedirs(directory)
    request: Query = {
        "id": 0,
        "mode": "check",
        "text": _WARM_UP.replace("DEVICE", device),
        "inputs": None,
        "timeout": _LONGEST_QUERY,
        "memory": None,
        "scratch": directory,
        "ends": time.time() + _LONGEST_QUERY,
    }
    before = set(sys.modules)

    def imported() -> str:
        die_with_parent()
        redirect(directory)
        query_process.enter_scratch(request)
        evaluate.evaluate(request, lambda report: None, threads)
        return "\n".join(sorted(set(sys.modules) - before))

    names, _ = in_child(imported)
    shutil.rmtree(directory, ignore_errors=True)
    return [name for name in names.split("\n") if name.partition(".")[0] in ("torch", "sympy", "triton", "repro_probe")]
