"""What `explain` prints and writes: sentences and sections, differences, artifacts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from repro_kit.commands.explain import explain_trace
from repro_kit.commands.explain.explain_trace import TraceSource, insights_of
from repro_kit.errors import UsageError
from repro_kit.explain.compared import report as compared_report
from repro_kit.explain.report import Block, Code, ExplainReport, Item, Section, Sentence, Table, Words, page
from repro_kit.runner.tlparse import tlparse, write_html
from repro_kit.serialize import to_data
from repro_kit.session.explained import Explained, context_of
from repro_kit.trace.trace_diff import difference
from repro_kit.ui import Ui
from repro_kit.visible import visible

_COLOURS = {"✓": "green", "!": "bold yellow", "✗": "bold red", "●": "cyan", "·": "dim"}
_DIFF = {"+": "green", "-": "red", "@": "cyan"}


def draw_sentences(sentences: tuple[Sentence, ...], symbol: Callable[[str], str]) -> RenderableType:
    """The sentences, each behind its mark."""
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for sentence in sentences:
        grid.add_row(Text(symbol(sentence.mark), _COLOURS[sentence.mark]), _text(sentence.text))
    return grid


def draw_section(section: Section) -> RenderableType:
    """A section with all its items."""
    head = Text.assemble((visible(section.title), "bold"), visible(f": {section.summary}" if section.summary else ""))
    return Group(head, *(Padding(draw_item(item), (1, 0, 0, 2)) for item in section.items))


def draw_item(item: Item) -> RenderableType:
    """One finding: title, places, then its blocks indented."""
    parts: list[RenderableType] = [_text(item.title, "bold")]
    parts += [_text(source_line, "cyan") for source_line in item.places]
    parts += [Padding(drawn, (0, 0, 0, 2)) for block in item.blocks for drawn in _block(block)]
    return Group(*parts)


def _text(text: str, style: str = "") -> Text:
    return Text(visible(text), style, overflow="fold")


def _block(block: Block) -> Iterator[RenderableType]:
    match block:
        case Words(text):
            yield _text(text)
        case Code(text, kind):
            yield Group(*(_text(line, _colour(line, kind)) for line in text.splitlines()))
        case Table():
            yield _table(block)


def _colour(line: str, kind: str) -> str:
    return _DIFF.get(line[:1], "") if kind == "diff" else "green" if kind == "shell" else "dim"


def _table(table: Table) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in table.columns:
        drawn.add_column(_text(column), overflow="fold")
    for row in table.rows:
        drawn.add_row(*(_text(cell) for cell in row))
    return drawn


def show_explained(
    ui: Ui, explained: Explained, source: TraceSource, cwd: Path, names: Sequence[str], html: Path | None
) -> None:
    """Print the explanation of one trace."""
    _show(ui, explained.report(cwd, own=source.is_own), names, html)
    ui.result(explained.as_json())


def show_difference(
    ui: Ui, source: TraceSource, other: TraceSource, cwd: Path, names: Sequence[str], html: Path | None
) -> None:
    """Print how `source` differs from the earlier `other`. Raises ReproKitError if they are of different kinds."""
    before, after = insights_of(other), insights_of(source)
    if before.text != after.text:
        text, trace = (other, source) if before.text else (source, other)
        raise UsageError(
            f"{text.name} is text of TORCH_LOGS, which holds less than the trace {trace.name}; compare two logs "
            "or two traces."
        )
    differences = difference(before, after)
    context = context_of(after, cwd, own=source.is_own)
    _show(ui, compared_report(differences, context, (other.name, source.name)), names, html)
    ui.result(to_data(differences))


def show_kinds(ui: Ui, source: TraceSource) -> None:
    """List the artifacts of a trace by kind."""
    kinds = explain_trace.kinds_in(source.trace)
    if not kinds:
        raise UsageError(f"{source.trace} holds no artifacts.")
    rows = [[kind.kind, str(kind.count), f"{kind.size / 1024:.0f} KiB", ", ".join(kind.compiles)] for kind in kinds]
    ui.table("", ["kind", "number", "size", "compiles"], rows)
    ui.result({"artifacts": to_data(kinds)})


def write_artifacts(ui: Ui, source: TraceSource, kinds: Sequence[str], ids: Sequence[str], directory: Path) -> None:
    """Write artifacts below `directory`, and print the path of each."""
    written = explain_trace.write_artifacts(source.trace, kinds, ids, directory)
    for artifact in written:
        ui.print(artifact.path + (f"  ({artifact.note})" if artifact.note else ""))
    ui.result({"written": to_data(written)})


def write_perfetto(ui: Ui, source: TraceSource, file: Path) -> None:
    """Write the phases of all compiles for Perfetto."""
    explain_trace.write_perfetto(source.trace, file)
    ui.note(f"Open {file} at https://ui.perfetto.dev.")


def write_tlparse(ui: Ui, source: TraceSource, directory: Path) -> None:
    """Write tlparse's pages. Raises ReproKitError if tlparse is not installed."""
    program = tlparse()
    if program is None:
        raise UsageError("tlparse is not installed: pip install 'repro-kit[tlparse]'.")
    logs = sorted(source.trace.glob("*.log")) if source.trace.is_dir() else [source.trace]
    write_html(program, logs, directory)
    ui.note(f"Pages of tlparse: {directory / 'index.html' if len(logs) == 1 else directory}")


def _show(ui: Ui, report: ExplainReport, names: Sequence[str], html: Path | None) -> None:
    """Print the sentences, then the sections called `names` (``all``: those with content), else how to see them."""
    names_here = [section.name for section in report.sections]
    unknown = [name for name in names if name not in (*names_here, "all")]
    if unknown:
        raise UsageError(f"There is no section {', '.join(unknown)}; the sections are {', '.join(names_here)}.")
    if html is not None:
        _write(html, page(report))
    ui.show(draw_sentences(report.sentences, ui.symbol))
    wanted = [section for section in report.sections if section.name in names or ("all" in names and not section.empty)]
    for section in wanted:
        ui.print("")
        ui.show(draw_section(section))
    there = [section.name for section in report.sections if not section.empty and section not in wanted]
    if html is not None:
        ui.note(f"The page: {html}")
    elif not wanted and there:
        ui.note(f"Details: --section {'|'.join(there)}, or all; --html FILE for a page.")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror}.") from error
