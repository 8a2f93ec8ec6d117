"""Pieces of Python code: statements as one text, the names that they bind and read, and code without remarks."""

from __future__ import annotations

import ast
import io
import keyword
import re
import symtable
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def text_of(source: str, node: ast.stmt) -> str:
    """The lines of the statement with comments and decorators, dedented; only its own part of a shared line."""
    first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
    lines = source.splitlines()[first - 1 : node.end_lineno]
    before = lines[0].encode()[: node.col_offset] if first == node.lineno else b""
    after = lines[-1].encode()[node.end_col_offset or 0 :].lstrip()
    if before.strip() or after.startswith(b";"):
        return ast.get_source_segment(source, node) or ast.unparse(node)
    return textwrap.dedent("\n".join(lines))


def joined(pieces: Iterable[str]) -> str:
    """Statements of a module as one text, with blank lines where people put them; each import once.

    Pieces without a statement are left out.
    """
    parsed = {at: (piece, body[-1]) for at, piece in enumerate(pieces) if (body := ast.parse(piece).body)}
    imports = {piece: at for at, (piece, node) in reversed(parsed.items()) if isinstance(node, _IMPORTS)}
    kept = [(piece, node) for at, (piece, node) in parsed.items() if imports.get(piece, at) == at]
    gaps = [_gap(before, after) for (_, before), (_, after) in pairwise(kept)]
    return "".join(piece + gap for (piece, _), gap in zip(kept, [*gaps, ""], strict=False))


def _gap(before: ast.stmt, after: ast.stmt) -> str:
    if isinstance(before, _DEFINITIONS) or isinstance(after, _DEFINITIONS):
        return "\n\n\n"
    return "\n" if isinstance(before, _IMPORTS) == isinstance(after, _IMPORTS) else "\n\n"


def bound_names(*statements: ast.stmt) -> set[str]:
    """The names that statements of a module bind; ``*`` for unknown ones."""
    names: set[str] = set()
    for node in statements:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name.partition(".")[0] for alias in aliases}
            case _:
                stored = (part for part in ast.walk(node) if isinstance(part, ast.Name))
                names |= {part.id for part in stored if isinstance(part.ctx, ast.Store)}
    return names


def fresh_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or with a number if that is taken or a keyword; the name is taken then."""
    name, count = wanted, 0
    while name in taken or keyword.iskeyword(name):
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name


def reads_of(code: str) -> set[str]:
    """Global names that `code` (statements of a module) reads, in functions too. Parameters and locals do not count.

    Raises SyntaxError when `code` is not Python.
    """
    own_scopes = ast.unparse(_AsGenerators().visit(ast.parse(code)))
    return set(_referenced(symtable.symtable(own_scopes, "<code>", "exec"), top=True))


class _AsGenerators(ast.NodeTransformer):
    """Makes comprehensions generators, with the same names: since Python 3.12 only generators have their own scope."""

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        """[x for ...] as (x for ...)."""
        return self.generic_visit(ast.GeneratorExp(node.elt, node.generators))

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        """{x for ...} as (x for ...)."""
        return self.generic_visit(ast.GeneratorExp(node.elt, node.generators))

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        """{x: y for ...} as ((x, y) for ...)."""
        both = ast.Tuple([node.key, node.value], ast.Load())
        return self.generic_visit(ast.GeneratorExp(both, node.generators))


def _referenced(table: symtable.SymbolTable, *, top: bool) -> list[str]:
    symbols = table.get_symbols()
    own = [
        symbol.get_name()
        for symbol in symbols
        if symbol.is_declared_global() or (symbol.is_referenced() and (top or symbol.is_global()))
    ]
    return own + [name for child in table.get_children() for name in _referenced(child, top=False)]


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


def in_short_lines(code: str, longest: int = 98) -> str:
    """The same program, with arguments on lines of their own where a line is longer."""
    text = "\n".join(part for line in code.split("\n") for part in _parted(line, longest))
    try:
        return text if ast.dump(ast.parse(text)) == ast.dump(ast.parse(code)) else code
    except SyntaxError:  # a line within a string
        return code


def _parted(line: str, longest: int) -> list[str]:
    """`line`, parted at the commas of its longest brackets if it is too long."""
    brackets = max(_brackets(line), key=lambda ends: ends[-1] - ends[0], default=()) if len(line) > longest else ()
    if not brackets:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    items = [line[start + 1 : end + (line[end] == ",")].strip() for start, end in pairwise(brackets)]
    lines = [line[: brackets[0] + 1], *(f"{indent}    {item}" for item in items if item), indent + line[brackets[-1] :]]
    return [part for each in lines for part in (_parted(each, longest) if len(each) < len(line) else [each])]


def _brackets(line: str) -> Iterator[tuple[int, ...]]:
    """Where each outermost bracket of `line` opens, has its commas, and closes; of brackets with something in them.

    A comma between the parameters of a lambda parts nothing.
    """
    open_: list[list[int]] = []
    lambdas = 0  # whose parameters are being read
    with suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline):
            at = token.start[1] + len(line) - len(line.lstrip())
            if token.string in ("(", "[", "{"):
                open_.append([at])
            elif token.string in (")", "]", "}") and open_:
                ends = open_.pop()
                if not open_ and at > ends[0] + 1:
                    yield (*ends, at)
            elif len(open_) == 1:
                lambdas += (token.string == "lambda") - (token.string == ":" and lambdas > 0)
                if token.string == "," and not lambdas:
                    open_[0].append(at)


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


def with_slices(line: str) -> str:
    """A line of code with ``x[:, i]`` in place of ``x[slice(None, None, None), i]``."""
    try:
        tree = ast.parse(line.strip()) if re.search(r"\[.*\bslice\(", line) else None
    except SyntaxError:  # a part of a statement
        tree = None
    before = ast.dump(tree) if tree else ""
    if tree is None or ast.dump(_Slices().visit(tree)) == before:
        return line  # with its own quotes
    return line[: len(line) - len(line.lstrip())] + ast.unparse(tree)


class _Slices(ast.NodeTransformer):
    """Writes the slices in indices as Python does."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        several = isinstance(node.slice, ast.Tuple) and bool(node.slice.elts)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) and several else [node.slice]
        written = [_index(part) for part in parts]
        node.slice = ast.Tuple(written, ast.Load()) if several else written[0]
        return node


def _index(node: ast.expr) -> ast.expr:
    """One index, with ``start:stop:step`` for a slice and ``...`` for Ellipsis."""
    match node:
        case ast.Name(id="Ellipsis"):
            return ast.Constant(...)
        case ast.Call(func=ast.Name(id="slice"), args=[stop], keywords=[]):
            ends: list[ast.expr | None] = [None, stop, None]
        case ast.Call(func=ast.Name(id="slice"), args=[start, stop, *step], keywords=[]):
            ends = [start, stop, *step, None][:3]
        case _:
            return node
    return ast.Slice(*(None if isinstance(end, ast.Constant) and end.value is None else end for end in ends))
