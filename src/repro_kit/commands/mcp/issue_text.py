"""The script in the text of an issue: its block of Python code that calls the compiler."""

from __future__ import annotations

import ast
import re
import textwrap
from itertools import count
from pathlib import Path

from repro_kit.errors import UsageError

_LARGEST = 64 << 20  # bytes
_FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,})[ \t]*(?P<kind>[\w+-]*)[^\n]*\n(?P<code>.*?)^(?P=fence)", re.M | re.S)
_PYTHON = ("", "py", "python", "python3", "pycon")
_COMPILES = re.compile(r"torch\s*\.\s*(compile|export|_dynamo|_inductor|jit)|\baot_compile|\bcompile\(")


def script_in(text: str) -> str:
    """The code block that is Python, imports torch, and compiles; of several the longest. Raises UsageError."""
    text = text.replace("\r\n", "\n")
    blocks = [textwrap.dedent(match["code"]) for match in _FENCE.finditer(text) if match["kind"].lower() in _PYTHON]
    scripts = [code for code in [*blocks, text] if "torch" in code and _is_python(code)]
    compiling = [code for code in scripts if _COMPILES.search(code)]
    if not scripts:
        raise UsageError("The text holds no block of Python code that imports torch; give the script as a target.")
    return max(compiling or scripts, key=len)


def script_path(code: str, directory: Path) -> Path:
    """Where the script `code` goes in `directory`: issue.py, issue-2.py …, the first that is free or holds it."""
    for number in count(1):
        path = directory / (f"issue-{number}.py" if number > 1 else "issue.py")
        if not path.is_symlink() and (not path.exists() or _holds(path, code)):
            break
    return path


def _holds(path: Path, code: str) -> bool:
    return path.is_file() and path.stat().st_size < _LARGEST and path.read_bytes() == code.encode()


def _is_python(code: str) -> bool:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))
