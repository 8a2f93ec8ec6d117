"""The server of the Model Context Protocol, with the client of the official package."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest

pytest.importorskip("mcp")

import anyio
import mcp_types as types
from mcp import Client

from repro_kit.bundle.archive.archive import CHECKSUMS, checksums, pack
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.case.case import Case, Subject
from repro_kit.commands.mcp.server import make_server
from root import ROOT

FIXTURES = ROOT / "tests/trace/fixtures"
ON = {"on": sys.executable, "package": "click"}
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

```
torch._dynamo.exc.Unsupported: Call to `torch._dynamo.graph_break()`
```

```python
import torch
print(torch.__version__)
```
"""


def bundle(path: Path, repro: str) -> None:
    signature = {"kind": "runtime-error", "exceptions": ["ValueError"], "message": "boom of the lowering"}
    manifest = {"schema": 1, "torch": "2.13.0", "python": "3.11", "limit": 5.0, "signature": signature}
    files = {"repro.py": repro.encode(), MANIFEST: orjson.dumps(manifest)}
    pack(path, {**files, CHECKSUMS: checksums(files)})


def text_of(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def call(name: str, arguments: dict[str, Any], **client: Any) -> types.CallToolResult:
    async def run() -> types.CallToolResult:
        async with Client(make_server(), **client) as connected:
            return await connected.call_tool(name, arguments)

    return anyio.run(run)


def test_nothing_runs_without_consent(project: Path) -> None:
    bundle(project / "a.repro.zip", "open('/tmp/no', 'w')\nraise ValueError('boom of the lowering')\n")
    arguments = {"target": "a.repro.zip", **ON}
    refused = call("verify", arguments)
    assert refused.is_error
    assert "Nothing was run" in text_of(refused)
    assert "open('/tmp/no', 'w')" in text_of(refused)
    digest = text_of(refused).rpartition('"consent": "')[2].partition('"')[0]
    other = call("verify", {**arguments, "timeout": 77, "consent": digest})
    assert other.is_error  # the consent is for another command
    bundle(project / "a.repro.zip", "raise ValueError('boom of the lowering')  # changed\n")
    assert call("verify", {**arguments, "consent": digest}).is_error  # and for other code


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        (types.ElicitResult(action="accept", content={"run": True}), True),
        (types.ElicitResult(action="accept", content={"run": False}), False),
        (types.ElicitResult(action="decline"), False),
        (types.ElicitResult(action="cancel"), False),
    ],
)
def test_a_client_that_can_ask_its_user_is_asked(
    project: Path, mode: str, answer: types.ElicitResult, runs: bool
) -> None:
    bundle(project / "a.repro.zip", f"open({str(project / 'ran')!r}, 'w')\nraise ValueError('boom of the lowering')\n")
    questions = []

    async def ask(context: Any, params: Any) -> types.ElicitResult:
        questions.append(params.message)
        return answer

    words = {"target": "a.repro.zip", **ON, "consent": "anything"}
    result = call("verify", words, mode=mode, elicitation_callback=ask)
    assert (result.is_error, (project / "ran").exists(), len(questions)) == (not runs, runs, 1)
    assert "raise ValueError('boom of the lowering')" in questions[0]
    if runs:
        assert result.structured_content is not None
        assert result.structured_content["lines"][0]["builds"][0]["failed"] == 5


def test_code_that_changes_while_the_user_reads_is_not_run(project: Path) -> None:
    bundle(project / "a.repro.zip", "raise ValueError('boom of the lowering')\n")

    async def ask(context: Any, params: Any) -> types.ElicitResult:
        bundle(project / "a.repro.zip", f"open({str(project / 'ran')!r}, 'w')\n")
        return types.ElicitResult(action="accept", content={"run": True})

    result = call("verify", {"target": "a.repro.zip", **ON}, mode="legacy", elicitation_callback=ask)
    assert (result.is_error, "has changed since the question" in text_of(result)) == (True, True)
    assert not (project / "ran").exists()


