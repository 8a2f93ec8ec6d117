"""Pages that go into a bundle beside its trace: tlparse's, from the trace as it is packed, and explain's."""

from pathlib import Path

import pytest

from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.case.case import Case, Subject
from repro_kit.commands.explain.explain_trace import TraceSource, explain
from repro_kit.stages.bundle.sharing import add_pages
from root import ROOT

LOG = ROOT / "tests/trace/fixtures" / "insights" / "four_sizes_static.log"
#: Stands in for tlparse: as many files as its argument has lines, in folders.
TLPARSE = """#!/bin/sh
mkdir -p "$3/0_0" && cp "$1" "$3/index.html" && cp "$1" "$3/0_0/graph.txt"
"""


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case.create(tmp_path / "x.repro", Subject("script", ("x.py",), str(tmp_path), "python"), "2030-01-01")


def contents() -> Contents:
    made = Contents(Redactor([("/home/me", "<home>")], [], []))
    made.add_text("trace/one.log", LOG.read_text(), "trace")
    return made


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    program = tmp_path / "bin" / "tlparse"
    program.parent.mkdir()
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_all_of_tlparses_files_are_added_and_nothing_private(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, TLPARSE)
    made = contents()
    assert [*add_pages(case, made)] == []
    assert {"tlparse/index.html", "tlparse/0_0/graph.txt"} <= set(made.entries)
    assert b"/home/me" in LOG.read_bytes() and b"/home/me" not in made.entries["tlparse/index.html"].data


def test_without_tlparse_a_sentence_says_so(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (note,) = add_pages(case, contents())
    assert "not installed: pip install 'repro-kit[tlparse]'" in note


def test_a_tlparse_that_fails_is_no_reason_to_fail(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "#!/bin/sh\necho it is broken >&2\nexit 1\n")
    (note,) = add_pages(case, contents())
    assert "left out" in note and "it is broken" in note


def test_what_explain_found_is_a_page(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    explain(TraceSource(LOG, "x.py", case), Path("/home/me"))
    made = contents()
    [*add_pages(case, made)]
    page = made.entries["explain.html"].data.decode()
    assert "compiled 4 times" in page and "/home/me" not in page
