"""The pipeline as `collect` runs it, on fake stages: what runs, what is told, and the exit codes."""

from __future__ import annotations

import fcntl
import json
import shutil
import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case

pytestmark = pytest.mark.torch  # the interpreter is looked at for torch, which is not imported

ALL = ["observe", "capture", "minify", "ablate", "bundle"]


def test_runs_all_stages_and_summarises(work, fakes, repro_kit):
    result = repro_kit("collect", "train.py", "--epochs", "1")
    assert result.exit_code == 0, result.output
    assert fakes.ran() == ALL
    for part in (
        "compile-error: ",
        "Inductor is to blame.",
        "3 operators, from 12",
        "train.repro.zip",
        "train.repro/bundle/issue.md",
        "template=pt2-bug-report.yml",
        "--failure 1",
        "verified",
    ):
        assert part in result.output
    assert len(result.output.splitlines()) <= 20
    assert Case.open(Path("train.repro")).file.subject.argv == ("train.py", "--epochs", "1")


#: What a final check leaves that saw the failure pass, where the cells of the ablation ran less often.
FLAKY_BUNDLE = """
    from pathlib import Path
    from repro_kit.failure.failure import Layer
    from repro_kit.case.stage_results import ABLATION, BUNDLE
    from repro_kit.case.stage_results import BundleResult

    def run(case, options, ui):
        Path(options.output).write_bytes(b"zip")
        lacking = 0 if case.load(ABLATION).sentence == "run 3 times" else 3
        layer = None if lacking else Layer.INDUCTOR
        case.store(BUNDLE, BundleResult(options.output, "program", True, True, True, layer, lacking=lacking))
        ui.done("verified")
    """
REPEATED_ABLATION = """
    from repro_kit.diagnosis.cell import Ablation

    def run(case, options, ui):
        case.write("ablation.json", Ablation("program", sentence=f"run {options.repeat} times"))
        ui.done("")
    """


def test_the_cells_run_as_often_as_the_final_check_asks_and_never_a_third_time(work, fakes, repro_kit):
    fakes.replace("ablate", REPEATED_ABLATION)
    fakes.replace("bundle", FLAKY_BUNDLE)
    result = repro_kit("collect", "train.py")
    assert result.exit_code == 0, result.output
    assert fakes.ran() == [*ALL, "ablate", "bundle"]
    assert "each way to compile it is tried again, up to 3 times" in " ".join(result.output.split())
    result = repro_kit("collect", "train.py")
    assert (result.exit_code, fakes.ran()) == (0, []), "what was settled stays"
    assert json.loads(Path("train.repro/bundle.json").read_text())["layer"] == "inductor"


def test_json_is_all_there_is_on_stdout(work, fakes, repro_kit):
    result = repro_kit("collect", "--json", "train.py")
    data = json.loads(result.stdout)
    assert (data["layer"], data["failure"], data["statements"], data["statements_before"]) == (
        "inductor",
        "compile-error",
        3,
        12,
    )
    assert data["verified"] is True and data["bundle"] == "train.repro.zip" and data["exit"] == 0
    assert "boom" in data["signature"] and data["error"] is None and data["seconds"] >= 0
    assert [stage["name"] for stage in data["stages"]] == ALL
    assert data["others"] == [
        {"failure": 1, "kind": "crash", "signature": data["others"][0]["signature"], "count": 2, "rank": None}
    ]
    assert "observe" in result.stderr


def test_same_command_does_only_what_is_missing(work, fakes, repro_kit):
    repro_kit("collect", "--until", "ablate", "train.py")
    assert fakes.ran() == ["observe", "capture", "minify", "ablate"]
    result = repro_kit("collect", "train.py")
    assert fakes.ran() == ["bundle"]
    assert "only missing results are computed" in result.output and "done before" in result.output
    assert repro_kit("collect", "train.py").exit_code == 0
    assert fakes.ran() == []


def test_case_stands_for_its_command(work, fakes, repro_kit):
    repro_kit("collect", "--until", "observe", "train.py", "3")
    fakes.ran()
    assert repro_kit("collect", "train.repro").exit_code == 0
    assert fakes.ran() == ALL[1:]


