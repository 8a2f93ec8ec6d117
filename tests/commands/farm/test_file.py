"""Issues and comments of a farm's cases, with a stand-in for GitHub's `gh`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from repro_kit.bundle.archive.archive import CHECKSUMS, checksums, pack
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.bundle.story.story import write_story
from repro_kit.cli.main import cli
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.status import judge_all
from repro_kit.failure.failure import Layer
from repro_kit.failure.signature import RunOutcome
from repro_kit.regressions.build import Build
from repro_kit.regressions.unit import UnitResult
from repro_kit.serialize import dumps
from stories import story_of

GH = """#!/bin/sh
printf '%s\\n' "$@" > words
cat > body
[ -z "$GH_FAILS" ] || { echo "no access" >&2; exit 1; }
echo https://github.com/me/mine/issues/7
"""
ON = ("--on", sys.executable, "--package", "click", "--yes")


def made_bundle(path: Path, message: str = "boom of the lowering", **more: bytes) -> str:
    signature = {"kind": "runtime-error", "exceptions": ["ValueError"], "message": message}
    manifest = {"schema": 1, "torch": "2.13.0", "python": "3.11", "limit": 5.0, "signature": signature}
    files = {
        "repro.py": f"raise ValueError({message!r})\n".encode(),
        MANIFEST: orjson.dumps(manifest),
        "issue.md": b"<!--\nTitle: x\n-->\n### The bug\n\nIt goes boom.\n\n### Error logs\n\nx\n\n### Versions\n\ny\n",
        **{f"{name}.json": data for name, data in more.items()},
    }
    pack(path, {**files, CHECKSUMS: checksums(files)})
    return path.name


@pytest.fixture
def farm(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    (project / "bin").mkdir()
    monkeypatch.setenv("PATH", str(project / "bin"))

    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, ["farm", *words], prog_name="repro-kit")

    assert run("add", made_bundle(project / "a.repro.zip")).exit_code == 0
    return run


def install_gh(project: Path) -> None:
    (project / "bin" / "gh").write_text(GH.replace("cat >", "/bin/cat >"))
    (project / "bin" / "gh").chmod(0o755)


def test_an_issue_is_sent_after_a_yes_and_remembered(farm: Callable[..., Result], project: Path) -> None:
    install_gh(project)
    farm("run", *ON)
    asked = farm("file", "a", "--repo", "me/mine")
    assert (asked.exit_code, (project / "words").exists()) == (0, False)
    assert "It goes boom." in asked.output and "| build | verdict |" in asked.output
    assert "Nothing was sent; --yes sends without asking, and so does: gh issue create --repo me/mine" in asked.output
    assert sys.executable not in asked.output
    sent = farm("file", "a", "--repo", "me/mine", "--yes", "--json")
    assert (sent.exit_code, json.loads(sent.stdout)["sent"]) == (0, True), sent.output
    words = (project / "words").read_text().splitlines()
    assert words[:5] == ["issue", "create", "--repo", "me/mine", "--title"]
    assert words[5] == "the compiled function raises ValueError: boom of the lowering"
    body = (project / "body").read_text()
    assert body.index("| build | verdict |") < body.index("### Error logs") < body.index("### Versions")
    assert (project / "body").read_text() == (project / "farm" / "drafts" / "a.md").read_text()
    assert json.loads(farm("status", "a", "--json").stdout)["cases"][0]["issue"].endswith("/issues/7")
    again = farm("file", "a", "--yes")
    assert (again.exit_code, "there is nothing to add" in again.output) == (2, True)


def told(layer: Layer) -> dict[str, bytes]:
    """The files that tell the story of a bundle, with its layer."""
    story = story_of("accuracy", layer=layer, evidence="The operator writes to its argument.")
    return {
        "story": write_story(story).encode(),
        "env": dumps(story.environment),
        "ablation": dumps(story.ablation),
    }


def test_a_failure_that_is_not_pytorchs_is_not_filed_there(farm: Callable[..., Result], project: Path) -> None:
    install_gh(project)
    farm("add", made_bundle(project / "users.repro.zip", "an operator that lies", **told(Layer.USER)))
    farm("add", made_bundle(project / "backend.repro.zip", "no such kernel", **told(Layer.BACKEND)))
    farm("run", *ON)
    asked = farm("file", "backend", "--yes")
    assert "Ask whoever maintains the backend before PyTorch." in asked.output
    assert "--yes does not answer this question" in asked.output and not (project / "words").exists()
    assert "[backend] wrong result of relu with" in asked.output, "the title of the bundle's own issue"
    refused = farm("file", "users", "--yes")
    assert refused.exit_code == 2
    assert "The failure is not PyTorch's: The operator writes to its argument. Send " in refused.output
    assert not (project / "words").exists()
    elsewhere = farm("file", "users", "--repo", "me/mine", "--yes")
    assert (elsewhere.exit_code, (project / "words").exists()) == (0, True), elsewhere.output


def test_without_gh_it_says_what_to_do(farm: Callable[..., Result], project: Path) -> None:
    farm("run", *ON)
    result = farm("file", "a", "--yes")
    assert (result.exit_code, "there is no `gh`" in result.output) == (0, True)
    assert "issues/new?template=pt2-bug-report.yml" in result.output
    assert "It goes boom." in (project / "farm" / "drafts" / "a.md").read_text()


def test_what_cannot_be_filed_is_one_sentence(
    farm: Callable[..., Result], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_gh(project)
    for words, sentence, code in (
        (("a",), "a is new: run it first", 2),
        (("b",), "names no case", 2),
        (("a", "--repo", "pytorch"), "--repo takes OWNER/NAME", 2),
        (("a", "--issue", "https://example.org/1"), "--issue takes a number, or a link", 2),
    ):
        result = farm("file", *words)
        assert (result.exit_code, sentence in " ".join(result.output.split())) == (code, True), result.output
    farm("run", *ON)
    monkeypatch.setenv("GH_FAILS", "1")
    refused = farm("file", "a", "--yes")
    assert (refused.exit_code, "gh did not file the issue (no access)" in refused.output) == (1, True)


def test_the_comment_on_a_fixed_case(farm: Callable[..., Result], project: Path) -> None:
    install_gh(project)
    farm("run", *ON)
    place = FarmPlace(project / "farm")
    with place.writing() as store:
        (case,) = store.cases()
        (line,) = store.builds()
        with store.writing():
            store.list_builds(line, "--package click", [Build("99.0@/home/me/env/bin/python", "99.0")], keep=True)
            passed = RunOutcome.PASSES
            store.record([UnitResult("99.0@/home/me/env/bin/python", passed, passed=3, case=case.id, line=line)])
        judge_all(place, store)
    unnamed = farm("file", "a", "--yes")
    assert (unnamed.exit_code, "name its issue with --issue" in unnamed.output) == (2, True)
    result = farm("file", "a", "--issue", "#12", "--repo", "me/mine", "--yes")
    assert (result.exit_code, (project / "words").read_text().split()[:3]) == (
        0,
        ["issue", "comment", "https://github.com/me/mine/issues/12"],
    )
    body = (project / "body").read_text()
    assert body.startswith("This is fixed.") and "passes on 99.0." in body and "/home/me" not in body
    assert "repro-kit verify BUNDLE --on" in body


def test_the_text_of_a_release_replaces_that_of_an_issue_after_a_yes(
    farm: Callable[..., Result], project: Path
) -> None:
    install_gh(project)
    farm("run", *ON)
    words = ("report", "--issue", "5", "--repo", "me/mine")
    assert "Nothing was sent" in farm(*words).output and not (project / "words").exists()
    sent = farm(*words, "--yes", "--json")
    assert (sent.exit_code, json.loads(sent.stdout)["issue"]) == (0, "https://github.com/me/mine/issues/5"), sent.output
    assert (project / "words").read_text().split()[:3] == ["issue", "edit", "https://github.com/me/mine/issues/5"]
    assert (project / "body").read_text().startswith("# Release ")
    assert farm("report", "--issue", "5", "--repo", "nothing").exit_code == 2
