"""Ten tasks that agents get, done by a script in their place: each ends in a result that the script checks.

They use the server of the Model Context Protocol, and where that has no tool, the command line that
skills/repro-kit/SKILL.md names for the task.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

pytest.importorskip("mcp")

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters

from collecting import told
from repro_kit.bundle.archive.archive import CHECKSUMS, checksums, pack
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.commands.mcp.server import make_server
from repro_kit.runner.compiler import probes
from root import ROOT
from wheelhouse import BAD, GOOD, make_wheels

TRACES = ROOT / "tests/trace/fixtures/insights"
SKILL = (ROOT / "skills/repro-kit/SKILL.md").read_text(encoding="utf-8")
ISSUE = """### The bug

`torch.compile` refuses my graph break, although eager runs it:

```python
import torch

@torch.compile(fullgraph=True, backend="eager")
def g(x):
    torch._dynamo.graph_break()
    return x + 1

g(torch.ones(3))
```
"""


async def agree(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"run": True})


def done(tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool returns to a client whose user agrees."""

    async def run() -> dict[str, Any]:
        async with Client(make_server(), elicitation_callback=agree) as client:
            result = await client.call_tool(tool, arguments)
            assert result.structured_content is not None, result
            return result.structured_content

    return anyio.run(run)


def sentences(explained: dict[str, Any]) -> dict[str, str]:
    return {each.get("section", ""): each["text"] for each in explained["sentences"]}


