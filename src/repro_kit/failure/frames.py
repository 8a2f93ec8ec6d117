"""What a stack frame shows: torch or its compiler, compiling or running; and failures with shortened stacks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from repro_kit.failure.failure import ExceptionLink, Failure, Frame, Verdict

_MOST_OF_HANG = 24  # frames that show where something hangs
_TORCH = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python[\d.]+|pytorch)/((?:torch|functorch|triton)/.*)$")
_TORCH_LOOSE = re.compile(
    r"(?:^|/)(torch/(?:_dynamo|_inductor|_functorch|_higher_order_ops|_subclasses|fx|nn|_ops)\b.*)$"
)
_GENERATED = re.compile(
    r":codegen\(|torchinductor|<eval_with_key>|/tmp/tmp\w+/\w\w/c\w{40,}\.py$|/\w\w/c[a-z2-7]{50,}\.py$"
)

#: Files in the compiler's directories that run at run time, or that eager code uses too.
_RUNTIME = re.compile(
    r"torch/_compile\.py|torch/_dynamo/(?:eval_frame|external_utils|decorators|_trace_wrapped_higher_order_op|callback)\.py"
    r"|torch/_functorch/(?:apis|eager_transforms|vmap|pyfunctorch|autograd_function|predispatch|functional_call|utils)\.py"
    r"|torch/_functorch/_aot_autograd/(?:runtime_wrappers|utils|functional_utils)\.py"
    r"|torch/_inductor/(?:output_code|cudagraph_trees|cudagraph_utils|standalone_compile)\.py"
    r"|torch/_inductor/runtime/|torch/_inductor/package/package\.py|torch/export/(?:unflatten|_unlift)\.py"
)
#: Runtime entry points in files that compile as well: (file, function).
_RUNTIME_FUNCTIONS = {
    ("torch/_dynamo/backends/debugging.py", "run"),  # what aot_eager returns (boxed_nop)
    ("torch/_dynamo/output_graph.py", "_tf_disabled_wrapper"),
    ("torch/_functorch/aot_autograd.py", "forward"),
    ("torch/_functorch/aot_autograd.py", "returned_function"),
    ("torch/_inductor/utils.py", "run"),
    ("torch/_inductor/compile_fx.py", "wrapper"),
    ("torch/_inductor/async_compile.py", "run"),
}
_COMPILER = re.compile(
    r"torch/(?:_dynamo|_inductor|_functorch|_export|export|_compile\.py)|^triton/|torch/fx/experimental/symbolic"
)

#: Files that every failure passes through: a frame in one of them does not distinguish two bugs.
_PLUMBING = re.compile(
    r"torch/(?:_ops|_compile|_utils_internal|_tensor|overrides)\.py"
    r"|torch/_dynamo/(?:convert_frame|eval_frame|exc|utils|external_utils|bytecode_transformation|callback)\.py"
    r"|torch/_library/|torch/utils/|torch/nn/modules/module\.py|torch/fx/(?:interpreter|graph_module|_lazy_graph_module|proxy)\.py"
    r"|torch/_prims_common/|torch/_subclasses/(?:fake_tensor|fake_utils|functional_tensor)|torch/fx/experimental/proxy_tensor|torch/_higher_order_ops/utils\.py|torch/autograd/"
    r"|torch/_functorch/_aot_autograd/(?:runtime_wrappers|utils|logging_utils)\.py"
)

#: Functions in other files that run every operator, or raise for every caller: ``file:function``.
_FOR_ALL = re.compile(
    r"torch/fx/experimental/symbolic_shapes\.py:run_node|torch/__init__\.py:_check\w*"
    r"|torch/_dynamo/variables/builder\.py:_?wrap_fx_proxy\w*"
)

#: Files that every compile passes through on its way to the step that matters.
_TRUNK = re.compile(
    r"torch/__init__\.py|torch/_dynamo/(?:output_graph|symbolic_convert|repro/|backends/common)"
    r"|torch/_inductor/compile_fx\.py|torch/_functorch/(?:aot_autograd|_aot_autograd/(?:graph_compile|autograd_cache))\.py"
)


def torch_path(file: str) -> str | None:
    """The path of a file of torch or triton, from ``torch/`` on; None for any other file."""
    path = file.replace("\\", "/")
    match = _TORCH.search(path) or _TORCH_LOOSE.search(path)
    return match.group(1) if match else None


def is_generated(frame: Frame) -> bool:
    """Whether `frame` runs code that torch generated."""
    return bool(_GENERATED.search(frame.file.replace("\\", "/")))


def is_compiler(frame: Frame) -> bool:
    """Whether `frame` belongs to torch's compiler stack, at compile time or at run time."""
    path = torch_path(frame.file)
    return is_generated(frame) or bool(path and _COMPILER.search(path))


