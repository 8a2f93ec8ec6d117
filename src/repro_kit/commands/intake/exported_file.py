"""Make a script of an exported program: the `.pt2` file of `torch.export.save`, or a script of AOTInductor's minifier.

Sources of the formats: torch/export/pt2_archive/constants.py, and torch/_dynamo/repro/aoti.py for the minifier's
scripts, which load a `.pt2` file and call `run_repro`.
"""

from __future__ import annotations

import ast
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro_kit.case.case import Case
from repro_kit.errors import UsageError
from repro_kit.files import read_text
from repro_kit.repro_run.trust import LoadedCode
from repro_kit.session.case_paths import is_case

SCRIPT_NAME = "compile_exported.py"  # in the folder of the case
_MINIFIERS = "torch._dynamo.repro.aoti"
_LARGEST = 4 << 20  # bytes of a minifier's script
_SETTING = re.compile(r"torch(\.\w+)*\.config(\.\w+)+")
_OF_FILES = "aot_inductor."  # settings of how AOTInductor writes its files
_DUMPS = ".dump_aoti_minifier"  # what made torch leave the script; once a setting of Inductor's own
#: Types that lose digits between, with the relative and the absolute difference that is allowed then.
_NARROW = (("bfloat16", 1.6e-2, 1e-2), ("float16", 1e-3, 1e-3))
_COMPILED = "data/aotinductor/"  # where an archive holds compiled code

_SCRIPT = '''\
"""Compile an exported program with AOTInductor, run it, and compare its results with the program's own."""
import hashlib
import sys

import torch
import torch._inductor
import torch._inductor.inductor_prims  # registers operators that a program may call
{settings}
with open(sys.argv[1], "rb") as file:
    digest = hashlib.sha256()
    for piece in iter(lambda: file.read(1 << 20), b""):
        digest.update(piece)
if digest.hexdigest() != {digest!r}:
    sys.exit("Nothing was loaded: " + sys.argv[1] + " has changed since repro-kit was given it; collect it again.")
{load}
if exported.example_inputs is None:
    sys.exit("The exported program holds no example inputs; save it as torch.export.export returns it.")
arguments, named = exported.example_inputs
with torch.no_grad():
    wanted = exported.module()(*arguments, **named)
    package = torch._inductor.aoti_compile_and_package(exported, inductor_configs={options!r})
    results = torch._inductor.aoti_load_package(package)(*arguments, **named)
# Results of a higher precision than the values between, as of autocast, are no closer than those.
modules = [module for module in exported.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
values = torch.utils._pytree.tree_leaves([node.meta.get("val") for module in modules for node in module.graph.nodes])
dtypes = {{value.dtype for value in values if isinstance(value, torch.Tensor)}}
narrow = [bounds for dtype, *bounds in {narrow!r} if getattr(torch, dtype) in dtypes]
rtol, atol = narrow[0] if narrow else (None, None)
torch.testing.assert_close(results, wanted, rtol=rtol, atol=atol, equal_nan=True)
'''

_LOAD = "exported = torch.export.load(sys.argv[1])"
#: torch unpickles whatever is in the file where `weights_only=True` does not do; this leaves it no choice.
_LOAD_DATA = f"""\
load = torch.load
torch.load = lambda *words, **options: load(*words, **{{**options, "weights_only": True}})
{_LOAD}
torch.load = load"""


@dataclass(frozen=True)
class ExportedFile:
    """An exported program on disk, Inductor's options for it, and the lines of Python that set torch's settings."""

    path: Path
    options: dict[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()

    def script(self, loaded: LoadedCode, digest: str) -> str:
        """A script that compiles and checks the program in the file that its first argument names.

        The script loads no file but the one with this SHA-256 `digest`, and nothing but tensors if `loaded` says
        that this is enough.
        """
        settings = "".join(f"{line}\n" for line in self.settings)
        load = _LOAD_DATA if loaded.is_data else _LOAD
        return _SCRIPT.format(options=self.options, settings=settings, narrow=_NARROW, digest=digest, load=load)


def exported_file(path: Path) -> ExportedFile | None:
    """Return the exported program that `path` names; None for any other file.

    Raises UsageError when the file is there, but its program cannot be read or is compiled already.
    """
    if not path.is_file():
        return None
    if path.suffix == ".pt2":
        return _checked(ExportedFile(path.absolute()), path)
    if path.suffix != ".py" or path.stat().st_size > _LARGEST:
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    return _checked(_of_minifier(path), path) if _MINIFIERS in text and "torch.export.load(" in text else None


def was_made_for(digest: str, directory: Path) -> bool:
    """Whether the case in `directory` is the user's own, and was made for the exported program with this SHA-256."""
    if not is_case(directory):
        return False
    case = Case.open(directory)
    return case.is_own and case.file.exported == digest


def _of_minifier(path: Path) -> ExportedFile:
    """Read the script of AOTInductor's minifier. It names the file of the program as seen from where it was written."""
    try:
        tree = ast.parse(read_text(path))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        program = next(call.args[0] for call in calls if ast.unparse(call.func) == "torch.export.load")
        named = Path(ast.literal_eval(program))
        assigned = {ast.unparse(node.targets[0]): node for node in tree.body if isinstance(node, ast.Assign)}
        given = {keyword.arg: ast.unparse(keyword.value) for call in calls for keyword in call.keywords}
        patches = assigned.get(given.get("config_patches", "config_patches"))
        options = (ast.literal_eval(patches.value) if patches else None) or {}
        settings = {name: ast.literal_eval(node.value) for name, node in assigned.items() if _is_setting(name)}
    except (SyntaxError, ValueError, IndexError, TypeError, StopIteration) as error:
        raise UsageError(
            f"{path} is not a script of AOTInductor's minifier that repro-kit can read: {error}."
        ) from None
    neighbour = path.absolute().parent / named.name
    return ExportedFile(
        neighbour if neighbour.is_file() else named.absolute(),
        {name: value for name, value in options.items() if not name.startswith(_OF_FILES)},
        tuple(f"{name} = {value!r}" for name, value in settings.items()),
    )


def _is_setting(name: str) -> bool:
    return bool(_SETTING.fullmatch(name)) and _OF_FILES not in name and not name.endswith(_DUMPS)


def _checked(exported: ExportedFile, shown: Path) -> ExportedFile:
    where = "" if exported.path.name == shown.name else f", which {shown} loads,"
    if not exported.path.is_file():
        raise UsageError(f"{exported.path}{where} does not exist; put it beside {shown.name}.")
    try:
        with zipfile.ZipFile(exported.path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        raise UsageError(
            f"{exported.path}{where} is not a file of torch.export.save; save the program again."
        ) from None
    programs = [name for name in names if "/models/" in f"/{name}" or name.endswith("serialized_exported_program.json")]
    if not programs and any(_COMPILED in name for name in names):
        raise UsageError(
            f"{exported.path}{where} holds compiled code, and no program; give the file of torch.export.save, or the"
            " script that compiles the package."
        )
    return exported