def test_what_does_not_fit_is_one_sentence(project: Path) -> None:
    (project / "log.txt").write_text("import torch")
    os.mkfifo(project / "pipe")
    for name, arguments, sentence in (
        ("nothing", {}, "There is no tool nothing"),
        ("show", {}, "'target' is a required property"),
        ("show", {"target": "missing.zip"}, "does not exist"),
        ("show", {"target": "log.txt", "python": "x"}, "'python' was unexpected"),
        ("collect", {}, "Give collect a target, or the text"),
        ("collect", {"text": "no code"}, "Incomplete: nothing of the text can be run"),
        ("verify", {"target": "missing.zip"}, "does not exist"),
        ("farm_status", {"farm": "nowhere"}, "nowhere is not a farm"),
        ("show", {"target": "a\0b"}, "has a NUL character"),
        ("collect", {"target": "x.py", "args": ["\0"]}, "has a NUL character"),
        ("collect", {"target": "\udc80"}, "not valid UTF-8"),
        ("collect", {"target": "x" * 5000}, "cannot be used"),
        ("show", {"target": "x/" * 5000}, "cannot be used"),
        ("collect", {"target": "/"}, "lies outside of the directories"),
        ("collect", {"target": "."}, "is a directory, but no case"),
        ("verify", {"target": "."}, "is a directory, but no case"),
        ("show", {"target": "pipe"}, "is a pipe"),
        ("collect", {"target": "pipe"}, "is a pipe"),
        ("explain", {"target": "/dev/zero"}, "lies outside of the directories"),
        ("collect", {"target": "log.txt"}, "is not a Python file"),
        ("collect", {"target": "-"}, "- does not exist"),
    ):
        result = call(name, arguments)
        assert (result.is_error, sentence in text_of(result)) == (True, True), text_of(result)


def test_of_a_trace_the_graphs_alone_are_shown(project: Path) -> None:
    trace = project / "trace"
    trace.mkdir()
    shutil.copy(FIXTURES / "hang.log", trace / "dedicated_log_torch_trace_x.log")
    (trace / "notes").write_text("of the customer")
    for target in (trace, trace / "dedicated_log_torch_trace_x.log"):
        shown = text_of(call("collect", {"target": str(target)}))
        assert "class Repro(torch.nn.Module)" in shown
        assert "dynamo_start" not in shown and "of the customer" not in shown
    (project / "log").write_text("V1121 of the customer")
    for target in (trace, project / "log"):
        shown = text_of(call("explain", {"target": str(target)}))
        assert "nothing of it runs" in shown and "class Repro" not in shown and "of the customer" not in shown


SECRET = "root:$6$of-the-shadow"


def no_bundle(project: Path) -> dict[str, Path]:
    """Ways to a file that lies outside of the server's directory."""
    outside = project.parent / "outside"
    (outside / "bundle").mkdir(parents=True)
    for name in ("secret", "secret.py", "bundle/repro.py", f"bundle/{MANIFEST}", "case.toml"):
        (outside / name).write_text(SECRET)
    for name, target in (("link.py", "secret.py"), ("linked", "."), ("repro.py", "bundle/repro.py")):
        (project / name).symlink_to(outside / target)
    (project / "half").mkdir()
    (project / "half" / "bundle").symlink_to(outside / "bundle")
    (project / "case").mkdir()
    (project / "case" / "case.toml").symlink_to(outside / "case.toml")
    (project / "whole" / "bundle").mkdir(parents=True)
    (project / "whole" / "bundle" / "repro.py").write_text("x = 1\n")
    (project / "whole" / "bundle" / MANIFEST).symlink_to(outside / "bundle" / MANIFEST)
    (project / "launcher.py").write_text(
        f"import torch\nfrom torch._dynamo.repro.aoti import run_repro\ntorch.export.load('{outside}/secret.pt2')\n"
    )
    with zipfile.ZipFile(outside / "secret.pt2", "w") as made:
        made.writestr("models/model.json", '{"target": "' + SECRET + '"}')
    inside = [*project.iterdir(), project / "case" / "case.toml", project / "whole" / "bundle"]
    return {
        path.name: path for path in (*inside, outside / "secret.py", outside / "secret", Path("/proc/self/environ"))
    }


