"""The user's consent before a case, a trace, or an archive of torch with code in it is run or loaded."""

from __future__ import annotations

import json
import pickletools
import re
import shlex
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from repro_kit.case.case import Case
from repro_kit.errors import UsageError
from repro_kit.files import open_plain
from repro_kit.runner.subject_start import command
from repro_kit.ui import Ui

_ARCHIVE = b"PK\3\4"  # what `torch.save` writes is an archive in the archive
_LARGEST = 16 << 20  # bytes of a pickle that is read
_RATIO, _FREE = (
    300,
    16 << 20,
)  # a member may be RATIO times as large as it is in the archive, and FREE bytes in any case
_MOST_FILES = 100_000
_DEEPEST = 3  # archives in archives
_SHOWN, _LONGEST = 8, 100  # names of one part that are shown, and characters of a name

_PICKLE = re.compile(r"\.(pkl|pickle|pt|pth)$|(^|/)(opaque|custom)_obj_")
_CODE = re.compile(r"\.(py|pyc|cpp|cc|c|cu|h|hpp|s|ll|ptx)$|(^|/)code/", re.IGNORECASE)
_COMPILED = re.compile(r"\.(so|o|a|dll|dylib|pyd|cubin|hsaco|spv|fatbin)$", re.IGNORECASE)
_BINARIES = (b"\x7fELF", b"MZ", b"\xfe\xed\xfa", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
#: What a pickle of tensors names. torch loads these with weights_only=True.
_OF_TENSORS = re.compile(
    r"collections\.OrderedDict|torch\._utils\._rebuild_\w+|torch\._tensor\._rebuild_from_type_v2|torch\.nn\.parameter\.Parameter|"
    r"torch\.(storage\.)?\w*Storage|torch\.(u?int\d+|float\w+|bfloat\w+|complex\w+|q?u?int\w+|bool|half|double|long|short)|"
    r"torch\.(Size|device|Tensor)|torch\.serialization\._get_layout|_codecs\.encode|builtins\.(set|bytearray|complex)|"
    r"__builtin__\.(set|bytearray|complex)"
)


#: What the graph of a program calls, and how its sizes are written: torch evaluates these as Python.
_CALLED = re.compile(
    r"torch\.ops(\.\w+){2,}|_operator\.(?!call$|methodcaller$|attrgetter$)\w+|math\.\w+|torch\.(sym_|_sym_|_check)\w*|"
    r"torch\._higher_order_ops(\.\w+)+|torch\.utils\._sympy(\.\w+)+|torch\._C\._set_grad_enabled|#.*"
)
_SIZE = re.compile(r"[\w\s+\-*/(),.<>=!%&|~]*")
_GETS = ("GET", "BINGET", "LONG_BINGET")


@dataclass(frozen=True)
class LoadedPart:
    """A part of an archive that runs, or can run, when the archive is loaded."""

    name: str
    what: str
    is_pickle: bool = False
    is_data: bool = False  # a pickle that names nothing but what tensors are made of

    @property
    def line(self) -> str:
        """The part in one line."""
        return f"{self.name}: {self.what}"


@dataclass(frozen=True)
class LoadedCode:
    """What of the archive at `path` runs, or can run, when it is loaded."""

    path: Path
    parts: tuple[LoadedPart, ...]

    @property
    def is_data(self) -> bool:
        """Whether the pickles in the archive load with `weights_only=True`, as far as they say."""
        return all(part.is_data for part in self.parts if part.is_pickle)

    @property
    def lines(self) -> list[str]:
        """The parts, those that name code first."""
        parts = sorted(self.parts, key=lambda part: part.is_data)
        return [part.line for part in parts] or ["neither pickles nor compiled code"]


def loaded_code(path: Path) -> LoadedCode:
    """Read which parts of the archive at `path` run when it is loaded. Raises UsageError for a damaged archive."""
    try:
        with open_plain(path) as file:
            return LoadedCode(path, tuple(_parts(file, "", 0)))
    except (OSError, EOFError, ValueError, RecursionError, NotImplementedError, RuntimeError) as error:
        raise UsageError(f"{path} cannot be read as an archive of torch ({error}); save it again.") from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise UsageError(f"{path} is damaged ({error}); save it again.") from error


def _parts(file: IO[bytes], before: str, depth: int) -> Iterator[LoadedPart]:
    with zipfile.ZipFile(file) as archive:
        if len(archive.infolist()) > _MOST_FILES:
            raise ValueError(f"it holds more than {_MOST_FILES} files")
        for member in archive.infolist():
            if member.file_size > max(_FREE, _RATIO * member.compress_size):
                raise ValueError(f"{member.filename!r} unpacks to {_RATIO} times its size")
            if not member.is_dir():
                with archive.open(member) as opened:
                    yield from _of_member(opened, f"{before}{member.filename}", depth)


def _of_member(file: IO[bytes], name: str, depth: int) -> Iterator[LoadedPart]:
    data = file.read(_LARGEST)
    is_whole = not file.read(1)
    if data.startswith(_ARCHIVE):
        if depth == _DEEPEST:
            raise ValueError(f"{name!r} holds archives in archives")
        file.seek(0)
        yield from _parts(file, f"{name}/", depth + 1)
    elif _COMPILED.search(name) or data.startswith(_BINARIES):
        yield LoadedPart(name, "compiled code")
    elif _CODE.search(name):
        yield LoadedPart(name, "source code")
    elif name.endswith(".json"):
        file.seek(0)
        yield from _of_graph(json.load(file), name)
    elif pickled := _pickle(data, name, is_whole=is_whole):
        yield pickled


def _of_graph(graph: Any, name: str) -> Iterator[LoadedPart]:
    """The part of a graph that calls something else than operators, or whose sizes are more than arithmetic."""
    texts = [
        (fields[field], form)
        for fields in _objects(graph)
        for field, form in (("target", _CALLED), ("expr_str", _SIZE))
        if isinstance(fields.get(field), str)
    ]
    odd = dict.fromkeys(text for text, form in texts if "__" in text or not form.fullmatch(text))
    if odd:
        yield LoadedPart(name, f"a graph that calls or evaluates {_listed(list(odd))}")


def _objects(data: Any) -> Iterator[dict[str, Any]]:
    """The objects in JSON data."""
    waiting = [data]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
        waiting.extend(each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(name[:_LONGEST] for name in names[:_SHOWN]) + more


def _pickle(data: bytes, name: str, *, is_whole: bool) -> LoadedPart | None:
    """The part of the bytes `data` if they are a pickle, or begin as one: Python runs a pickle while it reads it."""
    names, is_read = _names_in(data)
    is_pickle = bool(_PICKLE.search(name)) or (data[:1] == b"\x80" and data[1:2] in (b"\2", b"\3", b"\4", b"\5"))
    if not (names or is_pickle or (is_read and data)):
        return None
    others = [each for each in names if not _OF_TENSORS.fullmatch(each)]
    if others:
        return LoadedPart(name, f"a pickle that names {_listed(others)}", is_pickle=True)
    if not (is_read and is_whole):
        return LoadedPart(name, "a pickle that cannot be read; it may name anything", is_pickle=True)
    return LoadedPart(name, "a pickle of plain values and tensors", is_pickle=True, is_data=True)


def _names_in(data: bytes) -> tuple[list[str], bool]:
    """What a pickle names (``posix.system``), each once, and whether it could be read to its end.

    A name that only running the pickle would reveal is shown as ``?``.
    """
    names: dict[str, None] = {}
    texts: list[str] = []  # the strings so far; a name in protocol 4 is the two last ones
    memo: dict[int, str] = {}
    top = "?"
    try:
        for step, value, _ in pickletools.genops(BytesIO(data)):
            if step.name in ("GLOBAL", "INST"):
                names[str(value).replace(" ", ".")] = None
            elif step.name == "STACK_GLOBAL":
                names[".".join(texts[-2:]) if len(texts) > 1 else "?"] = None
            elif step.name.startswith("EXT"):
                names["?"] = None
            elif step.name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
                memo[len(memo) if value is None else int(value)] = top
                continue
            is_get = step.name in _GETS
            top = memo.get(int(str(value)), "?") if is_get else value if isinstance(value, str) else "?"
            if isinstance(value, str) or is_get:
                texts.append(top)
    except (ValueError, KeyError, IndexError, EOFError, OverflowError, UnicodeError, MemoryError):
        return list(names), False
    return list(names), True


_SHOWN_PARTS = 40


def agree(case: Case, ui: Ui) -> None:
    """Ask for consent before running what a case from another machine or user names; the case records a yes.

    Raises ReproKitError without consent.
    """
    if case.is_own:
        return
    subject = case.file.subject
    shown_command = f"`{shlex.join(command(subject))}` in {subject.cwd}"
    origin = f"{case.path} was not made by you on this machine"
    if not ui.confirm(f"{origin}. Run {shown_command}, and the programs in the case, with your rights?"):
        raise UsageError(f"{origin}, and would run {shown_command}; look at the case, and give --yes if you trust it.")
    case.accept()


def agree_to_trace(path: Path, ui: Ui) -> None:
    """Ask for consent before running the graph that a trace holds: a trace says nothing about who made it.

    Raises ReproKitError without consent.
    """
    if not ui.confirm(f"Run the graph that {path} holds, which is code, with your rights?"):
        raise UsageError(
            f"{path} holds the code of a graph, which would run with your rights; look at the code "
            f"(repro-kit explain --artifact fx_graph_runnable {path}), and give --yes if you trust it."
        )


def agree_to_load(loaded: LoadedCode, ui: Ui) -> None:
    """Show what of an archive runs when torch loads it, and ask for consent. Raises ReproKitError without consent."""
    if ui.yes:
        return
    ui.print("\n".join([f"{loaded.path} holds", *(f"  {line}" for line in loaded.lines[:_SHOWN_PARTS])]))
    more = len(loaded.lines) - _SHOWN_PARTS
    if more > 0:
        ui.print(f"  and {more} more {'part' if more == 1 else 'parts'}")
    how = "torch loads all of these" if not loaded.is_data else "torch loads the pickles with weights_only=True"
    if not ui.confirm(f"Load and run the program in {loaded.path} with your rights ({how})?"):
        raise UsageError(
            f"Nothing was loaded: {loaded.path} holds a program that torch would run with your rights "
            f"({loaded.lines[0]}); give --yes if you trust it."
        )
