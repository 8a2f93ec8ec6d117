"""Result files have one handle each: nothing else names them, and what is stale is not current."""

import ast
import dataclasses
from pathlib import Path

import repro_kit
from repro_kit.case import stage_results
from repro_kit.case.case import Case, ResultFile, StageRecord, Subject
from repro_kit.case.stage_results import Capture
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature

SOURCE = Path(repro_kit.__file__).parent
HANDLES = [value for value in vars(stage_results).values() if isinstance(value, ResultFile)]
#: A bundle has files of these names too: they are the bundle's own.
OF_A_BUNDLE = {"env.json", "ablation.json"}


def test_only_the_handles_name_a_result_file() -> None:
    names = {handle.name for handle in HANDLES} - OF_A_BUNDLE
    found = []
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE)
        if place.parts[0] in ("case", "probe"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [
            f"{place}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in names
        ]
    assert len(HANDLES) == 13 and found == []


def test_what_was_made_for_another_failure_is_not_current(tmp_path: Path) -> None:
    case = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), str(tmp_path), "python"), "2026-01-01")
    assert case.current(stage_results.CAPTURE) is None
    case.update(signature=Signature(Kind.ACCURACY))
    case.store(stage_results.CAPTURE, Capture(subject="script"))
    record = StageRecord("capture", "done")
    case.record(dataclasses.replace(record, about=case.about("capture")))
    assert case.current(stage_results.CAPTURE) == Capture(subject="script")
    case.update(signature=Signature(Kind.RECOMPILES))
    assert case.holds(stage_results.CAPTURE) and case.current(stage_results.CAPTURE) is None