def test_no_refusal_shows_what_lies_outside(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_ENVIRONMENT", SECRET)
    for path in no_bundle(project).values():
        for tool in ("collect", "explain", "verify", "bisect", "show"):
            result = call(tool, {"target": str(path)})
            assert result.is_error and SECRET not in text_of(result), (tool, path, text_of(result))
            if path.name == "launcher.py" and tool in ("collect", "explain"):
                assert "lies outside of the directories" in text_of(result)
    for arguments in ({"output": "../outside/new"}, {"output": str(project.parent / "new")}):
        (project / "x.py").write_text("x = 1\n")
        assert "lies outside" in text_of(call("collect", {"target": "x.py", **arguments}))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_roots_of_the_client_count(project: Path, mode: str) -> None:
    (project / "inner").mkdir()
    for place in (project, project / "inner"):
        (place / "x.py").write_text("x = 1\n")
    bundle(project / "a.repro.zip", "raise ValueError\n")

    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=(project / "inner").as_uri())])

    async def decline(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    def asked(target: str, **client: Any) -> str:
        return text_of(call("collect", {"target": target}, mode=mode, list_roots_callback=roots, **client))

    assert "lies outside of the directories" in asked("x.py")
    assert "x = 1" in asked("inner/x.py") and f"--output={project / 'inner'}" in asked("inner/x.py")
    assert "x = 1" in asked("inner/x.py", elicitation_callback=decline)
    assert "lies outside" in text_of(call("collect", {"text": ISSUE}, mode=mode, list_roots_callback=roots))

    async def read() -> None:
        async with Client(make_server(), mode=mode, list_roots_callback=roots) as client:
            with pytest.raises(Exception, match="is not a bundle"):
                await client.read_resource("repro-kit://bundle/a.repro.zip")

    anyio.run(read)


def test_the_text_of_an_issue_is_written_after_the_consent(project: Path) -> None:
    before = sorted(project.iterdir())
    assert "@torch.compile" in text_of(call("collect", {"text": ISSUE}))
    assert sorted(project.iterdir()) == before


def test_a_bundle_of_links_is_no_resource(project: Path) -> None:
    no_bundle(project)
    (project / "a.repro.zip").symlink_to(project.parent / "outside" / "secret")
    (project / "fine" / "bundle").mkdir(parents=True)
    (project / "fine" / "bundle" / MANIFEST).write_text("{}")
    (project / "fine" / "bundle" / "issue.md").symlink_to(project.parent / "outside" / "secret")

    async def run() -> None:
        async with Client(make_server()) as client:
            assert [each.name for each in (await client.list_resources()).resources] == ["fine"]
            with pytest.raises(Exception, match="is not a bundle"):
                await client.read_resource("repro-kit://bundle/whole")
            with pytest.raises(Exception, match="lies outside"):
                await client.read_resource("repro-kit://bundle/fine")

    anyio.run(run)


def test_bundles_are_resources(project: Path) -> None:
    bundle(project / "a b.repro.zip", "raise ValueError\n")

    async def run() -> None:
        async with Client(make_server()) as client:
            (resource,) = (await client.list_resources()).resources
            read = await client.read_resource(str(resource.uri))
            assert [str(each.uri).rpartition("#")[2] for each in read.contents] == [MANIFEST, "repro.py"]
            assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["collect", "explain"]
            with pytest.raises(Exception, match="is not a bundle"):
                await client.read_resource("repro-kit://bundle/..%2Fsecret.zip")

    anyio.run(run)


def case_of(project: Path, name: str, cwd: Path, script: str) -> None:
    (project / name).mkdir()
    Case.create(project / name, Subject("script", (script,), str(cwd), sys.executable), "2026-01-01T00:00:00+00:00")


def test_what_a_case_would_run_is_shown_and_lies_within_the_roots(project: Path) -> None:
    outside = project.parent / "outside"
    outside.mkdir()
    for place in (outside, project):
        (place / "x.py").write_text(f"print('{SECRET}')\n")
    (project / "link.py").symlink_to(outside / "x.py")
    case_of(project, "beyond.repro", outside, "x.py")
    case_of(project, "above.repro", project, "../outside/x.py")
    case_of(project, "linked.repro", project, "link.py")
    for name in ("beyond", "above", "linked"):
        for tool in ("collect", "explain", "bisect"):
            result = call(tool, {"target": f"{name}.repro"})
            assert "lies outside" in text_of(result) and SECRET not in text_of(result), (name, tool, text_of(result))
    case_of(project, "own.repro", project, "x.py")
    shown = text_of(call("collect", {"target": "own.repro"}))
    assert f"print('{SECRET}')" in shown
    (project / "x.py").write_text("x = 2\n")
    assert shown.rpartition('"consent"')[2] not in text_of(call("collect", {"target": "own.repro"}))


def test_nothing_is_written_through_a_link_that_leads_out(project: Path) -> None:
    (project.parent / "outside").mkdir()
    (project / "x.py").write_text("x = 1\n")
    for link in ("x.repro", "x.repro.zip"):
        (project / link).symlink_to(project.parent / "outside")
        assert "lies outside" in text_of(call("collect", {"target": "x.py"}))
        assert "lies outside" in text_of(call("explain", {"target": "x.py", "output": "x.repro.zip"}))
        (project / link).unlink()
    (project / "x.repro").mkdir()
    (project / "x.repro" / "observe").symlink_to(project.parent / "outside")
    assert "lies outside" in text_of(call("collect", {"target": "x.py"}))
