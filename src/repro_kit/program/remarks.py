"""Remove comments and docstrings from Python code. All other text stays as it is."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

#: Comments that a program reads: `torch.jit` the types in them.
_READ = re.compile(r"#\s*type:")
_DOC = re.compile(r"\b__doc__\b|\bgetdoc\b")
_Place = tuple[int, int, int]  # line, and columns from and to; the whole line if nothing else is on it


def without_remarks(code: str) -> str:
    """`code` without comments, and without docstrings unless it mentions them; unchanged if it is not Python."""
    try:
        bare = _without(code, _comments(code))
        bare = bare if _DOC.search(code) else _without(bare, _docstrings(bare))
        ast.parse(bare)
    except (SyntaxError, ValueError, tokenize.TokenError, RecursionError):
        return code
    return bare


def _comments(code: str) -> Iterator[tuple[_Place, str]]:
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT and not _READ.match(token.string):
            yield (token.start[0], token.start[1], token.end[1]), ""


def _docstrings(code: str) -> Iterator[tuple[_Place, str]]:
    """Statements that are only a text. One that is a whole body becomes ``pass``."""
    lines = code.split("\n")
    for node in ast.walk(ast.parse(code)):
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            texts = [part for part in body if _is_text(part)] if isinstance(body, list) else []
            for text in texts:
                last = text.end_lineno or text.lineno
                stays = "pass" if texts == body and text is texts[0] and not isinstance(node, ast.Module) else ""
                for line in range(text.lineno, last + 1):
                    first = _column(lines[line - 1], text.col_offset) if line == text.lineno else 0
                    end = _column(lines[line - 1], text.end_col_offset or 0) if line == last else len(lines[line - 1])
                    yield (line, first, end), stays if line == text.lineno else ""


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _column(line: str, offset: int) -> int:
    """A column in characters; the syntax tree counts bytes."""
    return len(line.encode()[:offset].decode())


def _without(code: str, places: Iterator[tuple[_Place, str]]) -> str:
    """`code` with other text at the `places`; a line of which nothing is left goes."""
    lines: list[str | None] = [*code.split("\n")]
    for (line, first, end), stays in sorted(places, reverse=True):
        text = lines[line - 1] or ""
        rest = text[end:].lstrip("; ") if text[end:].startswith(";") else text[end:]
        text = f"{text[:first]}{stays}{'; ' if stays and rest.strip() else ''}{rest}".rstrip()
        lines[line - 1] = text or None
    return "\n".join(line for line in lines if line is not None)
