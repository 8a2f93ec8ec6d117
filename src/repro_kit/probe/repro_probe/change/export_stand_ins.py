"""Let a script run without torch.export and AOTInductor, or compile by another entry, with no change to the script.

The functions that export and package a model return stand-ins, which run the model itself: in eager, or compiled by
`torch.compile`. What a script then asks of the exported program itself (its graph, say) no stand-in can answer; the
script has passed the entry, so it ends there with exit status 0.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import errno
import functools
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

from repro_probe.change.override import is_users
from repro_probe.common.imports import when_imported
from repro_probe.protocol.recipe_data import (
    AOT_INDUCTOR,
    ENTRIES,
    EXPORT,
    EXPORT_DECOMPOSED,
    EXPORT_DRAFT,
    EXPORT_STRICT,
    PRECOMPILE,
)

_TEXT = b"repro-kit compiled nothing, so this file only stands in for what torch would have written.\n"
_MOVES = ("os.rename", "os.link")


class _Placeholder(NamedTuple):
    """The path that it was written to, and the process that removes it; a fork of this process does not."""

    path: str
    writer: int


_places: dict[str, _Placeholder] = {}  # by the path where each one is now
_roots: list[str] = []


def allow_placeholders(*directories: str) -> None:
    """Let placeholders stand below `directories`, too."""
    _roots.extend(os.path.realpath(path) for path in directories)


def hold_place(path: Any) -> None:
    """Write a placeholder to `path`, if it is below a temporary directory and no file is there. It goes at exit.

    A placeholder exists only below directories for temporary files, and can be neither read nor moved out of there:
    none replaces a file of the user's.
    """
    if not isinstance(path, (str, os.PathLike)) or not _is_temporary(path):
        return
    whole = os.path.abspath(os.fsdecode(path))
    with contextlib.suppress(OSError), open(whole, "xb") as file:
        file.write(_TEXT)
        if not _places:
            atexit.register(_remove_all)
            sys.addaudithook(_see)
        _places[whole] = _Placeholder(whole, os.getpid())


def place_of(path: Any) -> str:
    """Return the path that the placeholder at `path` was written to, before it was moved; "" for any other file."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return ""
    here = _places.get(os.path.abspath(os.fsdecode(path)))
    return here.path if here is not None else ""


def _is_temporary(path: Any) -> bool:
    roots = (os.path.realpath(tempfile.gettempdir()), *_roots)
    return os.path.realpath(os.fsdecode(path)).startswith(tuple(os.path.join(root, "") for root in roots))


