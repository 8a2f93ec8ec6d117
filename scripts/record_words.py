#!/usr/bin/env python3
"""Write the redactor's word lists: the names in torch, and the words of torch's own texts.

    .venv/bin/python scripts/record_words.py

Run it under a newer torch now and then. `torch.txt` has the names that are never replaced: operators, modules and
their attributes, classes, settings, the kinds of records in a trace. `common.txt` has the words that occur often in
torch's source, and those of repro-kit's own sentences: a variable of that value tells nothing, unless the variable is
named like a secret, and a directory of that name must not be taken out of a sentence.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

_PLACE = Path(__file__).resolve().parents[1] / "src" / "repro_kit" / "bundle" / "privacy" / "words"
_OWN = Path(__file__).resolve().parents[1] / "src" / "repro_kit"
_ROOT = Path(torch.__file__).parent
_LEFT_OUT = ("testing/_internal", "test/", "_vendor", "include/", "share/", "bin/", "lib/")
_OFTEN = 30  # occurrences that make a word a common one
_SHORTEST, _LONGEST = 2, 14
_NAMESPACES = ("aten", "prims", "prim", "quantized", "inductor", "c10d", "_c10d_functional", "higher_order")
_MODULES = (
    "torch", "torch.nn", "torch.nn.functional", "torch.nn.utils", "torch.nn.init", "torch.nn.attention",
    "torch.nn.attention.flex_attention", "torch.optim", "torch.optim.lr_scheduler", "torch.linalg", "torch.fft",
    "torch.special", "torch.sparse", "torch.amp", "torch.cuda", "torch.mps", "torch.xpu", "torch.cpu", "torch.autograd",
    "torch.func", "torch.fx", "torch.library", "torch.export", "torch.compiler", "torch.distributed", "torch.profiler",
    "torch.utils.data", "torch.utils.checkpoint", "torch.backends", "torch.backends.cuda", "torch.backends.cudnn",
    "torch.nested", "torch.masked", "torch.jit", "torch.testing", "torch.distributions", "torch.ao.quantization",
    "torch.Tensor", "torch.nn.Module", "torch.Generator", "torch.UntypedStorage", "torch.fx.Graph", "torch.fx.Node",
    "torch.fx.GraphModule", "torch.SymInt", "torch.autograd.Function",
)  # fmt: skip
_SETTINGS = ("_dynamo/config.py", "_inductor/config.py", "_functorch/config.py", "compiler/config.py")
_BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor", "cudagraphs", "onnxrt", "tvm", "openxla")
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
#: Names of people and companies: whoever has such a name wants it out of a report.
_NAMES = {"alice", "bob", "facebook", "google", "amazon", "microsoft"}
_EVENT = re.compile(r"trace_structured\(\s*\"(\w+)\"|\"(\w+)\": |name=\"(\w+)\"|metadata\[\"(\w+)\"\]")


def sources() -> Iterator[tuple[str, str]]:
    """(path, text) of torch's Python files."""
    for path in sorted(_ROOT.rglob("*.py")):
        name = path.relative_to(_ROOT).as_posix()
        if not name.startswith(_LEFT_OUT):
            yield name, path.read_text(encoding="utf-8", errors="replace")


def names() -> Iterator[str]:
    """Every name in torch that a report may show."""
    yield from (*_BACKENDS, *_MODES, "torch", "pytorch", "github", "graph_break", "cpu", "cuda", "meta", "triton")
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, operator = schema.name.partition("::")
        if namespace in _NAMESPACES:
            yield from (namespace, operator, operator.strip("_"), schema.overload_name)
    for name in _MODULES:
        yield from dir(_object(name))
    for name, text in sources():
        yield from re.split(r"[/.]", name.removesuffix(".py"))
        tree = ast.parse(text)
        yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        if name in _SETTINGS:
            yield from (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        if name.startswith(("_inductor/", "_dynamo/", "_functorch/", "_logging/")):
            yield from (word for groups in _EVENT.findall(text) for word in groups)


def _object(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ImportError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


def common() -> Iterator[str]:
    """Words that torch's texts use often."""
    counts: Counter[str] = Counter()
    for _, text in sources():
        counts.update(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text))
    yield from (word for word, count in counts.items() if count >= _OFTEN and _SHORTEST <= len(word) <= _LONGEST)
    yield from own()


def own() -> Iterator[str]:
    """Words of repro-kit's own sentences."""
    for path in sorted(_OWN.rglob("*.py")):
        if path.is_relative_to(_PLACE.parent) or path.is_relative_to(_OWN / "probe"):
            continue
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield from re.findall(r"(?<![\w.\\])[a-z]{4,14}(?![\w(])(?=.* | )", node.value)


def write(file: str, words: Iterator[str]) -> set[str]:
    """Write the words, one per line. Words that are too short to be told from other text are left out."""
    kept = {word.lower() for word in words if len(word) >= _SHORTEST and re.fullmatch(r"[A-Za-z_][\w-]+", word)}
    (_PLACE / file).write_text("\n".join(sorted(kept)) + "\n", encoding="utf-8")
    return kept


def main() -> int:
    """Write both lists."""
    torch_names = write("torch.txt", names())
    write("common.txt", (word for word in common() if word not in torch_names | _NAMES))
    print(f"torch {torch.__version__}: {len(torch_names)} names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
