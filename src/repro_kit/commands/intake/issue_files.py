"""A program in several files within the text of an issue: which name each block of code has, and who imports whom.

A name stands in the last line before a block, in its first line, behind the fence, or in the line of a shell that
writes the file. A file is written to where an import looks for it, so no name in the text decides where that is.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

BlockKind = Literal["script", "artifact", "fragment", "broken", "traceback", "log", "versions", "other"]
MAIN = "main.py"
_LARGEST = 64 << 20  # bytes
#: What compiles something, or hands a function to a library that does.
COMPILES = re.compile(r"torch\s*\.\s*(compile|export|_dynamo|_inductor|jit)|\baot_compile|\bcompile\(")
_NAME = re.compile(r"(?<![\w.])[\w./\\~:-]*?\w\.pyw?\b(?![\w.]*\w\()")
_TAG = re.compile(r"<[^>\n]*>")
_NEAR = 3  # lines between a name and its block
_LONGEST = 100  # characters of a line that is a heading
#: A line of code that names the file that begins with it.
_HEADING = re.compile(
    r"^(?:%%(?:writefile|file)(?: -a)?|[ \t#/*=-]*+(?:(?:file ?(?:name)?|path|module)\b[ \t]*[:=]?)?)"
    r"[ \t]*[`'\"<\[(]*(?P<name>[\w./\\~:-]*+(?<=\w\.py))[`'\">\])]*"
    r"(?:[ \t]*\([^)\n]*\)|[ \t]+[-:\u2013\u2014]+[ \t][^\n]*)?[:#/*= \t-]*$",
    re.IGNORECASE | re.MULTILINE,
)
_BANNER = re.compile(r"\A(?:[ \t#/*=-]*\n)*")
#: What scripts of issues import that is installed, and no part of the text.
_PACKAGES = frozenset(
    re.findall(
        r"\w+",
        """accelerate apex av bitsandbytes cupy cv2 datasets deepspeed detectron2 dgl diffusers einops ema_pytorch
        fairscale fairseq flash_attn functorch gym gymnasium huggingface_hub hydra jax jaxtyping keras kornia librosa
        lightning lightning_fabric loguru matplotlib mlflow mmcv mmdet mmengine mmseg monai numba numpy omegaconf onnx
        onnxruntime onnxscript open_clip optree pandas peft PIL plotly psutil pydantic pytest pytorch_lightning ray
        requests rich safetensors scipy seaborn sentence_transformers sentencepiece sglang skimage sklearn sympy
        tensorboard tensordict tensorflow tiktoken timm tokenizers tqdm transformer_engine transformers triton trl
        ultralytics unsloth vllm wandb xformers yaml""",
    )
)


class Part(NamedTuple):
    """What stands between fences, with its first line, and the name of a file that the text gives it."""

    language: str
    text: str
    line: int
    name: str = ""


@dataclass(frozen=True)
class Block:
    """A part of the text. `line` is that of its first one; `problem` says why a broken script is none.

    `name`: the file that it is, if the text says so. `parts`: the other files of the program, by the path from its own
    directory at which an import looks for each.
    """

    kind: BlockKind
    text: str
    line: int
    problem: str = ""
    name: str = ""
    parts: tuple[tuple[str, Block], ...] = ()

    @property
    def compiles(self) -> bool:
        """Whether it is a program that compiles something."""
        texts = (self.text, *(part.text for _, part in self.parts))
        return self.kind == "artifact" or any(map(COMPILES.search, texts))

    @property
    def words(self) -> str:
        """The block in one line."""
        lines = self.text.strip().splitlines()
        first = next((line.strip() for line in lines if line.strip()), "")
        named = f"{self.name} ({self.kind})" if self.name else self.kind
        return f"{named}, line {self.line}, {len(lines)} lines: {first[:60]}"

    @property
    def files(self) -> dict[str, str]:
        """The text of each file of the program by its path, that which is run first.

        What was a package in the author's directory are modules beside the script here.
        """
        own = PurePosixPath(self.name).name
        files = {own if own.endswith(".py") else MAIN: self.text} | {path: part.text for path, part in self.parts}
        return {path: text if "/" in path else _of_no_package(text) for path, text in files.items()}

    @property
    def shown(self) -> str:
        """All code that would run."""
        if not self.parts:
            return self.text
        return "\n\n".join(f"----- {path}\n{text.rstrip()}" for path, text in self.files.items()) + "\n"


def free_path(text: str, directory: Path, name: str = "issue", suffix: str = ".py") -> Path:
    """Where `text` goes in `directory`: issue.py, issue-2.py …, the first that is free or holds it."""
    for number in count(1):
        path = directory / (f"{name}-{number}{suffix}" if number > 1 else f"{name}{suffix}")
        if not path.is_symlink() and (not path.exists() or _holds(path, text)):
            break
    return path


def _holds(path: Path, code: str) -> bool:
    return path.is_file() and path.stat().st_size < _LARGEST and path.read_bytes() == code.encode()


def name_in(line: str) -> str:
    """The name of the one file that a line of prose, or what stands behind a fence, is about; else empty."""
    plain = _TAG.sub(" ", line).strip()
    names = {_plain(found) for found in _NAME.findall(plain)} if len(plain) <= _LONGEST else ()
    return next(iter(names)) if len(names) == 1 else ""


def name_above(prose: Sequence[str]) -> str:
    """The name of the block that the lines `prose` end before."""
    last = next((line for line in reversed(prose[-_NEAR:]) if _TAG.sub("", line).strip()), "")
    return name_in(last)


def name_within(code: str) -> str:
    """The name that the first line of `code` gives it."""
    heading = _HEADING.match(_BANNER.sub("", code))
    return _plain(heading["name"]) if heading else ""


def is_package(module: str) -> bool:
    """Whether `module` is of Python's library or of a package that is installed, by its name."""
    top = module.partition(".")[0]
    return top.startswith("torch") or top in _PACKAGES or top in sys.stdlib_module_names


