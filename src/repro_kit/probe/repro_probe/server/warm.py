"""Prepare a process for forking: do the imports and computations of every query before the first query."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from repro_probe.common import vec_isa
from repro_probe.common.run_files import write_whole
from repro_probe.common.torch_environment import accelerator
from repro_probe.protocol.queries import Query
from repro_probe.query import evaluate
from repro_probe.server import children, shared_builds
from repro_probe.server.children import die_with_parent, redirect
from repro_probe.server.shared_builds import build_whole

_LONGEST = 120  # seconds; the first use of a device that is busy or asleep can take some
_ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


class ForkedAccelerator(NamedTuple):
    """What a forked child found: the accelerator's `name`, and the `problem` with it; empty where there is none."""

    name: str = ""
    problem: str = ""


@contextlib.contextmanager
def accelerator_left_alone() -> Iterator[None]:
    """Within this block, ``torch.cuda.is_available()`` asks the driver's library, and does not start CUDA.

    torch itself offers that for processes that fork later (docs of ``torch.cuda.is_available``).
    """
    if _ASK_NVML in os.environ:
        yield
        return
    os.environ[_ASK_NVML] = "1"
    try:
        yield
    finally:
        del os.environ[_ASK_NVML]


def in_child(work: Callable[[], str]) -> tuple[str, int]:
    """Return the text that `work` returns in a forked child, and the status of the child."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            with open(write_end, "w", encoding="utf-8") as file:
                file.write(work())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as file:
        text = file.read()
    return text, os.waitpid(pid, 0)[1]


def ask_child() -> ForkedAccelerator:
    """Fork a child that uses the accelerator, and return what became of it.

    The runtime of an accelerator does not survive a fork: once a process has started it, torch refuses it in the
    process's children (`_is_in_bad_fork` in torch/cuda/__init__.py). A process that has not started it can fork as
    it likes.
    """
    text, status = in_child(_use)
    name, _, problem = text.partition("\n")
    return ForkedAccelerator(name, problem if not status else problem or f"the child ended with status {status}")


def _use() -> str:
    """Use the accelerator. Return its name, and on a second line what is wrong."""
    import torch

    signal.alarm(_LONGEST)
    name = ""
    try:
        name = accelerator(torch) or ""
        if name and torch.ones(2, device=name).sum().item() != 2.0:
            return f"{name}\nthe sum of two ones is wrong"
    except Exception as error:
        return f"{name}\n{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return name


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
    shared_builds.share_headers(scratch)
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
        children.enter_scratch(request)
        evaluate.evaluate(request, lambda report: None, threads)
        return "\n".join(sorted(set(sys.modules) - before))

    names, _ = in_child(imported)
    shutil.rmtree(directory, ignore_errors=True)
    return [name for name in names.split("\n") if name.partition(".")[0] in ("torch", "sympy", "triton", "repro_probe")]
