"""Find the user's source files that a script-level bundle needs, and their place in the bundle."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.case.case import Subject

PLACE = "files"  # directory of the bundle that stands for the user's working directory
REDUCED = "repro.py"  # the user's script, reduced
_REDUCED_BEFORE = f"{PLACE}/reduced.py"  # the same in bundles of format 1
_ELSEWHERE = "lib"  # below `PLACE`: modules from outside of the working directory
_LARGEST = 1 << 20  # bytes; no source file is larger
_ENCODING = re.compile(r"^([ \t\f]*#.*?coding[:=][ \t]*)[-\w.]+")


def is_users(name: str) -> bool:
    """Whether the file `name` of a bundle is a source file of the user's, as it is."""
    return name.startswith(f"{PLACE}/") and name != _REDUCED_BEFORE


def is_reduced(named: Sequence[str]) -> bool:
    """Whether the files that a bundle's command has `named` are the user's script, reduced."""
    return tuple(named) in ((REDUCED,), (_REDUCED_BEFORE,))


@dataclass(frozen=True)
class SourceFiles:
    """The files by their name below `PLACE`, the arguments with these names, and import roots below `PLACE`."""

    files: dict[str, Path]
    argv: tuple[str, ...]
    roots: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # needed files that could not be included, one sentence each


def find_sources(subject: Subject, modules: Iterable[str]) -> SourceFiles:
    """The files that `subject` needs: those it names, the `modules` it imported when it ran, and what those import.

    Files below the working directory keep their path; other files keep their path within their package.
    """
    cwd = Path(subject.cwd)
    named = _named(subject, cwd)
    places = list(dict.fromkeys([*(path.parent for path in named), cwd]))
    wanted = {*named, *(Path(module) for module in modules)}
    main = module_file(subject)
    wanted |= _imported([*wanted, *([main] if main else [])], places)
    files: dict[str, Path] = {}
    roots: list[str] = []
    left_out: list[str] = []
    for path in sorted(wanted):
        if not path.is_file():
            left_out.append(f"{path.name} is gone")
        elif path.stat().st_size > _LARGEST:
            left_out.append(f"{path.name} is larger than {_LARGEST >> 20} MiB")
        else:
            name, root = _place(path, cwd)
            files[name] = path
            roots.append(root)
    argv = tuple(_argument(word, cwd) for word in subject.argv)
    return SourceFiles(files, argv, _useful_roots(roots, subject, argv), tuple(left_out))


def _named(subject: Subject, cwd: Path) -> list[Path]:
    """Python files among the arguments (``tests/test_x.py::test_y`` names one)."""
    words = subject.argv[1:] if subject.form == "module" else subject.argv
    named = []
    for at, word in enumerate(words):
        path = cwd / word.partition("::")[0]
        is_script = subject.form == "script" and at == 0
        if (is_script or path.suffix == ".py") and path.is_file():
            named.append(path.absolute())
    return named


def module_file(subject: Subject) -> Path | None:
    """The file that ``python -m`` runs, where it is below the working directory; None for a script and a command."""
    if subject.form != "module":
        return None
    stem = Path(subject.cwd).joinpath(*subject.argv[0].split("."))
    return next((path for path in (stem.with_suffix(".py"), stem / "__main__.py") if path.is_file()), None)


def _imported(start: Sequence[Path], places: Sequence[Path]) -> set[Path]:
    """`start` and every file that they import, directly or not, from `places` or the importing file's directory."""
    seen: set[Path] = set()
    queue = list(start)
    while queue:
        path = queue.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        for name in _imports_of(path):
            queue += [file for directory in (path.parent, *places) for file in _files_of(name, directory)]
    return seen


def source_text(path: Path) -> str:
    """The text of a Python file in any encoding; its encoding comment then names UTF-8."""
    data = path.read_bytes()
    try:
        encoding, head = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError):  # not valid Python
        text, encoding, head = data.decode("utf-8", "replace"), "utf-8", []
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if encoding.startswith("utf-8"):
        return text
    lines = text.split("\n", len(head))
    return "\n".join([*(_ENCODING.sub(r"\1utf-8", line) for line in lines[: len(head)]), *lines[len(head) :]])


def _imports_of(path: Path) -> list[str]:
    """Names of the modules that a file imports; relative ones count from its own directory."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names += [base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)]
    return [name for name in names if name]


def _files_of(name: str, directory: Path) -> list[Path]:
    """The files that ``import name`` executes when `directory` is on the path."""
    parts = name.split(".")
    files = []
    for length in range(1, len(parts) + 1):
        stem = directory.joinpath(*parts[:length])
        files += [path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()]
    return files


def _place(path: Path, cwd: Path) -> tuple[str, str]:
    """The name of `path` below `PLACE`, and the directory there that must be on the path to import it."""
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    if path.is_relative_to(cwd):
        root_name = root.relative_to(cwd).as_posix() if root.is_relative_to(cwd) else "."
        return path.relative_to(cwd).as_posix(), root_name
    return f"{_ELSEWHERE}/{path.relative_to(root).as_posix()}", _ELSEWHERE


def _argument(word: str, cwd: Path) -> str:
    """An argument of the command, adjusted to its name below `PLACE`."""
    file, mark, rest = word.partition("::")
    path = Path(file)
    if not path.is_absolute() or not path.is_file():
        return word
    return _place(path, cwd)[0] + mark + rest


def _useful_roots(roots: Iterable[str], subject: Subject, argv: Sequence[str]) -> tuple[str, ...]:
    """Roots that Python does not add to its path itself."""
    own = Path(argv[0]).parent.as_posix() if subject.form == "script" else "."
    return tuple(root for root in dict.fromkeys(roots) if root != own)