def rises_in_compiler(frames: Sequence[Frame]) -> bool:
    """Whether the event at the end of `frames` happened in the compiler, or in code that the compiler generated.

    Frames of the compiler's runtime further out prove nothing: after a graph break the user's own code runs below them.
    """
    if any(is_compiling(frame) or is_generated(frame) for frame in frames):
        return True
    for frame in reversed(frames):
        if is_compiler(frame) and not _is_import(frame):
            return True
        if torch_path(frame.file) is None:
            break
    return False


def _is_import(frame: Frame) -> bool:
    """Whether `frame` is the body of a module of torch: ``import torch`` alone imports parts of the compiler."""
    return frame.function == "<module>" and not is_generated(frame)


def is_compiling(frame: Frame) -> bool:
    """Whether `frame` runs only while something is compiled."""
    path = torch_path(frame.file)
    if not path or not _COMPILER.search(path) or is_generated(frame) or _is_import(frame):
        return False
    return not _RUNTIME.search(path) and (path, frame.function) not in _RUNTIME_FUNCTIONS


def innermost_torch(frames: Sequence[Frame], limit: int) -> tuple[str, ...]:
    """Up to `limit` innermost frames inside torch as ``file.py:function``, innermost first, without plumbing."""
    inside = ((torch_path(frame.file), frame.function) for frame in reversed(frames) if not is_generated(frame))
    telling = [(path, name) for path, name in inside if path and not (_PLUMBING.search(path) or _RUNTIME.search(path))]
    names = (
        f"{path.rsplit('/', 1)[-1]}:{name}"
        for path, name in telling
        if (path, name) not in _RUNTIME_FUNCTIONS and not _FOR_ALL.fullmatch(f"{path}:{name}")
    )
    return tuple(dict.fromkeys(names))[:limit]


def telling_frame(frames: Sequence[Frame], *, of_hang: bool = False) -> Frame | None:
    """The innermost frame inside torch that distinguishes two failures. A hang: without what all compiles pass."""
    own = [frame for frame in frames if not (of_hang and _TRUNK.search(torch_path(frame.file) or ""))]
    return next((frame for frame in reversed(own) if innermost_torch([frame], 1)), None)


def recurring_torch(frames: Sequence[Frame]) -> tuple[str, ...]:
    """The functions of torch that occur in `frames` more than once, in alphabetical order.

    They are the loop of an endless recursion. At which of them it reaches its limit is chance.
    """
    count = Counter((frame.file, frame.function) for frame in frames)
    again = [frame for frame in frames if count[frame.file, frame.function] > 1]
    return tuple(sorted(innermost_torch(again, len(again))))


def compiling_part(frames: Sequence[Frame]) -> str:
    """The part of the compiler that is compiling (``torch/_inductor``); "" when nothing is being compiled."""
    for frame in reversed(frames):
        path = torch_path(frame.file) or ""
        if is_compiling(frame) and path.startswith(("torch/_inductor", "torch/_functorch", "torch/_dynamo")):
            return "/".join(path.split("/")[:2])
    return ""


def main_torch(frames: Sequence[Frame]) -> tuple[str, ...]:
    """The frames inside torch that locate a hang, innermost first, in the form of `innermost_torch`.

    Files that every compile passes through are left out, unless there are no others.
    """
    own = [frame for frame in frames if not _TRUNK.search(torch_path(frame.file) or "")]
    return innermost_torch(own, _MOST_OF_HANG) or innermost_torch(frames, _MOST_OF_HANG)


_HEAD, _TAIL = 4000, 1000  # characters
_FRAMES = 30


def brief(verdict: Verdict) -> Verdict:
    """`verdict` with a shortened failure: the middle of long texts and torch's outer frames of long stacks go."""
    verdict = replace(verdict, wrong=(), right=())  # of use only for who looks for the statement at once
    return replace(verdict, failure=brief_failure(verdict.failure)) if verdict.failure else verdict


def brief_failure(failure: Failure) -> Failure:
    """`failure`, shortened in the same way. Compute the signature first: it needs the whole texts."""
    return replace(
        failure,
        exceptions=tuple(map(_brief_link, failure.exceptions)),
        text=shortened(failure.text),
        stack=failure.stack[-_FRAMES:],
    )


def _brief_link(link: ExceptionLink) -> ExceptionLink:
    outer, inner = link.frames[:-_FRAMES], link.frames[-_FRAMES:]
    users = [frame for frame in outer if torch_path(frame.file) is None]
    return replace(link, message=shortened(link.message), frames=(*users[-_FRAMES:], *inner))


def shortened(text: str, head: int = _HEAD, tail: int = _TAIL) -> str:
    """`text` without its middle. A note in its place gives the number of characters left out."""
    if len(text) <= head + tail:
        return text
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:]}"
