from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.commands.intake.programs import ending_of, lost_storages, reader_of, recorded_failure
from repro_kit.commands.show import story_at
from repro_kit.errors import Exit, ReproKitError, Stop
from repro_kit.failure.failure import ExceptionLink, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.graph import Program, render
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


def test_a_trace_is_known_by_its_first_line_whatever_its_name(tmp_path: Path) -> None:
    for name in ("cuda_job.log", "trace.txt", "trace"):
        (tmp_path / name).write_bytes((FIXTURES / "backward_error.log").read_bytes())
        assert reader_of(tmp_path / name) is not None
        assert recorded_failure(tmp_path / name, None).signature is not None
    assert reader_of(tmp_path) is not None


def test_each_log_of_a_directory_has_its_own_compiles(tmp_path: Path) -> None:
    failing, passing = FIXTURES / "backend_error.log", FIXTURES / "backward_error.log"
    (tmp_path / "rank_0.log").write_bytes(failing.read_bytes())  # its 0/0 fails before Inductor
    (tmp_path / "rank_1.log").write_bytes(b"".join(_without_failures(passing)))
    reader = reader_of(tmp_path)
    assert reader is not None
    with pytest.raises(ReproKitError, match=r"of 0/0 in rank_0.log, which failed before it reached Inductor.*: 0/0 \("):
        reader(tmp_path, None)
    assert reader(tmp_path, "0/0")
    assert recorded_failure(tmp_path, "0/0").signature is None
    (tmp_path / "rank_2.log").write_bytes(passing.read_bytes())
    assert recorded_failure(tmp_path, None).signature is not None
    assert reader(tmp_path, None) == _programs(tmp_path / "rank_2.log")


def _without_failures(log: Path) -> list[bytes]:
    """The lines of a log up to its first failure."""
    lines = log.read_bytes().splitlines(keepends=True)
    end = next(at for at, line in enumerate(lines) if b"fail_type" in line or b"dynamo_error" in line)
    return lines[:end]


def _programs(log: Path) -> list[Program]:
    reader = reader_of(log)
    assert reader is not None
    return reader(log, None)


def test_a_file_that_cannot_be_read_as_a_program_is_named(tmp_path: Path) -> None:
    path = tmp_path / "repro.py"
    path.write_text("import torch\nclass Repro(torch.nn.Module):\n    pass\n")
    reader = reader_of(path)
    assert reader is not None
    with pytest.raises(ReproKitError, match=r"repro.py cannot be read as a program: .*no class Repro with a load_args"):
        reader(path, None)


ARTEFACT = """import torch
class Repro(torch.nn.Module):
    def forward(self, x):
        return (torch.ops.aten.{op}.default(x),)

def load_args(reader):
    buf0 = reader.storage(None, 8)
    reader.tensor(buf0, (2,), is_leaf=True)  # x
load_args._version = 0
mod = Repro()
if __name__ == '__main__':
    from torch._dynamo.repro.after_aot import run_repro
    run_repro(mod, load_args, accuracy=True, command='run', save_dir=None)
"""


def test_what_made_up_values_do_is_never_the_user_s_fault(tmp_path: Path) -> None:
    path = tmp_path / "runnable.py"
    path.write_text(ARTEFACT.format(op="relu"))
    reader = reader_of(path)
    assert reader is not None
    (program,) = reader(path, None)
    raised = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("RuntimeError", "index out of range"),))
    ending = ending_of(Verdict(Status.INVALID, raised), path, program)
    assert ending.exit_code is Exit.CANNOT_RUN
    assert "no values of x were recorded" in ending.sentence and "index out of range" in ending.sentence
    assert "with made-up values" in ending_of(Verdict(Status.PASS), path, program).sentence
    path.write_text(render(program))
    assert ending_of(Verdict(Status.INVALID, raised), path, program).exit_code is Exit.USER_BUG
    lost = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("NameError", "name 'f' is not defined"),))
    with pytest.raises(Stop, match="NameError") as stop:
        ending_of(Verdict(Status.INVALID, lost), path, program)
    assert stop.value.exit_code is Exit.CANNOT_RUN


def test_an_accuracy_minifier_looked_for_a_wrong_result(tmp_path: Path) -> None:
    path = tmp_path / "runnable.py"
    path.write_text(ARTEFACT.format(op="relu"))
    assert recorded_failure(path, None).is_wrong_result


@pytest.mark.parametrize("name", ["fx_graph_runnable_64.txt", "fx_graph_runnable"])
def test_an_artifact_as_tlparse_writes_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(ARTEFACT.format(op="relu").replace("\n", "\r\n").encode("utf-8-sig"))
    reader = reader_of(path)
    assert reader is not None and "aten.relu" in render(reader(path, None)[0])
    path.write_text("PyTorch version: 2.5.0\n")
    assert reader_of(path) is None


def test_of_several_artifacts_none_is_taken_silently(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(ARTEFACT.format(op="relu") + ARTEFACT.format(op="sin"))
    reader = reader_of(path)
    assert reader is not None
    with pytest.raises(
        ReproKitError, match=r"two.py holds 2 artifacts; choose one with --which N:\n  1: relu\n  2: sin"
    ):
        reader(path, None)
    second = reader_of(path, 2)
    assert second is not None
    assert "aten.sin" in render(second(path, None)[0])
    third = reader_of(path, 3)
    assert third is not None
    with pytest.raises(ReproKitError, match="--which N"):
        third(path, None)


def test_files_with_values_that_are_gone_are_named(tmp_path: Path) -> None:
    text = ARTEFACT.format(op="relu").replace("None, 8", "'0123abcd', 8").replace("save_dir=None", "save_dir='/gone/x'")
    path = tmp_path / "launcher.py"
    assert lost_storages(path, text) == (str(tmp_path / "storages/0123abcd"),)
    (tmp_path / "storages").mkdir()
    (tmp_path / "storages/0123abcd").write_bytes(b"")
    assert lost_storages(path, text) == ()
    assert lost_storages(path, ARTEFACT) == ()


def test_the_case_of_an_artifact_that_did_not_fail_shows_that(tmp_path: Path) -> None:
    path = tmp_path / "x.repro"
    subject = Subject("script", (str(path / "capture" / "program.py"),), str(tmp_path), "python")
    Case.create(path, subject, "2026-01-01T00:00:00+00:00")
    with pytest.raises(ReproKitError, match="was not seen to fail here") as error:
        story_at(path)
    assert error.value.exit_code is Exit.NOTHING_FAILED