def test_options_after_a_case_are_not_lost(work, fakes, repro_kit):
    repro_kit("collect", "--until", "observe", "train.py")
    fakes.ran()
    result = repro_kit("collect", "train.repro", "--deadline", "9")
    assert result.exit_code == 2 and "--deadline 9 train.repro" in result.stderr and fakes.ran() == []


def test_an_option_after_the_script_is_its_argument_and_said_to_be(work, fakes, repro_kit):
    said = repro_kit("collect", "train.py", "--until", "observe", "--epochs=1").output
    assert said.count("--until stands after train.py, so it is an argument of train.py") == 1
    assert said.count("stands after") == 1
    assert "stands after" not in repro_kit("collect", "--until", "observe", "--fresh", "train.py", "observe").output


def test_another_command_is_refused_and_fresh_replaces_it(work, fakes, repro_kit):
    repro_kit("collect", "train.py", "1")
    fakes.ran()
    result = repro_kit("collect", "train.py", "2")
    assert result.exit_code == 2 and "--output" in result.stderr and fakes.ran() == []
    assert repro_kit("collect", "--fresh", "train.py", "2").exit_code == 0
    assert fakes.ran() == ALL


def test_edited_script_and_other_options_make_results_stale(work, fakes, repro_kit):
    repro_kit("collect", "train.py")
    fakes.ran()
    repro_kit("collect", "--include-values", "train.py")
    assert fakes.ran() == ["bundle"]
    repro_kit("collect", "--include-values", "--budget", "7", "train.py")
    assert fakes.ran() == ["minify", "ablate", "bundle"]  # the cells are run on what the reduction leaves
    (work / "train.py").write_text("print('edited')\n")
    repro_kit("collect", "--include-values", "--budget", "7", "train.py")
    assert fakes.ran() == ALL


def test_only_skip_and_stage_commands(work, fakes, repro_kit):
    repro_kit("collect", "--skip", "ablate", "--skip", "minify", "train.py")
    assert fakes.ran() == ["observe", "capture", "bundle"]
    repro_kit("collect", "--only", "ablate", "train.py")
    assert fakes.ran() == ["ablate"]
    result = repro_kit("minify", "train.repro")
    assert result.exit_code == 0, result.output
    assert fakes.ran() == ["minify"]
    assert repro_kit("ablate", "-o", "other.repro", "train.py", "x").exit_code == 0
    assert fakes.ran() == ["observe", "capture", "ablate"]
    result = repro_kit("collect", "--only", "minify", "-o", "third.repro", "train.py")
    assert fakes.ran() == [] and "needs observe, which has not run" in result.output and result.exit_code == 1


def test_stage_that_ran_again_makes_its_followers_stale(work, fakes, repro_kit):
    repro_kit("collect", "train.py")
    repro_kit("capture", "train.repro")
    fakes.ran()
    repro_kit("collect", "train.py")
    assert fakes.ran() == ["minify", "ablate", "bundle"]


def test_other_failure_gets_a_case_of_its_own(work, fakes, repro_kit):
    repro_kit("collect", "train.py")
    result = repro_kit("collect", "--json", "--failure", "1", "train.py")
    data = json.loads(result.stdout)
    assert data["case"] == "train-1.repro" and data["failure"] == "crash" and data["others"][0]["failure"] == 0


@pytest.mark.parametrize(("code", "name"), [(3, "NOTHING_FAILED"), (4, "USER_BUG")])
def test_honest_end_of_a_stage(work, fakes, repro_kit, code, name):
    fakes.replace(
        "observe",
        f"""
        from repro_kit.errors import Exit
        from repro_kit.errors import Stop

        def run(case, options, ui):
            raise Stop(Exit.{name}, "A sentence.\\nTraceback …")
        """,
    )
    result = repro_kit("collect", "--json", "train.py")
    data = json.loads(result.stdout)
    assert result.exit_code == code == data["exit"] and data["error"] is None
    assert fakes.ran() == ["observe"] and "Traceback …" in result.stderr
    assert data["layer"] == ("user" if code == 4 else None)
    repro_kit("collect", "train.py")
    assert fakes.ran() == ["observe"]  # it is looked at anew


