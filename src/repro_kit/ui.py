"""The user interface: the live line, notes, tables, questions, and the JSON result."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from typing import TextIO

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from repro_kit.errors import ReproKitError
from repro_kit.visible import one_line, visible, visible_json

_PLAIN_WIDTH = 160  # columns of a table when the output is no terminal
_MOST_ROWS = 1000  # of a table or a panel
_FIRST, _LONGEST = 15.0, 240.0  # seconds between progress lines when the output is no terminal: twice as long each time
_ASCII_LETTERS = str.maketrans({"→": "->", "×": "x", "…": "...", "µ": "u"})
#: Colours of table cells that begin with a symbol and a space, which says the same.
_STYLES = {"✓ ": "green", "✗ ": "red", "! ": "yellow", "≈ ": "dim", "· ": "dim"}
_ASCII = {"✓": "ok", "✗": "FAILED", "!": "!", "·": "-", "●": "*"}


@dataclass
class StageLine:
    """The line of a running stage.

    `text` is the current progress, then the result; `ok` says whether the stage succeeded. `printed` is what the user's
    script printed last.
    """

    name: str
    started: float
    text: str = ""
    printed: str = ""
    ok: bool = True
    ended: bool = False  # a result was given

    @property
    def seconds(self) -> float:
        """Time since the stage began."""
        return time.monotonic() - self.started


class _Console(Console):
    """A console that passes on no control characters except those of its own styles."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Spell out control characters in text; rich's own control codes (of the live line) stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def _text(text: str, style: str = "") -> Text:
    """`text` with control characters spelt out before the layout, so that columns fit."""
    return Text(visible(text), style)


