from pathlib import Path

import pytest

from repro_kit.commands.intake.program_sources import reader_of
from repro_kit.errors import ReproKitError
from root import ROOT

FIXTURES = ROOT / "tests/trace/fixtures"


def test_a_user_s_script_and_other_things_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "notes.log").write_text("x\n")
    for name in ("train.py", "notes.log", "missing.py", "."):
        assert reader_of(tmp_path / name) is None


def test_a_trace_without_graphs_says_so(tmp_path: Path) -> None:
    path = tmp_path / "dedicated_log_torch_trace_x.log"
    path.write_text("")
    for place in (path, tmp_path):
        reader = reader_of(place)
        assert reader is not None
        with pytest.raises(ReproKitError, match="no graph reached Inductor"):
            reader(place, None)


def test_the_graph_of_a_trace_s_failure_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dedicated_log_torch_trace_x.log"
    path.write_bytes((FIXTURES / "backward_error.log").read_bytes())
    reader = reader_of(path)
    assert reader is not None
    programs = reader(path, None)
    assert programs
    assert reader(path, "0/0") == programs
    with pytest.raises(ReproKitError, match=r"it has 0/0 \(--compile-id\)"):
        reader(path, "5/0")
