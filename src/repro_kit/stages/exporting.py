"""Recognise scripts that export a model and never compile it: these failures are not `torch.compile`'s."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from repro_kit.errors import ReproKitError

_EXPORT = ("torch.export.export", "torch.export.export_for_training", "torch.export.draft_export")
_AOTI = (
    "torch._inductor.aoti_compile_and_package",
    "torch._inductor.aot_compile",
    "torch._inductor.aoti_load_package",
    "torch._export.aot_compile",
)


def refuse_export(source: bytes, shown: str) -> None:
    """Raise ReproKitError when the script `source` exports and uses nothing that could lead to `torch.compile`."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # newer or older grammar than ours; the user's interpreter has already accepted it
    if _may_compile(tree):
        return
    used = set(_used(tree))
    if used & set(_AOTI):
        raise ReproKitError(
            f"{shown} uses AOTInductor, and no torch.compile, which is what repro-kit works on. If the model also fails "
            "as torch.compile(model, fullgraph=True), collect a script that does that; "
            "if not, set DUMP_AOTI_MINIFIER=1, PyTorch's own minifier for AOTInductor."
        )
    if used & set(_EXPORT):
        raise ReproKitError(
            f"{shown} uses torch.export, and no torch.compile, which is what repro-kit works on. If the model also fails "
            "as torch.compile(model, fullgraph=True), collect a script that does that; "
            "if not, torch.export.draft_export(...) reports what stands in the way."
        )


def _used(tree: ast.Module) -> Iterator[str]:
    """Full dotted names of everything imported or looked up."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        dotted = _dotted(node) if isinstance(node, ast.Attribute) else None
        if dotted:
            first, _, rest = dotted.partition(".")
            yield f"{names.get(first, first)}.{rest}"


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else None
    return None


def _may_compile(tree: ast.Module) -> bool:
    """Whether anything could lead to `torch.compile`: the function, `Module.compile`, a trainer's `torch_compile=True`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "compile" and _dotted(node.value) != "re":
            return True
        if isinstance(node, ast.ImportFrom) and any(alias.name == "compile" for alias in node.names):
            return node.module != "re"
        if isinstance(node, ast.keyword) and node.arg and "compile" in node.arg:
            return True
        if isinstance(node, ast.Attribute) and _dotted(node) in ("torch._dynamo.optimize", "dynamo.optimize"):
            return True
    return False