@dataclass
class _LiveLine:
    """The line that rich redraws; it is never wider than the terminal."""

    current: Callable[[], StageLine | None]
    symbol: Callable[[str], str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = self.current()
        if line is None:
            return
        said = " | ".join(filter(None, [one_line(line.text), one_line(line.printed)]))
        text = Text.assemble((self.symbol("●"), "cyan"), f" {line.name:<8} {line.seconds:6.1f} s  ", (said, "dim"))
        text.truncate(max(options.max_width, 1), overflow="ellipsis")
        yield text


@dataclass
class Ui:
    """The only output for messages. With `json`, everything for people goes to stderr.

    `quiet` prints only warnings, errors and what `print` gets; `verbose` > 0 adds details. If the output is not a
    terminal, a plain line now and then replaces the live line.
    """

    json: bool = False
    quiet: bool = False
    verbose: int = 0
    yes: bool = False
    most: int = 0  # notes that are printed without `verbose`; 0: all
    out: TextIO | None = None  # None: sys.stdout
    err: TextIO | None = None  # None: sys.stderr
    notes: list[str] = field(default_factory=list)  # every note and warning, in order

    def __post_init__(self) -> None:
        self._out = self.out or sys.stdout
        self._err = self.err or sys.stderr
        self._console = self._make_console(self._err if self.json else self._out)
        self._errors = self._console if self.json else self._make_console(self._err)
        self._lines: list[StageLine] = []
        self._live: Live | None = None
        self._lock = threading.RLock()
        self._spoke = 0.0  # when the last line was printed; 0: never
        self._pause = _FIRST
        self._noted = 0

    # -- stages ----------------------------------------------------------------------------------------------------

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLine]:
        """Show that stage `name` is running; print one line with its result and time at the end. May be nested."""
        line = StageLine(name, time.monotonic())
        self._lines.append(line)
        try:
            with self._showing():
                yield line
        except BaseException as error:
            if not line.ended:
                line.text, line.ok = _describe(error), False
            raise
        finally:
            self._lines.remove(line)
            if not line.ended and line.ok:
                line.text = ""  # the text was only progress
            self._end(line)

    def progress(self, text: str) -> None:
        """Replace the text of the live line. Without a terminal: print it at once at first, then now and then."""
        line = self._lines[-1] if self._lines else None
        if line is not None and not line.ended and line.text != text:
            line.text, line.printed = text, ""
        if self.quiet or self._console.is_terminal or (self._spoke and time.monotonic() - self._spoke < self._pause):
            return
        self._pause = min(2 * self._pause, _LONGEST) if self._spoke else self._pause
        dots = "…" if self.symbol("✓") == "✓" else "..."
        self._print(_text(f"{dots} {line.name:<8} {text}  {line.seconds:.0f} s" if line else f"{dots} {text}"))

    def printed(self, text: str) -> None:
        """Show on the live line what the user's script printed last."""
        if self._lines and not self._lines[-1].ended:
            self._lines[-1].printed = text
            self.progress(self._lines[-1].text)

    def done(self, text: str) -> None:
        """Set the running stage's result, in one sentence."""
        self._finish(text, ok=True)

    def failed(self, text: str) -> None:
        """Set why the running stage failed, in one sentence."""
        self._finish(text, ok=False)

    def past(self, name: str, text: str) -> None:
        """Print the earlier result of a stage that does not run again."""
        if not self.quiet:
            told = self._on_one_line(Text(f" {name:<8} {one_line(text)}", "dim"))
            self._print(Text.assemble((self.symbol("·"), "dim"), told))

    # -- messages --------------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Print a remark; of more than `most` remarks, say how many there are."""
        self.notes.append(text)
        self._noted += 1
        if self.quiet or (0 < self.most < self._noted and not self.verbose):
            return
        self._print(_text(f"  {text}"))

    @property
    def unseen(self) -> int:
        """How many remarks were not printed since they were too many."""
        return max(0, self._noted - self.most) if self.most and not (self.verbose or self.quiet) else 0

    def detail(self, text: str) -> None:
        """Print a remark if the user asked for more (`-v`)."""
        if self.verbose:
            self._print(_text(f"  {text}", "dim"))

    def warn(self, text: str) -> None:
        """Print a warning, even when quiet."""
        self.notes.append(text)
        self._print(Text.assemble((f"{self.symbol('!')} ", "bold yellow"), visible(text)), self._errors)

    def error(self, text: str) -> None:
        """Print to stderr the one sentence that ends the command."""
        self._print(Text.assemble(("error: ", "bold red"), visible(text)), self._errors)

    def print(self, text: str) -> None:
        """Print a command's own output unchanged, even when quiet."""
        self._print(_text(text))

    def show(self, drawn: RenderableType) -> None:
        """Print a rich renderable as wide as the output, even when quiet."""
        console = self._console
        with self._lock:
            if console.is_terminal:
                console.print(drawn)
                return
            with console.capture() as captured:
                console.print(drawn)
            text = "\n".join(line.rstrip() for line in captured.get().splitlines())
            if not (console.encoding or "ascii").lower().startswith("utf"):
                text = text.translate(_ASCII_LETTERS)
            console.print(Text(text), soft_wrap=True)

    def panel(self, title: str, lines: Sequence[tuple[str, str]]) -> None:
        """Print labelled lines, with a frame on a terminal, even when quiet."""
        if len(lines) > _MOST_ROWS:
            lines = [*lines[:_MOST_ROWS], ("", f"{len(lines) - _MOST_ROWS} more lines are not shown.")]
        width = max((len(label) for label, _ in lines), default=0)
        if not self._console.is_terminal:
            self._print(_text("\n".join([title, *(f"  {label:<{width}}  {text}".rstrip() for label, text in lines)])))
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
        for label, text in lines:
            grid.add_row(_text(label), _text(text))
        self._console.print(Panel(grid, title=_text(title), title_align="left", expand=False))

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table. Long cells fold; a cell that begins with a symbol gets its colour."""
        if self.quiet:
            return
        borders = box.ROUNDED if self._console.is_terminal else box.MARKDOWN
        if title:  # not that of the rich table, which would wrap at the width of a narrow one
            self._print(_text(title, "table.title"))
        table = Table(box=borders)
        for column in columns:
            table.add_column(_text(column), overflow="fold")
        for row in rows[:_MOST_ROWS]:
            table.add_row(*(_text(cell, _STYLES.get(cell[:2], "")) for cell in row))
        self._console.print(table)
        if len(rows) > _MOST_ROWS:
            self._print(_text(f"  {len(rows) - _MOST_ROWS} more rows are not shown."))

    @property
    def can_ask(self) -> bool:
        """Whether somebody sees a question, and can answer it."""
        return sys.stdin is not None and sys.stdin.isatty() and self._console.is_terminal

    def confirm(self, question: str, *, insist: bool = False) -> bool:
        """Ask yes or no. Returns True under `--yes`, unless `insist`, and False without a terminal."""
        if self.yes and not insist:
            return True
        if not self.can_ask:
            return False
        with self._paused():
            self._console.print(Text(f"{one_line(question)} [y/N] "), end="")
            answer = sys.stdin.readline().strip().lower()
        return answer in ("y", "yes")

    def result(self, data: object) -> None:
        """Print the result as one JSON object on stdout under `--json`, and nothing otherwise."""
        if self.json:
            from repro_kit.serialize import dumps  # slow to import

            self._out.write(visible_json(dumps(data).decode()))
            self._out.flush()

    def data(self, text: str) -> None:
        """Print JSON, whole or a piece of it, on stdout, with and without `--json`."""
        self._out.write(f"{visible_json(text)}\n")
        self._out.flush()

    def symbol(self, symbol: str) -> str:
        """`symbol`, or ASCII for it if the output cannot show it."""
        encoding = (self._console.encoding or "ascii").lower()
        return symbol if encoding.startswith("utf") else _ASCII[symbol]

    # -- inside ----------------------------------------------------------------------------------------------------

    def _make_console(self, stream: TextIO) -> _Console:
        width = None if stream.isatty() or os.environ.get("COLUMNS") else _PLAIN_WIDTH
        return _Console(file=stream, width=width, highlight=False, markup=False, emoji=False)

    def _print(self, text: Text, console: Console | None = None) -> None:
        console = console or self._console
        if self._live is not None and console.is_terminal:
            console = self._console  # this console prints above the live line
        with self._lock:
            self._spoke = time.monotonic()
            console.print(text, soft_wrap=not console.is_terminal)

    @contextmanager
    def _showing(self) -> Iterator[None]:
        if self._live is not None or self.quiet or not self._console.is_terminal:
            yield
            return
        renderable = _LiveLine(lambda: self._lines[-1] if self._lines else None, self.symbol)
        with Live(renderable, console=self._console, refresh_per_second=8, transient=True) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    @contextmanager
    def _paused(self) -> Iterator[None]:
        live = self._live
        if live is not None:
            live.stop()
        try:
            yield
        finally:
            if live is not None:
                live.start()

    def _finish(self, text: str, *, ok: bool) -> None:
        if self._lines:
            line = self._lines[-1]
            line.text, line.ok, line.ended = text, ok, True
        elif ok:
            self.note(text)
        else:
            self.warn(text)

    def _end(self, line: StageLine) -> None:
        if self.quiet and line.ok:
            return
        mark = Text(self.symbol("✓"), "green") if line.ok else Text(self.symbol("✗"), "bold red")
        time_taken = f"  {line.seconds:.1f} s"
        text = Text(f" {line.name:<8} {one_line(line.text)}")
        told = self._on_one_line(text, len(time_taken)) if line.ok else text
        self._print(Text.assemble(mark, told, (time_taken, "dim")))

    def _on_one_line(self, text: Text, taken: int = 0) -> Text:
        """The result of a stage behind a symbol, cut to the terminal where a summary will have all of it."""
        if self.most and not self.verbose and self._console.is_terminal:
            text.truncate(max(self._console.width - 1 - taken, 1), overflow="ellipsis")
        return text


class SilentUi(Ui):
    """Prints nothing and asks nothing, for tests and library use. `notes` and stage lines are still recorded."""

    def __init__(self, *, yes: bool = False) -> None:
        super().__init__(quiet=True, yes=yes, out=StringIO(), err=StringIO())


def _describe(error: BaseException) -> str:
    """The error on the line of its stage; nothing where the command says it, as the sentence that ends it."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, ReproKitError):
        return ""
    return one_line(str(error)) or type(error).__name__