def _plain(name: str) -> str:
    """`name` with slashes; of a path that leads elsewhere the last part."""
    slashed = name.replace("\\", "/").removeprefix("./")
    leads_out = slashed.startswith(("/", "~")) or ":" in slashed or ".." in slashed.split("/")
    return re.split("[/:]", slashed)[-1] if leads_out else slashed


def left_out(code: str) -> str:
    """The first statement of `code` in which the author left something out: ``model = ...``; empty if there is none."""
    for node in ast.walk(_tree(code) or ast.Module([], [])):
        values = [node.value] if isinstance(node, ast.Assign | ast.Return) else []
        values += node.args if isinstance(node, ast.Call) else []
        if any(isinstance(value, ast.Constant) and value.value is Ellipsis for value in values):
            return ast.unparse(node).splitlines()[0]
    return ""


def apart(code: str) -> list[tuple[str, str, int]]:
    """(name, text, lines before it) of each file in `code`, where lines name several files and one imports another."""
    found = list(_HEADING.finditer(code))
    if len({match["name"] for match in found}) < 2 or _BANNER.sub("", code[: found[0].start()]).strip():
        return []
    ends = [*(match.start() for match in found[1:]), len(code)]
    files = [
        (
            _plain(match["name"]),
            _BANNER.sub("", code[match.end() : end]).strip("\n") + "\n",
            code[: match.end()].count("\n") + 1,
        )
        for match, end in zip(found, ends, strict=True)
    ]
    blocks = [Block("fragment", text, 0, name=name) for name, text, _ in files if _tree(text) is not None]
    joined = len(blocks) == len(files) and any(block.parts for block in with_parts(blocks))
    return files if joined else []


def with_parts(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """`blocks`, each with the named ones that it imports, directly or not; what imports one is a script."""
    named = {block.name: block for block in reversed(blocks) if block.name}
    return tuple(
        _with_parts(block, named) if named and block.kind in ("script", "fragment", "other") else block
        for block in blocks
    )


def _with_parts(block: Block, named: Mapping[str, Block]) -> Block:
    found: dict[str, Block] = {}
    waiting = [("", block)]
    while waiting:
        path, importer = waiting.pop(0)
        for wanted in _wanted(importer.text, path):
            part = _called(wanted, named)
            if part is None or part is block or wanted in found:
                continue
            if _tree(part.text) is None:
                return replace(block, kind="broken", problem=f"it imports {part.name} (line {part.line}), which is cut")
            found[wanted] = part
            waiting.append((wanted, part))
    return replace(block, kind="script", parts=tuple(found.items())) if found else block


def _called(path: str, named: Mapping[str, Block]) -> Block | None:
    """The file that the text names `path`, or by a longer or a shorter path with the same end."""
    if path in named:
        return named[path]
    last = path.rpartition("/")[2]
    shorter = "" if last == "__init__.py" else last
    alike = [name for name in named if name.endswith(f"/{path}")] or [name for name in named if name == shorter]
    return named[alike[0]] if len(alike) == 1 else None


def _wanted(code: str, path: str) -> Iterator[str]:
    """Where the imports of `code`, the text of the file at `path`, look for modules that no package has."""
    tree = _tree(code)
    for node in ast.walk(tree) if tree else ():
        for parts in _modules(node, PurePosixPath(path).parent.parts):
            for end in range(1, len(parts) + 1):
                inner = "/".join(parts[:end])
                yield from (f"{inner}/__init__.py", f"{inner}.py")


def _modules(node: ast.AST, package: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The modules that `node` may import, within `package`, by the parts of their names."""
    match node:
        case ast.Import(names=names):
            found = [tuple(alias.name.split(".")) for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            above = package[: max(0, len(package) - level + 1)] if level else ()
            base = (*above, *(module.split(".") if module else ()))
            found = [base, *((*base, alias.name) for alias in names if alias.name != "*")]
        case _:
            return []
    if isinstance(node, ast.ImportFrom) and node.level:
        return [parts for parts in found if parts]
    # a file of the text may be called like a package, and no directory of it is looked for in the text
    return [parts[:1] if is_package(parts[0]) else parts for parts in found if parts[0] != "torch"]


def _of_no_package(code: str) -> str:
    """`code` with ``from model import Net`` in place of ``from .model import Net``, each import on its lines."""
    tree, lines = _tree(code), code.splitlines(keepends=True)
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and each.level == 1] if tree else []
    for node in sorted(imports, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        absolute = ast.ImportFrom(node.module, node.names, 0) if node.module else ast.Import(node.names)
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        before = lines[first].encode()[: node.col_offset].decode()
        after = lines[last].encode()[node.end_col_offset :].decode()
        lines[first : last + 1] = [f"{before}{ast.unparse(absolute)}{after}", *["\n"] * (last - first)]
    return "".join(lines)


def _tree(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return None