def test_unverified_bundle(work, fakes, repro_kit):
    fakes.replace(
        "bundle",
        """
        from repro_kit.case.stage_results import BundleResult

        def run(case, options, ui):
            case.write("bundle.json", BundleResult(options.output, "script", False, False, False, None, "It passes."))
        """,
    )
    result = repro_kit("collect", "train.py")
    assert result.exit_code == 5 and "NOT verified: It passes." in result.output and "NOT verified" in result.output


def test_failing_stage_does_not_end_the_rest(work, fakes, repro_kit):
    fakes.replace("ablate", "def run(case, options, ui):\n    raise KeyError('lost')\n")
    fakes.replace(
        "minify",
        """
        from repro_kit.errors import StageError

        def run(case, options, ui):
            raise StageError("No zygote.")
        """,
    )
    result = repro_kit("collect", "train.py")
    assert result.exit_code == 0 and fakes.ran() == ALL
    assert "Traceback" not in result.output and "error.txt" in result.output and "No zygote." in result.output
    assert "KeyError: 'lost'" in (work / "train.repro/error.txt").read_text()
    case = Case.open(Path("train.repro"))
    assert [case.stage(name).status for name in ALL] == ["done", "done", "failed", "failed", "done"]
    repro_kit("collect", "train.py")
    assert fakes.ran() == ["minify", "ablate", "bundle"]


def test_failed_capture_leaves_what_needs_it_out(work, fakes, repro_kit):
    fakes.replace("capture", "def run(case, options, ui):\n    raise ValueError('x')\n")
    assert repro_kit("collect", "train.py").exit_code == 0
    assert fakes.ran() == ["observe", "capture", "ablate", "bundle"]


def test_failed_observe_ends_it(work, fakes, repro_kit):
    fakes.replace("observe", "def run(case, options, ui):\n    raise ValueError('x')\n")
    result = repro_kit("collect", "--json", "train.py")
    assert result.exit_code == 1 and fakes.ran() == ["observe"]
    assert "ValueError" in json.loads(result.stdout)["error"]


def test_without_a_program_the_script_is_reduced(work, fakes, repro_kit):
    fakes.replace(
        "capture",
        """
        from repro_kit.case.stage_results import Capture

        def run(case, options, ui):
            case.write("capture/capture.json", Capture("script", note="no graph was compiled"))
        """,
    )
    result = repro_kit("collect", "--json", "train.py")
    data = json.loads(result.stdout)
    assert fakes.ran() == ["observe", "capture", "minify", "ablate", "bundle"]
    assert "no graph was compiled" in data["notes"]
    repro_kit("collect", "train.py")
    assert fakes.ran() == []


@pytest.mark.parametrize(
    ("error", "where"),
    [
        ("OSError(28, 'No space left', '/x/y')", "/x/y"),
        ("shutil.Error([('a', 'b', '[Errno 28] No space left on device')])", "train.repro"),
    ],
)
def test_full_disk_is_one_sentence_and_the_case_goes_on_later(work, fakes, repro_kit, error, where):
    fakes.replace("ablate", f"import shutil\n\ndef run(case, options, ui):\n    raise {error}\n")
    result = repro_kit("collect", "--json", "train.py")
    assert result.exit_code == 1 and f"disk is full at {where}" in json.loads(result.stdout)["error"]
    assert fakes.ran() == ["observe", "capture", "minify", "ablate"]
    fakes.replace("ablate", "def run(case, options, ui):\n    pass\n")
    assert repro_kit("collect", "train.py").exit_code == 0
    assert fakes.ran() == ["ablate", "bundle"]


def test_damaged_and_foreign_directories(work, fakes, repro_kit):
    repro_kit("collect", "train.py")
    fakes.ran()
    (work / "train.repro/case.toml").write_text("schema = [")
    result = repro_kit("collect", "train.py")
    assert result.exit_code == 2 and "case.toml" in result.stderr and "Traceback" not in result.output
    assert repro_kit("collect", "--fresh", "train.py").exit_code == 0
    shutil.rmtree(work / "train.repro")
    (work / "train.repro").mkdir()
    (work / "train.repro/mine.txt").write_text("mine")
    result = repro_kit("collect", "--fresh", "train.py")
    assert result.exit_code == 2 and (work / "train.repro/mine.txt").exists()


def test_quiet_tells_the_result_alone(work, fakes, repro_kit):
    result = repro_kit("collect", "-q", "train.py")
    assert "observe" not in result.stdout and "train.repro.zip" in result.stdout


