"""What a stack frame tells: inside torch or not, inside its compiler or not, compiling or running."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from repro_kit.model.failure import Frame

_TORCH = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python[\d.]+|pytorch)/((?:torch|functorch|triton)/.*)$")
_TORCH_LOOSE = re.compile(
    r"(?:^|/)(torch/(?:_dynamo|_inductor|_functorch|_higher_order_ops|_subclasses|fx|nn|_ops)\b.*)$"
)
_GENERATED = re.compile(
    r":codegen\(|torchinductor|<eval_with_key>|/tmp/tmp\w+/\w\w/c\w{40,}\.py$|/\w\w/c[a-z2-7]{50,}\.py$"
)

#: Parts of the compiler's directories that run when compiled code runs, or that eager code uses too.
_RUNTIME = re.compile(
    r"torch/_compile\.py|torch/_dynamo/(?:eval_frame|external_utils|decorators|_trace_wrapped_higher_order_op|callback)\.py"
    r"|torch/_functorch/(?:apis|eager_transforms|vmap|pyfunctorch|autograd_function|predispatch|functional_call|utils)\.py"
    r"|torch/_functorch/_aot_autograd/(?:runtime_wrappers|utils|functional_utils)\.py"
    r"|torch/_inductor/(?:output_code|cudagraph_trees|cudagraph_utils|standalone_compile)\.py"
    r"|torch/_inductor/runtime/"
)
#: Runtime entry points in files that compile as well: (file, function).
_RUNTIME_FUNCTIONS = {
    ("torch/_functorch/aot_autograd.py", "forward"),
    ("torch/_functorch/aot_autograd.py", "returned_function"),
    ("torch/_inductor/utils.py", "run"),
    ("torch/_inductor/compile_fx.py", "wrapper"),
    ("torch/_inductor/async_compile.py", "run"),
}
_COMPILER = re.compile(r"torch/(?:_dynamo|_inductor|_functorch|_compile\.py)|^triton/|torch/fx/experimental/symbolic")

#: Files every failure passes through; a frame there does not tell one bug from another.
_PLUMBING = re.compile(
    r"torch/(?:_ops|_compile|_utils_internal|_tensor|overrides)\.py"
    r"|torch/_dynamo/(?:convert_frame|eval_frame|exc|utils|external_utils|bytecode_transformation|callback)\.py"
    r"|torch/_library/|torch/utils/|torch/nn/modules/module\.py|torch/fx/(?:interpreter|graph_module|proxy)\.py"
    r"|torch/_prims_common/|torch/_subclasses/fake_|torch/_higher_order_ops/utils\.py|torch/autograd/"
    r"|torch/_functorch/_aot_autograd/(?:runtime_wrappers|utils|logging_utils)\.py"
)


def torch_path(file: str) -> str | None:
    """Path of a file of torch (or of triton) from ``torch/`` on; None for any other file."""
    path = file.replace("\\", "/")
    found = _TORCH.search(path) or _TORCH_LOOSE.search(path)
    return found.group(1) if found else None


def is_generated(frame: Frame) -> bool:
    """Whether `frame` runs code that torch generated."""
    return bool(_GENERATED.search(frame.file.replace("\\", "/")))


def is_compiler(frame: Frame) -> bool:
    """Whether `frame` belongs to torch's compiler stack, at compile time or at run time."""
    path = torch_path(frame.file)
    return is_generated(frame) or bool(path and _COMPILER.search(path))


def is_compiling(frame: Frame) -> bool:
    """Whether `frame` runs only while something is compiled."""
    path = torch_path(frame.file)
    if not path or not _COMPILER.search(path) or is_generated(frame):
        return False
    return not _RUNTIME.search(path) and (path, frame.function) not in _RUNTIME_FUNCTIONS


def innermost_torch(frames: Sequence[Frame], limit: int) -> tuple[str, ...]:
    """The innermost frames inside torch as ``file.py:function``, innermost first, without mere plumbing.

    When nothing but plumbing is there, the plumbing is returned.
    """
    inside = [(path, frame.function) for frame in reversed(frames) if (path := torch_path(frame.file))]
    telling = [pair for pair in inside if not _PLUMBING.search(pair[0])]
    return tuple(_distinct(f"{path.rsplit('/', 1)[-1]}:{name}" for path, name in telling or inside))[:limit]


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
