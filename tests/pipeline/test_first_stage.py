"""A first stage that cannot do its work ends the command, with the exit code of what is wrong."""

import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.options.stages import Options
from repro_kit.pipeline.run import collect
from repro_kit.stages.observe import stage
from repro_kit.ui import SilentUi


def test_bad_input_that_shows_late_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        raise UsageError("The oracle cannot be run: not found")

    monkeypatch.setattr(stage, "run", run)
    subject = Subject("script", ("train.py",), str(tmp_path), sys.executable)
    case = Case.create(tmp_path / "x.repro", subject, "2030-01-01T00:00:00+00:00")
    with pytest.raises(ReproKitError) as raised:
        collect(case, Options(), SilentUi(), ["observe", "capture"])
    record = case.stage("observe")
    assert raised.value.exit_code is Exit.USAGE
    assert record is not None and record.status == "failed" and case.stage("capture") is None