def test_going_on_with_a_case_keeps_its_options(work, fakes, repro_kit):
    repro_kit("collect", "--timeout", "7", "--logs", "dynamo", "--until", "capture", "train.py")
    fakes.ran()
    repro_kit("collect", "train.repro")
    assert fakes.ran() == ["minify", "ablate", "bundle"]
    repro_kit("collect", "--timeout", "8", "train.repro")
    assert fakes.ran() == ALL


def test_one_process_at_a_time(work, fakes, repro_kit):
    repro_kit("collect", "--until", "observe", "train.py")
    with (work / "train.repro/.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = repro_kit("collect", "train.py")
    assert result.exit_code == 2 and "Another repro-kit" in result.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train.py"], "train.repro"),
        (["-o", "x", "train.py"], "x"),
        (["-o", "x.zip", "train.py"], "x"),
        (["-o", "x.repro.zip", "train.py"], "x.repro"),
        (["-o", "new/", "train.py"], "new/train.repro"),
        (["-o", "old", "train.py"], "old/train.repro"),
        (["--", sys.executable, "train.py"], "train.repro"),
        (["-m", "json.tool"], "tool.repro"),
    ],
)
def test_where_the_case_goes(work, fakes, repro_kit, words, expected):
    (work / "old").mkdir()
    (work / "old" / "file").touch()
    result = repro_kit("collect", *words)
    assert result.exit_code == 0, result.output
    assert (work / expected / "case.toml").exists() and (work / f"{expected}.zip").exists()


def test_output_that_cannot_be_written(work, fakes, repro_kit):
    (work / "file").touch()
    result = repro_kit("collect", "-o", "file/case", "train.py")
    assert result.exit_code == 2 and "--output" in result.stderr and fakes.ran() == []


def test_full_disk_outside_of_stages(work, fakes, repro_kit, monkeypatch):
    repro_kit("collect", "--until", "observe", "train.py")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Case, "write", full)
    result = repro_kit("collect", "--json", "train.py")
    data = json.loads(result.stdout)
    assert result.exit_code == 1 == data["exit"] and "disk is full" in data["error"]


@pytest.mark.parametrize("code", ["NOTHING_FAILED", "FAILED"])
def test_what_stopped_it_is_said_once(work, fakes, repro_kit, code):
    text = f"""
        from repro_kit.errors import Exit
        from repro_kit.errors import Stop

        def run(case, options, ui):
            raise Stop(Exit.{code}, "It cannot be told.")
        """
    fakes.replace("observe", text)
    assert repro_kit("collect", "train.py").output.count("It cannot be told.") == 1
    assert Case.open(Path("train.repro")).stage("observe").note == "It cannot be told."
    assert repro_kit("collect", "-q", "train.py").output.count("It cannot be told.") == 1


def test_history_lists_the_accepted_steps(work, fakes, repro_kit):
    repro_kit("collect", "train.py")
    fakes.ran()
    result = repro_kit("minify", "--history", "--json", "train.repro")
    assert fakes.ran() == []
    assert json.loads(result.stdout) == [{"name": "guess", "statements": 3, "queries": 7, "file": "history/000.py"}]
    result = repro_kit("minify", "--history", "train.py")
    assert result.exit_code == 2


def test_history_of_a_case_without_a_reduction(work, fakes, repro_kit):
    repro_kit("collect", "--until", "observe", "train.py")
    result = repro_kit("minify", "--history", "train.repro")
    assert result.exit_code == 2 and "holds no reduction" in result.stderr


def test_the_demo_writes_a_script_and_collects_it_if_asked(work, fakes, repro_kit):
    said = repro_kit("demo")
    (script,) = [path for path in work.glob("*.py") if path.name != "train.py"]
    assert said.exit_code == 0 and f"repro-kit collect {script.name}" in said.output and fakes.ran() == []
    ran = repro_kit("demo", "--run", "--json")
    assert ran.exit_code == 0 and fakes.ran() == ALL
    assert json.loads(ran.stdout)["case"] == f"{script.stem}.repro"
    script.write_text("mine")
    assert repro_kit("demo").exit_code == 2 and script.read_text() == "mine"