def _see(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what would read a placeholder, or take it out of the temporary directories; follow it within them."""
    if event == "open":
        path, mode, flags = arguments
        reads = "r" in mode if isinstance(mode, str) else (flags or 0) & os.O_ACCMODE == os.O_RDONLY
        if reads and place_of(path):
            raise _nothing_there(path)
    elif event in _MOVES:
        source, target = (os.path.abspath(os.fsdecode(path)) for path in arguments[:2])
        for place in [each for each in _places if each == source or each.startswith(os.path.join(source, ""))]:
            if not _is_temporary(target):
                raise _nothing_there(source)
            _places[target + place[len(source) :]] = _places[place]


def _nothing_there(path: Any) -> OSError:
    return FileNotFoundError(errno.ENOENT, "repro-kit compiled nothing, so there is no such file", path)


def _remove_all() -> None:
    own = [place for place, placeholder in _places.items() if placeholder.writer == os.getpid()]
    _places.clear()  # so that this function may read them
    for place in own:
        with contextlib.suppress(OSError):
            with open(place, "rb") as file:
                is_placeholder = file.read() == _TEXT
            if is_placeholder:
                os.remove(place)


#: Where a script finds each entry: (module, attribute).
EXPORTS = (("torch.export", "export"), ("torch.export", "draft_export"), ("torch.export", "export_for_training"))
PACKAGERS = (("torch._inductor", "aoti_compile_and_package"), ("torch._inductor", "aot_compile"))
_LOADERS = (
    ("torch._inductor", "aoti_load_package"),
    ("torch._inductor.package", "load_package"),
    ("torch._export", "aot_load"),
)
CAPTURE = ("torch.compiler.precompile", "capture")
_JOINS = ("torch._inductor.package", "package_aoti")
_SAVE, _LOAD = ("torch.export", "save"), ("torch.export", "load")

_ONLY = "model"  # torch's name for the model of a package, unless the script gives one
_LONGEST_NAME = 64  # bytes of the name of a saved stand-in

Function = Callable[..., Any]


def entry_of(name: str, strict: bool) -> str:
    """Return the entry of `protocol/recipe_data.py` that the function `name` of torch is."""
    if name == "draft_export":
        return EXPORT_DRAFT
    if name == "run_decompositions":
        return EXPORT_DECOMPOSED
    if name == CAPTURE[1]:
        return PRECOMPILE
    return AOT_INDUCTOR if "aot" in name else EXPORT_STRICT if strict else EXPORT


def wrap(module: str, name: str, make: Callable[[Function], Function]) -> None:
    """Replace the function `name` of `module` by `make(function)` for the user's calls, where torch has it."""

    def replace(imported: Any) -> None:
        original = getattr(imported, name, None)
        if original is None:
            return
        changed = make(original)

        @functools.wraps(original)
        def call(*positional: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            # A stand-in that exports in another way calls torch's own functions.
            stands_in = caller.f_globals.get("__name__") == __name__
            chosen = changed if is_users(caller) and not stands_in else original
            return chosen(*positional, **named)

        setattr(imported, name, call)

    when_imported(module, replace)


def install(backend: str | None) -> None:
    """Let every entry use `backend`: None for eager, a backend of `torch.compile`, or another way to export."""
    stand_ins = _StandIns(backend)
    for module, name in EXPORTS:
        wrap(module, name, stand_ins.exporting)
    if backend == AOT_INDUCTOR:
        return
    if backend != EXPORT_DECOMPOSED:
        when_imported("torch.export.exported_program", _decompose_nothing)
    for module, name in PACKAGERS:
        wrap(module, name, stand_ins.packaging)
    wrap(*_JOINS, stand_ins.joining)
    for module, name in _LOADERS:
        wrap(module, name, stand_ins.loading)
    wrap(*_SAVE, stand_ins.saving)
    wrap(*_LOAD, stand_ins.loading_saved)


def _decompose_nothing(module: Any) -> None:
    """Let `run_decompositions` return the exported program as it is, for the user's calls."""
    cls = module.ExportedProgram
    original = cls.run_decompositions

    @functools.wraps(original)
    def run_decompositions(self: Any, *positional: Any, **named: Any) -> Any:
        return self if is_users(sys._getframe(1)) else original(self, *positional, **named)

    cls.run_decompositions = run_decompositions


class ExportedStandIn:
    """What a script gets in place of an exported program: it runs `model`."""

    def __init__(self, model: Any, example_inputs: Any) -> None:
        self.model = model
        self.example_inputs = example_inputs

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Let torch take this object for an exported program, until torch asks for what only a real one has."""
        from torch.export import ExportedProgram

        return ExportedProgram

    def module(self, *_: Any, **__: Any) -> Any:
        """Return the model."""
        return self.model

    def run_decompositions(self, *_: Any, **__: Any) -> ExportedStandIn:
        """Return this stand-in: the model is not decomposed."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise SystemExit(0)


class PackageStandIn:
    """What a script gets in place of a loaded package: it runs `model`, whose parameters and buffers are constants."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Run the model."""
        return self.model(*positional, **named)

    def get_constant_fqns(self) -> list[str]:
        """Return the names of the model's parameters and buffers."""
        return list(self._owner.state_dict())

    def load_constants(self, constants_map: dict[str, Any], **_: Any) -> None:
        """Copy these values to the model's parameters and buffers."""
        self._owner.load_state_dict(constants_map, strict=False)

    def get_metadata(self) -> dict[str, str]:
        """Return nothing: no package was written."""
        return {}

    @property
    def _owner(self) -> Any:
        return getattr(self.model, "_orig_mod", self.model)  # what torch.compile was called with

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise SystemExit(0)


class _StandIns:
    """The functions that replace torch's, and the models that were packaged or saved, by path or file.

    A package may hold several models, by name; the only one is called `_ONLY`.
    """

    def __init__(self, backend: str | None) -> None:
        self.backend = backend
        self.packaged: dict[tuple[str, str], Any] = {}
        self.saved: dict[str, ExportedStandIn] = {}

    def exporting(self, original: Function) -> Function:
        """Return a function that exports in the other way, or only runs the model once."""

        def export(mod: Any, args: Any, kwargs: Any = None, **options: Any) -> Any:
            if self.backend in ENTRIES:
                return self._otherwise(original, mod, args, kwargs, options)
            import torch

            def compiled(model: Any) -> Any:
                return model if self.backend is None else torch.compile(model, backend=self.backend, fullgraph=True)

            with torch.random.fork_rng(devices=[]):
                compiled(_copied(mod))(*_copied(args), **_copied(kwargs or {}))
            return ExportedStandIn(compiled(mod), (args, kwargs or {}))

        return export

    def _otherwise(self, original: Function, mod: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> Any:
        import torch

        if self.backend == AOT_INDUCTOR:
            return original(mod, args, kwargs, **options)
        if self.backend == EXPORT_DRAFT:
            options.pop("strict", None)
            return torch.export.draft_export(mod, args, kwargs, **options)
        exported = torch.export.export(mod, args, kwargs, **{**options, "strict": self.backend == EXPORT_STRICT})
        return exported.run_decompositions() if self.backend == EXPORT_DECOMPOSED else exported

    def packaging(self, _: Function) -> Function:
        """Return a function that remembers a copy of the model, as a package has its own, under the package's path."""

        def package(program: Any, *_: Any, package_path: Any = None, **__: Any) -> Any:
            path = package_path or f"stand-in-{len(self.packaged)}.pt2"
            model = program.module() if hasattr(type(program), "module") else program
            self.packaged[_key(path), _ONLY] = _copied(model)
            hold_place(package_path)
            return path

        return package

    def joining(self, original: Function) -> Function:
        """Return a function that remembers stand-ins under the path of their package; other files are torch's."""

        def join(archive_file: Any, aoti_files: Any, *positional: Any, **named: Any) -> Any:
            paths = aoti_files if isinstance(aoti_files, dict) else {_ONLY: aoti_files}
            keys = {name: (_key(path), _ONLY) for name, path in paths.items()}
            if not all(key in self.packaged for key in keys.values()):
                return original(archive_file, aoti_files, *positional, **named)
            for name, key in keys.items():
                self.packaged[_key(archive_file), name] = self.packaged[key]
            hold_place(archive_file)
            return archive_file

        return join

    def loading(self, original: Function) -> Function:
        """Return a function that loads the model that was packaged under a path; any other path is loaded by torch."""

        def load(path: Any, *positional: Any, **named: Any) -> Any:
            names = [value for value in (*positional, *named.values()) if isinstance(value, str)]
            keys = [(key, name) for key in (_key(path), place_of(path)) for name in (*names, _ONLY)]
            kept = [key for key in keys if key in self.packaged]
            return PackageStandIn(self.packaged[kept[0]]) if kept else original(path, *positional, **named)

        return load

    def saving(self, original: Function) -> Function:
        """Return a function that remembers a stand-in; a file that is open gets its name, to be read again."""

        def save(ep: Any, f: Any, *positional: Any, **named: Any) -> None:
            if not issubclass(type(ep), ExportedStandIn):
                original(ep, f, *positional, **named)
            elif hasattr(f, "write"):
                name = b"stand-in-%d" % len(self.saved)
                self.saved[name.decode()] = ep
                f.write(name)
            else:
                self.saved[_key(f)] = ep
                hold_place(f)

        return save

    def loading_saved(self, original: Function) -> Function:
        """Return a function that returns the stand-in that was saved to a file; any other file is loaded by torch."""

        def load(f: Any, *positional: Any, **named: Any) -> Any:
            start = f.tell() if hasattr(f, "read") else None
            key = _key(f) if start is None else f.read(_LONGEST_NAME).decode(errors="replace")
            if start is None and key not in self.saved:
                key = place_of(f)
            if key in self.saved:
                return self.saved[key]
            if start is not None:
                f.seek(start)
            return original(f, *positional, **named)

        return load


def _copied(value: Any) -> Any:
    """Return a deep copy, since an export leaves a model and its arguments as they are; else `value` itself."""
    try:
        return copy.deepcopy(value)
    except Exception:  # what a user's class raises
        return value


def _key(path: Any) -> str:
    return os.path.abspath(path) if isinstance(path, (str, os.PathLike)) else str(id(path))
