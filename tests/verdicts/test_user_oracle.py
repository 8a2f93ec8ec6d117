import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.errors import ReproKitError
from repro_kit.failure.failure import Status
from repro_kit.failure.kinds import Kind
from repro_kit.options.stages import OracleOptions
from repro_kit.verdicts.user_oracle import ask_user_oracle, user_oracle_of


@pytest.fixture
def case(tmp_path: Path) -> Case:
    subject = Subject("script", ("train.py",), str(tmp_path), sys.executable)
    return Case.create(tmp_path / "x.repro", subject, "2030-01-01T00:00:00+00:00")


@pytest.mark.parametrize(
    ("command", "status", "kind", "note"),
    [
        ("exit 0", Status.PASS, None, "good"),
        ("exit 125", Status.CANNOT_TELL, None, "the oracle gives no answer (exit status 125)"),
        ("echo loss; echo DRIFT of 3 >&2; exit 1", Status.FAIL, Kind.ORACLE, "bad: DRIFT of 3"),
        ("echo other; exit 1", Status.FAIL, Kind.RUNTIME_ERROR, "exit status 1, but no output matches 'DRIFT'"),
        ("kill -9 $$", Status.FAIL, Kind.RUNTIME_ERROR, "killed by SIGKILL, but no output matches 'DRIFT'"),
    ],
)
def test_exit_status_and_output_decide(case, command, status, kind, note):
    oracle = user_oracle_of(OracleOptions(oracle=command, oracle_matches="DRIFT"))
    assert oracle is not None
    verdict = ask_user_oracle(case, oracle, case.path / "asked", {}, 600)
    assert (verdict.status, verdict.failure.kind if verdict.failure else None) == (status, kind)
    assert verdict.note == note


def test_the_cell_s_settings_reach_it_from_outside(case):
    oracle = user_oracle_of(
        OracleOptions(oracle='echo "$(grep -o "\\"backend.*" "$REPRO_PROBE_ORDERS") $MINE"; exit 1')
    )
    assert oracle is not None
    verdict = ask_user_oracle(case, oracle, case.path / "asked", {"backend": "aot_eager"}, 600, {"MINE": "7"})
    assert verdict.failure is not None
    assert '"backend": "aot_eager"' in verdict.failure.text
    assert verdict.failure.text.endswith("7")


def test_one_that_cannot_be_run_ends_the_command(case):
    oracle = user_oracle_of(OracleOptions(oracle="./nowhere.sh"))
    assert oracle is not None
    with pytest.raises(ReproKitError, match="The oracle cannot be run"):
        ask_user_oracle(case, oracle, case.path / "asked", {}, 600)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (OracleOptions(oracle_matches="x"), "give --oracle"),
        (OracleOptions(oracle="true", check="accuracy"), "give one of them"),
        (OracleOptions(oracle="true", oracle_matches="("), "not a regular expression"),
    ],
)
def test_what_contradicts_itself_is_refused(options, word):
    with pytest.raises(ReproKitError, match=word):
        user_oracle_of(options)
