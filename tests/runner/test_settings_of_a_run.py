"""Whose settings count as those of the program, where a run has several processes."""

import json
from pathlib import Path

from repro_kit.runner.read_findings import read_findings


def process(directory: Path, pid: int, time: float, config: dict[str, object], compiles: bool = False) -> None:
    hello = {"pid": pid, "executable": "python", "python": "3.11", "torch": "2.13.0", "time": time}
    (directory / f"hello-{pid}.json").write_text(json.dumps(hello))
    (directory / f"goodbye-{pid}.json").write_text(json.dumps({"config": config, "threads": pid}))
    if compiles:
        (directory / f"events-{pid}.jsonl").write_text("")


def test_a_launcher_that_compiles_nothing_is_not_the_program(tmp_path: Path) -> None:
    process(tmp_path, 7, 1.0, {})
    process(tmp_path, 80, 3.0, {"dynamo.recompile_limit": 2}, compiles=True)
    process(tmp_path, 9, 2.0, {"dynamo.recompile_limit": 1}, compiles=True)
    found = read_findings(tmp_path)
    assert (found.config, found.threads, found.problems) == ({"dynamo.recompile_limit": 1}, 9, ())


def test_without_a_compile_the_first_process_is_the_program(tmp_path: Path) -> None:
    process(tmp_path, 80, 1.0, {"inductor.debug": True})
    process(tmp_path, 9, 2.0, {})
    assert read_findings(tmp_path).config == {"inductor.debug": True}
