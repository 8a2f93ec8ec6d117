"""What runs when torch loads an archive: it is read, and nothing of it is loaded."""

from __future__ import annotations

import collections
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli
from repro_kit.errors import UsageError
from repro_kit.repro_run.trust import loaded_code


class Touch:
    """A pickle of it makes the file `ran`."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch ran",)


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name, data in members.items():
            made.writestr(name, data)
    return path


def saved(value: bytes) -> bytes:
    """As `torch.save` writes it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        made.writestr("archive/data.pkl", value)
        made.writestr("archive/data/0", b"(\x80")
    return data.getvalue()


def program(path: Path, sample: bytes, **more: bytes) -> Path:
    graph = {"nodes": [{"target": "torch.ops.aten.add.Tensor"}], "sizes": [{"expr_str": "2*Max(s0, 1)"}]}
    members = {"m/models/model.json": json.dumps(graph).encode(), "m/data/sample_inputs/model.pt": sample}
    return archive(path, {**members, "m/byteorder": b"little", "m/archive_version": b"0", **more})


PLAIN = pickle.dumps(({"x": 1}, collections.OrderedDict()), 2)


def test_pickles_of_values_are_data(tmp_path: Path) -> None:
    loaded = loaded_code(program(tmp_path / "a.pt2", saved(PLAIN)))
    assert loaded.is_data
    assert loaded.lines == ["m/data/sample_inputs/model.pt/archive/data.pkl: a pickle of plain values and tensors"]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("form", [bytes, saved, lambda data: data + b"\xff no pickle", lambda data: data[:-1]])
def test_what_a_pickle_names_is_told(tmp_path: Path, protocol: int, form: object) -> None:
    assert callable(form)
    loaded = loaded_code(program(tmp_path / "a.pt2", form(pickle.dumps(Touch(), protocol))))
    assert not loaded.is_data and "posix.system" in loaded.lines[0]
    loaded = loaded_code(program(tmp_path / "b.pt2", saved(PLAIN), **{"m/weight_0": pickle.dumps(Touch(), protocol)}))
    assert not loaded.is_data and loaded.lines[0] == "m/weight_0: a pickle that names posix.system"


def test_compiled_code_sources_and_odd_graphs_are_told(tmp_path: Path) -> None:
    graph = {"nodes": [{"target": "torch.os.system"}, {"as_expr": {"expr_str": "__import__('os').system('x')"}}]}
    more = {
        "m/data/aotinductor/model/model.so": b"",
        "m/data/aotinductor/model/kernel": b"\x7fELF",
        "m/data/aotinductor/model/model.cpp": b"int main() {}",
        "m/models/other.json": json.dumps(graph).encode(),
    }
    lines = loaded_code(program(tmp_path / "a.pt2", saved(PLAIN), **more)).lines
    assert sorted(lines)[:4] == [
        "m/data/aotinductor/model/kernel: compiled code",
        "m/data/aotinductor/model/model.cpp: source code",
        "m/data/aotinductor/model/model.so: compiled code",
        "m/data/sample_inputs/model.pt/archive/data.pkl: a pickle of plain values and tensors",
    ]
    assert "m/models/other.json: a graph that calls or evaluates " in lines[3] and "torch.os.system" in lines[3]
    assert "__import__('os').system('x')" in lines[3]


def test_damage_and_bombs_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.pt2").write_bytes(b"PK\3\4 and no more")
    with zipfile.ZipFile(tmp_path / "b.pt2", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("models/model.json", b" " * (40 << 20))
    for name in ("a.pt2", "b.pt2"):
        with pytest.raises(UsageError, match="save it again"):
            loaded_code(tmp_path / name)


@pytest.mark.parametrize("command", ["collect", "observe", "capture", "ablate", "minify", "bundle"])
@pytest.mark.parametrize("named", ["evil.pt2", "minifier_launcher.py"])
def test_no_command_loads_a_program_without_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    program(tmp_path / "evil.pt2", saved(pickle.dumps(Touch(), 2)))
    (tmp_path / "minifier_launcher.py").write_text(
        "import torch\nexported_program = torch.export.load('evil.pt2')\n"
        "from torch._dynamo.repro.aoti import run_repro\nrun_repro(exported_program)\n"
    )
    before = sorted(tmp_path.iterdir())
    result = CliRunner().invoke(cli, [command, named], prog_name="repro-kit")
    assert result.exit_code == 2, result.output
    assert "a pickle that names posix.system" in result.output and "Nothing was loaded" in result.output
    assert sorted(tmp_path.iterdir()) == before
