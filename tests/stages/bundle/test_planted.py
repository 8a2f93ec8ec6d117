"""Fifty planted secrets: none is in the bundle, and the rest is as it was."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from planted_secrets import PROGRAM, UNKNOWN, VALUES, case, record, texts, with_program
from repro_kit.case.case import Case
from repro_kit.cli.main import cli
from repro_kit.graph import parse
from repro_kit.options.stages import BundleOptions
from repro_kit.stages.bundle import stage
from repro_kit.trace import read
from repro_kit.ui import SilentUi
from root import ROOT

__all__ = ["case"]


def test_there_are_fifty_and_half_of_them_have_no_known_form() -> None:
    assert len(set(VALUES)) == 50 and UNKNOWN >= 25


@pytest.mark.parametrize("level", ["script", "program"])
def test_none_is_found_in_the_bundle(case: Case, level: str) -> None:
    if level == "program":
        with_program(case)
    stage.run(case, BundleOptions(trace="yes", include_source=True), SilentUi())
    packed = texts(case.path.with_name("x.repro.zip"))
    left = {value: [name for name, text in packed.items() if value in name + text] for value in VALUES}
    assert {value: names for value, names in left.items() if names} == {}
    ends = {value[-12:] for value in VALUES if len(value) >= 24} | {value[:12] for value in VALUES if len(value) >= 24}
    assert not [end for end in ends for text in packed.values() if end in text]
    assert not [name for name, text in packed.items() if str(case.path.parent) in text]
    # The rest is as it was: the code still runs, and the trace still reads.
    for name, text in packed.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
    reader = read(case.path / "bundle/trace")
    assert [it.intact for it in reader] == [True, True] and not reader.problems.stray
    if level == "script":
        renamed = next(name for name in packed if name.startswith("files/helper_"))
        assert f"from {Path(renamed).stem} import SIZE" in packed["files/train.py"]
        assert "'--epochs', '3'" in packed["repro.py"] or '"--epochs", "3"' in packed["repro.py"]
    else:
        assert "torch.relu(" in packed["repro.py"] and packed["repro.py"].count("REDACTED_SECRET_") > 3


def test_the_report_has_tokens_and_no_originals(case: Case) -> None:
    stage.run(case, BundleOptions(trace="yes", include_source=True), SilentUi())
    packed = texts(case.path.with_name("x.repro.zip"))
    report = json.loads(packed["redactions.json"])["replaced"]
    manifest = json.loads(packed["manifest.json"])
    assert sum(it["places"] for it in report) == sum(it["redactions"] for it in manifest["files"])
    for it in report:
        assert set(it) == {"token", "what", "places", "files"} and it["what"]
        assert all(it["token"] in packed[name] for name in it["files"])


def test_a_stranger_to_the_gate_gets_no_model_code(case: Case) -> None:
    stage.run(case, BundleOptions(), SilentUi(yes=True))
    names = set(texts(case.path.with_name("x.repro.zip")))
    assert not [name for name in names if name.startswith(("trace", "artifacts", "logs"))]


def test_a_redacted_trace_has_no_code(case: Case) -> None:
    log = case.path / "observe/trace/dedicated_log_torch_trace_a.log"
    stack = [{"line": 1, "name": "f", "filename": 0, "loc": "secret_sauce(x)"}]
    more = record("chromium_event", '{"name": "compile"}') + record("dynamo_start", "p", stack=stack)
    log.write_text(log.read_text() + more + record("create_symbol", "s0 of the model"))
    stage.run(case, BundleOptions(trace="redacted"), SilentUi())
    packed = texts(case.path.with_name("x.repro.zip"))
    assert [name for name in packed if name.startswith(("trace", "artifacts", "logs"))] == [f"trace/{log.name}"]
    text = packed[f"trace/{log.name}"]
    assert "compile" in text and "dynamo_start" in text
    assert not any(it in text for it in ("class G", "secret_sauce", "s0 of the model", "NOTE"))
    assert all(it.intact for it in read(case.path / "bundle/trace"))


def test_a_dry_run_lists_and_writes_nothing(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    from repro_kit.errors import Stop
    from repro_kit.ui import Ui

    with pytest.raises(Stop, match="Nothing was written"):
        stage.run(case, BundleOptions(dry_run=True, include_source=True), Ui())
    shown = capsys.readouterr().out
    assert "files/train.py" in shown and "your own file" in shown and "REDACTED_SECRET_1" in shown
    assert not any(value in shown for value in VALUES)
    assert not case.path.with_name("x.repro.zip").exists() and not case.has("bundle.json")


def test_a_dry_run_after_a_bundle_leaves_the_case_as_it_was(case: Case) -> None:
    runner = CliRunner()
    made = runner.invoke(cli, ["bundle", "--yes", str(case.path)])
    before = _records(case)
    dry = runner.invoke(cli, ["bundle", "--dry-run", "--yes", str(case.path)])
    assert "Nothing was written" in dry.output and "bundle.json" in before, (made.output, dry.output)
    assert _records(case) == before


def _records(case: Case) -> dict[str, str]:
    return {path.name: path.read_text() for path in case.path.iterdir() if path.suffix in (".json", ".toml")}


def test_code_of_the_example_is_left_as_it_is() -> None:
    from repro_kit.bundle.privacy.redact import Redactor

    for path in sorted(ROOT.glob("examples/*.py")):
        redactor = Redactor()
        redactor.learn(path.read_text(), path.name)
        assert redactor.redact(path.read_text(), path.name).tokens == {}, path
    assert parse(PROGRAM)
