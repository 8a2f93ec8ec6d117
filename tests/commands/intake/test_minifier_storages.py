"""Values that PyTorch's minifier leaves beside its launcher."""

import sys
from pathlib import Path

import pytest

from repro_kit.commands.intake.programs import storages_of, unpack
from repro_kit.errors import ReproKitError
from repro_kit.graph import Data, Function, Program, TensorInput
from repro_kit.graph.program import Statement

LAUNCHER = "        # run_repro(mod, load_args, save_dir='/a')\n        run_repro(mod, load_args, save_dir={!r})\n"


def test_the_directory_may_have_moved_with_the_launcher(tmp_path: Path) -> None:
    path = tmp_path / "minifier_launcher.py"
    gone = LAUNCHER.format("/no/such/place/checkpoints")
    assert storages_of(path, LAUNCHER.format(None)) is None
    assert storages_of(path, gone) is None
    (tmp_path / "checkpoints" / "storages").mkdir(parents=True)
    assert storages_of(path, gone) == tmp_path / "checkpoints" / "storages"
    (tmp_path / "own" / "storages").mkdir(parents=True)
    assert storages_of(path, LAUNCHER.format(str(tmp_path / "own"))) == tmp_path / "own" / "storages"


@pytest.mark.torch
@pytest.mark.slow
def test_storages_become_tensors_that_a_program_loads(tmp_path: Path) -> None:
    import torch
    from torch.utils._content_store import ContentStoreWriter

    values = torch.arange(6, dtype=torch.int64)
    digest = ContentStoreWriter(str(tmp_path), stable_hash=True).write_storage(values.untyped_storage())
    line = TensorInput("x", Data("load", (2, 2), (f"buf0_{digest}.pt",)), dtype="torch.int64")
    program = Program(Function("graph", ("x",), (), Statement(None, "(x,)")), inputs=(line,), calls=(("x",),))
    unpack(tmp_path / "storages", [program], tmp_path / "inputs", sys.executable)
    assert torch.load(tmp_path / "inputs" / f"buf0_{digest}.pt", weights_only=True).tolist() == [[0, 1], [2, 3]]
    (tmp_path / "storages" / digest).write_bytes(b"no")
    with pytest.raises(ReproKitError, match="cannot be read"):
        unpack(tmp_path / "storages", [program], tmp_path / "inputs", sys.executable)