def test_a_loop_that_recompiles_is_told_what_to_make_dynamic(project: Path) -> None:
    shutil.copy(TRACES / "hit_limit.log", project / "job.log")
    explained = done("explain", target="job.log")
    assert "and hit the limit of 2" in sentences(explained)["recompiles"]
    first = explained["advice"][0]["suggestions"][0]
    assert first["change"] == {"env": {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['x']:0"}}
    assert "repro-kit explain SCRIPT" in SKILL


def test_a_graph_break_has_a_line_and_a_setting(project: Path) -> None:
    shutil.copy(TRACES / "breaks_on_item.log", project / "job.log")
    explained = done("explain", target="job.log")
    assert "insight_cases.py:132" in sentences(explained)["breaks"]
    (advice,) = explained["advice"][0]["suggestions"]
    assert advice["change"] == {"env": {"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"}}


def test_the_trace_of_a_job_tells_what_failed(project: Path) -> None:
    shutil.copy(TRACES.parent / "lowering_error.log", project / "job.log")
    failed = [text for text in sentences(done("explain", target="job.log")).values() if "LoweringException" in text]
    assert len(failed) == 1


def bundle(path: Path) -> None:
    """A bundle of the planted bug, as somebody else would send it."""
    signature = {"kind": "accuracy", "exceptions": ["RuntimeError"], "message": "planted: the answer is wrong"}
    manifest = {"schema": 1, "torch": "1.2.0", "python": "3.11", "limit": 5.0, "signature": signature}
    files = {"repro.py": b"import frob\nfrob.answer()\n", MANIFEST: orjson.dumps(manifest)}
    pack(path, {**files, CHECKSUMS: checksums(files)})


@pytest.mark.slow
def test_a_regression_is_found_between_two_builds_and_its_fix_is_told(project: Path) -> None:
    bundle(project / "a.repro.zip")
    versions = [f"1.{number}.0" for number in range(5)]
    make_wheels(project / "wheels", versions, lambda number: BAD if number in (2, 3) else GOOD)
    builds = {"target": "a.repro.zip", "wheels": "wheels", "package": "frob", "python": sys.executable}
    found = done("bisect", **builds, good="1.0.0", bad="1.3.0")
    assert (found["exit"], found["last_good"]["version"], found["first_bad"]["version"]) == (0, "1.1.0", "1.2.0")
    table = done("verify", **builds, on=["1.3.0,1.4.0"])
    (line,) = table["lines"]
    assert [(each["build"], each["outcome"]) for each in line["builds"]] == [("1.3.0", "same"), ("1.4.0", "pass")]
    assert (table["exit"], table["answer"]) == (3, "FIXED")
    assert "repro-kit bisect CASE --good" in SKILL and "repro-kit verify --yes BUNDLE --on" in SKILL


def test_a_pipeline_tells_when_a_bug_is_gone(project: Path) -> None:
    bundle(project / "a.repro.zip")
    for answer, expected, code in ((BAD, "fails", 0), (GOOD, "fails", 1)):
        (project / "frob.py").write_text(answer)
        repro = project / "repro.py"
        repro.write_text(f"import sys\nsys.path.insert(0, {str(project)!r})\nimport frob\nfrob.answer()\n")
        words = ["--yes", "--expect", expected, "--python", sys.executable, str(repro)]
        assert told(project, "verify", *words)["exit"] == code
    assert "repro-kit verify --yes --expect fails BUNDLE" in SKILL


def test_two_machines_are_compared(project: Path) -> None:
    signature = {"kind": "accuracy", "difference": "dtype"}
    wrong = {"target": "models:encoder", "check": "accuracy", "ending": "fails", "words": "…", "signature": signature}
    right = {"target": "models:encoder", "check": "accuracy", "ending": "agrees", "words": "…"}
    for name, finding in (("arm", wrong), ("x86", right)):
        (project / f"{name}.json").write_text(json.dumps({"results": {"findings": [finding], "torch": "2.13.0"}}))
    only = told(project, "check", "arm.json", "--baseline", "x86.json")
    assert (only["exit"], [each["target"] for each in only["new"]]) == (1, ["models:encoder"])
    assert told(project, "check", "x86.json", "--baseline", "x86.json")["exit"] == 0
    assert "repro-kit check --json TARGET" in SKILL


@pytest.mark.slow
@pytest.mark.torch
def test_from_the_text_of_an_issue_to_a_bundle_and_a_table(project: Path, python_in_forks: Path) -> None:
    """Three tasks: make a bundle of an issue, say what it holds, and say whether it fails with this build."""
    config, python = project.parent / "config", str(python_in_forks)
    (config / "repro-kit").mkdir(parents=True)
    # How far it is reduced is not asked here, and each repro.py runs in a fork.
    (config / "repro-kit" / "config.toml").write_text(f"budget = 2\npython = {json.dumps(python)}\n")
    known, same = probes(sys.executable), probes(python)
    assert known is not None and same is not None
    shutil.copytree(known, same, dirs_exist_ok=True)
    env = {**os.environ, "XDG_CONFIG_HOME": str(config)}
    progress: list[str] = []

    async def watch(done: float, total: float | None, message: str | None) -> None:
        progress.append(message or "")

    async def run() -> None:
        words = ["-m", "repro_kit", "mcp"]
        server = StdioServerParameters(command=sys.executable, args=words, cwd=str(project), env=env)
        async with Client(server, elicitation_callback=agree) as client:
            skip = ["ablate"]
            made = await client.call_tool("collect", {"text": ISSUE, "skip": skip}, progress_callback=watch)
            assert made.structured_content is not None, made
            assert (made.structured_content["verified"], made.structured_content["exit"]) == (True, 0)
            assert made.structured_content["manifest"]["signature"]["kind"] == "dynamo-error"
            path = made.structured_content["bundle"]
            assert any("bundle" in line for line in progress)
            (resource,) = (await client.list_resources()).resources
            story = await client.call_tool("show", {"target": resource.name})
            assert story.structured_content is not None
            assert story.structured_content["story"]["verified"] is True
            table = await client.call_tool("verify", {"target": path, "on": python})
            assert table.structured_content is not None
            (line,) = table.structured_content["lines"]
            assert (line["builds"][0]["outcome"], line["builds"][0]["failed"]) == ("same", 5)

    anyio.run(run)
