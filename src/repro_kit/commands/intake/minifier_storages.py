"""Turn the values that PyTorch's minifier saves (in its ``save_dir``) into a program's stored inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from repro_kit.commands.intake.transplant import write_values
from repro_kit.probe.repro_probe.protocol.programs import ValueOrder
from repro_kit.program import Program, TensorInput

_SAVE_DIR = re.compile(r"^(?!\s*#).*\bsave_dir=(['\"])(.+?)\1", re.MULTILINE)


def storages_of(path: Path, text: str) -> Path | None:
    """Return the directory of the storages that the launcher `text` at `path` reads.

    It is below the ``save_dir`` that the launcher names, or in the launcher's own directory; None if there is none.
    """
    named = _SAVE_DIR.search(text)
    if named is None:
        return None
    directories = [Path(named[2]), path.parent / Path(named[2]).name, path.parent]
    return next((directory / "storages" for directory in directories if (directory / "storages").is_dir()), None)


def unpack(storages: Path, programs: Iterable[Program], target: Path, python: str) -> None:
    """Write the files that `programs` load to `target`, with the interpreter `python`, which has torch.

    Raises ReproKitError when the storages cannot be read.
    """
    loads = [
        input_
        for program in programs
        for input_ in program.inputs
        if isinstance(input_, TensorInput) and input_.data.file
    ]
    orders: list[ValueOrder] = [
        {
            "source": str(storages / storage_in(load.data.file or "")),
            "dtype": load.dtype or "torch.float32",
            "sizes": list(load.data.sizes or ()),
            "target": str(target.absolute() / (load.data.file or "")),
        }
        for load in loads
    ]
    target.mkdir(parents=True, exist_ok=True)
    write_values(orders, storages, python)


def storage_in(file: str) -> str:
    """Return the name of the storage that a program's stored file is made from (graph/reading/from_runnable.py)."""
    return file.removesuffix(".pt").partition("_")[2]
