"""What is shown of recorded traces: in any width, as a page, as JSON."""

from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from repro_kit.cli.output.explain_view import draw_section, draw_sentences
from repro_kit.commands.explain.explain_trace import TraceSource, explain
from repro_kit.explain.context import Context
from repro_kit.explain.report import page
from repro_kit.explain.sections import NAMES
from repro_kit.explain.sentences import sentences
from repro_kit.failure.failure import Frame
from repro_kit.serialize import from_data
from repro_kit.session.explained import Explained, context_of
from repro_kit.trace import summarise
from repro_kit.trace.insights import Insights
from root import ROOT

FIXTURES = ROOT / "tests/trace/fixtures" / "insights"
LOGS = sorted(path.name for path in FIXTURES.iterdir() if path.suffix in (".log", ".txt"))


@cache
def explained(name: str) -> Explained:
    return explain(TraceSource(FIXTURES / name, name), Path("/home/me"))


def drawn(name: str, width: int) -> str:
    console = Console(file=StringIO(), width=width, color_system=None, highlight=False, markup=False, emoji=False)
    report = explained(name).report(Path("/home/me"))
    console.print(draw_sentences(report.sentences, lambda symbol: symbol))
    for section in report.sections:
        console.print(draw_section(section))
    text = console.file
    assert isinstance(text, StringIO)
    return text.getvalue()


def said(name: str) -> str:
    return "\n".join(f"{sentence.mark} {sentence.text}" for sentence in explained(name).sentences)


@pytest.mark.parametrize("name", LOGS)
def test_nothing_is_wider_than_the_terminal(name: str) -> None:
    for width in (80, 50):
        text = drawn(name, width)
        assert len(text.splitlines()) > 5
        assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("name", LOGS)
def test_at_most_five_sentences(name: str) -> None:
    sentences = explained(name).sentences
    assert 1 <= len(sentences) <= 5
    assert all(sentence.text.endswith(".") and sentence.section in (*NAMES, "") for sentence in sentences)


@pytest.mark.parametrize("name", LOGS)
def test_json_holds_all_of_it(name: str) -> None:
    assert from_data(explained(name).as_json(), Explained) == explained(name)


def test_sections_that_the_command_names_are_there() -> None:
    report = explained("four_sizes_static.log").report(Path("/"))
    assert tuple(section.name for section in report.sections) == NAMES


def test_recompiles_by_size() -> None:
    text = said("four_sizes_static.log")
    assert "✓ 4 graphs were compiled of 1 function" in text
    assert "was compiled 4 times, as L['x'].size()[0] changed (3, 4, 5, 6)." in text
    assert "● What to do first: leave out dynamic=False" in text


def test_a_specialization_names_the_line() -> None:
    assert "L['m'].size()[0] (s54) = 33 became a constant at insight_cases.py:46: `if m.shape[0] == 33:`" in said(
        "specialized_by_equality.log"
    )


def test_the_limit_counts_compiles_that_were_made() -> None:
    assert "was compiled 2 times" in said("hit_limit.log") and "hit the limit of 2" in said("hit_limit.log")


def test_a_text_claims_nothing_that_it_does_not_hold() -> None:
    text = said("breaks_on_item.txt")
    assert text.startswith("· A text of TORCH_LOGS")
    assert "No graph" not in text and "more graph" not in text


def test_a_trace_without_dynamo_says_so() -> None:
    (sentence,) = sentences(Context(Insights(events={"inductor_output_code": 1})), ())
    assert sentence.text.startswith("Dynamo compiled nothing, so there are no graph breaks")


def test_a_failure_comes_before_what_went_well() -> None:
    assert "✗ 1 compile failed at insight_cases.py:158: TorchRuntimeError" in said("wrong_arguments.log")


def test_the_page_is_one_file_and_escapes_what_it_shows() -> None:
    text = page(explained("four_sizes_static.log").report(Path("/")))
    assert "&lt;lambda&gt;" in text and "<lambda>" not in text
    assert "src=" not in text and "<link" not in text and "http://" not in text


def test_the_try_at_the_limit_is_no_recompile() -> None:
    found = explained("hit_limit.log")
    section = found.report(Path()).section("recompiles")
    assert section and section.summary.startswith("1 recompile of 1 function")
    counts = summarise(FIXTURES / "hit_limit.log").counts
    assert sum(recompile.count for recompile in found.insights.recompiles) == counts.recompiles.value


def test_breaks_of_one_line_are_at_one_place() -> None:
    section = explained("breaks_in_a_loop.log").report(Path()).section("breaks")
    assert section and section.summary.startswith("2 graph breaks at 1 place,")


def test_defaults_of_another_release_say_so() -> None:
    log = explained("hit_limit.log")
    overview = replace(log.insights.overview, versions={"torch": "2.6.0+cpu"})
    other = replace(log, insights=replace(log.insights, overview=overview))
    told = [str(it.report(Path()).section("overview")) for it in (log, other)]
    assert "those of 2.6.0 may differ" not in told[0] and "those of 2.6.0 may differ" in told[1]


def test_of_a_trace_from_elsewhere_only_python_files_here_are_read(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for file in (here / "model.py", here / "credentials", tmp_path / "elsewhere.py"):
        file.write_text("first = 1\n")
    (here / "link.py").symlink_to(tmp_path / "elsewhere.py")
    files = ("here/model.py", "here/credentials", "elsewhere.py", "here/link.py")

    def read(*, own: bool) -> list[str]:
        context = context_of(Insights(), here, own=own)
        return [context.line(Frame(str(tmp_path / file), 1, "f")) for file in files]

    assert read(own=False) == ["first = 1", "", "", ""]
    assert read(own=True)[:3] == ["first = 1"] * 3
