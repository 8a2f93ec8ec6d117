"""Recognise scripts that export a model and never compile it: their failures are not failures of `torch.compile`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from repro_kit.errors import UsageError

_EXPORT = ("torch.export.export", "torch.export.export_for_training", "torch.export.draft_export")
_AOTI = (
    "torch._inductor.aoti_compile_and_package",
    "torch._inductor.aot_compile",
    "torch._inductor.aoti_load_package",
    "torch._export.aot_compile",
)


def refuse_export(script: Path, shown: str) -> None:
    """Raise ReproKitError when `script` exports, and neither it nor a module beside it could call `torch.compile`."""
    tree = _parse(script)
    if tree is None or _may_compile(tree):
        return
    used = set(_used(tree))
    if used & set(_AOTI):
        exporter, instead = "AOTInductor", "set DUMP_AOTI_MINIFIER=1: PyTorch has a minifier of its own for AOTInductor"
    elif used & set(_EXPORT):
        exporter, instead = "torch.export", "torch.export.draft_export(...) reports what prevents the export"
    else:
        return
    if any(_may_compile(tree) for tree in _beside(script, tree)):
        return
    raise UsageError(
        f"{shown} uses {exporter} and no torch.compile, which is what repro-kit works on. If the model also fails as "
        f"torch.compile(model, fullgraph=True), collect a script that does that; if not, {instead}."
    )


def _parse(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # the grammar of another Python version: the user's interpreter decides


def _beside(script: Path, tree: ast.Module) -> Iterator[ast.Module]:
    """The modules in the script's own directory that it imports."""
    for name in {name.split(".")[0] for name in _imported(tree)}:
        for path in (script.parent / f"{name}.py", script.parent / name / "__init__.py"):
            module = _parse(path)
            if module is not None:
                yield module


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _used(tree: ast.Module) -> Iterator[str]:
    """The full dotted names of everything that the module imports or looks up."""
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
    """Whether the code could call `torch.compile`, directly, by `Module.compile`, or by `torch_compile=True`."""
    return any(_leads_to_compile(node) for node in ast.walk(tree))


def _leads_to_compile(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="compile"):
            return _dotted(node.value) != "re"
        case ast.Attribute(attr="optimize"):
            return (_dotted(node.value) or "").endswith("dynamo")
        case ast.ImportFrom():
            return node.module != "re" and any(alias.name == "compile" for alias in node.names)
        case ast.keyword():
            return "compile" in (node.arg or "")
    return False
