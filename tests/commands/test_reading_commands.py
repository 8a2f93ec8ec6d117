"""`show`, `diff`, and `bundle --open` and `--gh`, on real archives; nothing is compiled."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from repro_kit.bundle.archive.archive import CHECKSUMS, checksums, pack
from repro_kit.bundle.story.issue_form import labels_of
from repro_kit.bundle.story.story import STORY, write_story
from repro_kit.bundle.story.title import title_of
from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.cli.main import cli
from repro_kit.cli.output.filing import Filing
from repro_kit.commands.intake.open_case import Job
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.failure.failure import Layer
from repro_kit.options.stages import Options
from repro_kit.pipeline.run import StageEnding
from repro_kit.serialize import dumps
from repro_kit.ui import SilentUi
from stories import shown_issue, story_of


def files_of(story):
    files = {
        STORY: write_story(story).encode(),
        "env.json": dumps(story.environment),
        "ablation.json": dumps(story.ablation),
        "repro.py": story.repro.encode(),
        "issue.md": shown_issue(story).encode(),
    }
    return {**files, CHECKSUMS: checksums(files)}


def bundle_at(path, story):
    pack(path, files_of(story))
    return str(path)


def case_at(path, story):
    case = Case.create(
        path, Subject("script", ("x.py",), str(path.parent), sys.executable), "2030-01-01T00:00:00+00:00"
    )
    (path / "bundle").mkdir()
    for name, data in files_of(story).items():
        (path / "bundle" / name).write_bytes(data)
    case.record(StageRecord("bundle", "done"))
    return case


def run(*words):
    return CliRunner().invoke(cli, list(words), prog_name="repro-kit")


def test_a_bundle_a_case_and_an_unpacked_bundle_are_shown_alike(tmp_path):
    story = story_of("accuracy")
    case = case_at(tmp_path / "x.repro", story)
    places = [bundle_at(tmp_path / "x.repro.zip", story), str(case.path), str(case.path / "bundle")]
    shown = [run("show", place) for place in places]
    assert {it.exit_code for it in shown} == {0} and len({it.output for it in shown}) == 1
    for text in (
        story.title,
        "✗ fails",
        "torch.relu(x)",
        "`x` is float64",
        "Autograd",
        "kind 1 of PyTorch's four",
    ):
        assert text in shown[0].output
    assert "verified" in shown[0].output and "NOT VERIFIED" not in shown[0].output


def test_labels_of_pytorch_are_shown_for_a_failure_of_pytorch_only(tmp_path):
    own = run("show", bundle_at(tmp_path / "a.zip", story_of("accuracy"))).output
    assert "oncall: pt2" in own and "This is not a PyTorch bug" not in own
    users = run("show", bundle_at(tmp_path / "b.zip", story_of("accuracy", layer=Layer.USER))).output
    assert "oncall: pt2" not in users
    assert "This is not a PyTorch bug. The report is for whoever maintains that code." in users


def test_show_as_json_has_the_whole_story(tmp_path):
    story = story_of("accuracy")
    data = json.loads(run("show", "--json", bundle_at(tmp_path / "a.zip", story)).stdout)
    assert data["signature"]["kind"] == "accuracy" and data["environment"]["torch"] == "2.13.0"
    assert data["reproducer_kind"]["number"] == 1 and data["repro"] == story.repro


def test_two_bundles_compared(tmp_path):
    one, two = bundle_at(tmp_path / "a.zip", story_of("accuracy")), bundle_at(tmp_path / "b.zip", story_of("crash"))
    same = run("diff", one, one)
    assert same.exit_code == 0 and "the same failure" in same.output
    other = run("diff", one, two)
    assert other.exit_code == 1 and "different failures" in other.output
    assert "SIGABRT" in other.output and "+lowerings[" in other.output
    data = json.loads(run("diff", "--json", one, two).stdout)
    assert data["same"] is False and data["contrasts"][0]["what"] == "failure"


@pytest.mark.parametrize("command", [("show",), ("diff", "good.zip")])
@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("absent", "does not exist"),
        ("empty", "has no story.json"),
        ("text.zip", "is not a bundle"),
        ("old.zip", "run bundle again"),
        ("broken.zip", "its story.json"),
    ],
)
def test_what_is_no_bundle_is_one_sentence(tmp_path, monkeypatch, command, place, words):
    monkeypatch.chdir(tmp_path)
    story = story_of("accuracy")
    bundle_at(tmp_path / "good.zip", story)
    Path("empty").mkdir()
    Path("text.zip").write_text("hello")
    for name, files in (("old.zip", {"repro.py": b""}), ("broken.zip", {**files_of(story), STORY: b"{"})):
        files.pop(CHECKSUMS, None)
        pack(Path(name), {**files, CHECKSUMS: checksums(files)})
    result = run(*command, place)
    assert result.exit_code == 2 and words in result.output and len(result.output.splitlines()) == 1


def job_at(path, ui, story):
    return Job(case_at(path, story), Options(), ui, resumed=True)


def fake_gh(place, status=0):
    (place / "gh").write_text(
        f"#!{sys.executable}\nimport json, pathlib, sys\n"
        f"pathlib.Path({str(place / 'called')!r}).write_text(json.dumps([sys.argv[1:], sys.stdin.read()]))\n"
        "print('https://github.com/pytorch/pytorch/issues/1')\n"
        f"print('no access', file=sys.stderr)\nsys.exit({status})\n"
    )
    (place / "gh").chmod(0o755)


def test_a_link_to_the_filled_in_issue(tmp_path):
    ui, story = SilentUi(), story_of("accuracy")
    assert Filing(open=True)(job_at(tmp_path / "x.repro", ui, story), StageEnding(Exit.OK)) == StageEnding(Exit.OK)
    query = parse_qs(urlsplit(ui.notes[0].removeprefix("New issue: ")).query)
    assert query["title"] == [title_of(story)]
    assert query["body"][0].startswith("### 🐛 Describe the bug") and "def f(x)" in query["body"][0]


def test_gh_files_only_after_a_yes(tmp_path, monkeypatch):
    fake_gh(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    story = story_of("accuracy")
    asked = SilentUi()
    Filing(gh=True)(job_at(tmp_path / "a.repro", asked, story), StageEnding(Exit.OK))
    assert not (tmp_path / "called").exists() and any("Nothing was filed" in note for note in asked.notes)
    agreed = SilentUi(yes=True)
    Filing(gh=True)(job_at(tmp_path / "b.repro", agreed, story), StageEnding(Exit.OK))
    words, body = json.loads((tmp_path / "called").read_text())
    assert words[:4] == ["issue", "create", "--repo", "pytorch/pytorch"] and title_of(story) in words
    assert body.startswith("### 🐛 Describe the bug") and story.repro in body
    assert agreed.notes[-2:] == [
        "Filed: https://github.com/pytorch/pytorch/issues/1",
        f"Labels that fit: {', '.join(labels_of(story))}.",
    ]


def test_a_comment_on_an_issue_is_shown_and_sent_with_gh_after_a_yes(tmp_path, monkeypatch):
    fake_gh(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    story, shown = story_of("accuracy"), SilentUi()
    Filing(comment="#12")(job_at(tmp_path / "a.repro", shown, story), StageEnding(Exit.OK))
    link = "https://github.com/pytorch/pytorch/issues/12"
    assert shown.notes == [f"Nothing was sent: paste the text into {link}, or add --gh."]
    assert not (tmp_path / "called").exists()
    Filing(gh=True, comment=link)(job_at(tmp_path / "b.repro", SilentUi(yes=True), story), StageEnding(Exit.OK))
    words, body = json.loads((tmp_path / "called").read_text())
    assert words[:3] == ["issue", "comment", link]
    assert body.startswith("Reproduced with torch 2.13.0") and story.repro.rstrip() in body
    assert "**Where:** inductor" in body and len(body.splitlines()) < 80 + len(story.repro.splitlines())


@pytest.mark.parametrize("name", ["x", "-1", "https://github.com/else/where/issues/1", "#"])
def test_a_comment_needs_an_issue(name):
    result = run("bundle", f"--comment={name}", "x.py")
    assert result.exit_code == 2 and "--comment takes the number of an issue of PyTorch" in result.output


def with_cause(cause):
    return replace(story_of("accuracy").ablation, cause=cause)


@pytest.mark.parametrize("options", [{"open": True}, {"gh": True}])
def test_a_failure_that_is_not_pytorchs_is_not_filed_there(tmp_path, monkeypatch, options):
    fake_gh(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    story = story_of("accuracy", layer=Layer.USER, evidence="The operator writes to its argument.")
    ui = SilentUi(yes=True)
    with pytest.raises(UsageError) as refused:
        Filing(**options)(job_at(tmp_path / "a.repro", ui, story), StageEnding(Exit.OK))
    place = tmp_path / "a.repro" / "bundle" / "issue.md"
    assert str(refused.value) == (
        "The failure is not PyTorch's: The operator writes to its argument. "
        f"Send {place} to whoever maintains that code."
    )
    assert ui.notes == [] and not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layer": Layer.BACKEND}, "Ask whoever maintains the backend before PyTorch."),
        ({"ablation": with_cause("script-code")}, "Ask whoever maintains that code before PyTorch."),
    ],
)
def test_yes_does_not_file_what_somebody_else_is_asked_about_first(tmp_path, monkeypatch, changes, words):
    fake_gh(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    ui = SilentUi(yes=True)
    Filing(gh=True)(job_at(tmp_path / "a.repro", ui, story_of("accuracy", **changes)), StageEnding(Exit.OK))
    assert not (tmp_path / "called").exists()
    assert ui.notes[0].endswith(words) and "--yes does not answer this question" in ui.notes[1]


def test_a_link_says_what_speaks_against_an_issue(tmp_path):
    ui, story = SilentUi(), story_of("accuracy", layer=Layer.BACKEND, verified=False, reason="it passed")
    Filing(open=True)(job_at(tmp_path / "x.repro", ui, story), StageEnding(Exit.UNVERIFIED))
    caution, unverified, link = ui.notes
    assert (
        caution.startswith("This is not a failure of torch.compile itself")
        and unverified == "The bundle is NOT VERIFIED: it passed."
    )
    assert link.startswith("New issue: ")


def test_gh_that_fails_or_is_missing_is_one_sentence(tmp_path, monkeypatch):
    fake_gh(tmp_path, status=1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReproKitError, match=r"gh did not file the issue \(no access\)"):
        Filing(gh=True)(job_at(tmp_path / "a.repro", SilentUi(yes=True), story_of("accuracy")), StageEnding(Exit.OK))
    (tmp_path / "gh").unlink()
    result = run("bundle", "--gh", "x.py")
    assert result.exit_code == 2 and "--gh needs GitHub's command" in result.output


def test_nothing_is_filed_of_a_bundle_that_was_not_made(tmp_path):
    ui = SilentUi(yes=True)
    ending = StageEnding(Exit.NOTHING_FAILED, "Nothing failed.")
    job = job_at(tmp_path / "x.repro", ui, story_of("accuracy"))
    assert Filing(open=True, gh=True)(job, ending) is ending
    Filing(open=True, gh=True)(replace(job, options=Options().with_(dry_run=True)), StageEnding(Exit.OK))
    assert ui.notes == []
