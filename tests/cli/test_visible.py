"""No byte of a stranger's reaches the terminal as it is: every way out spells out what a terminal would obey."""

import ast
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

import repro_kit
from repro_kit.cli.main import cli
from repro_kit.cli.output.explain_view import draw_section
from repro_kit.explain.report import Code, Item, Section, Words
from repro_kit.explain.report import Table as ViewTable
from repro_kit.ui import Ui
from repro_kit.visible import visible, visible_json
from samples.hostile_text import CHARACTERS, SEQUENCES, raw_in

SOURCE = Path(repro_kit.__file__).parent
#: The only modules that write to the terminal.
DOORS = {"ui.py", "cli/common/base_command.py"}


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def printed(act, *, terminal: bool, **how) -> str:
    out = Terminal() if terminal else io.StringIO()
    act(Ui(out=out, err=out, verbose=1, **how))
    return out.getvalue()


def stage(ui: Ui, text: str) -> None:
    with ui.stage(text):
        ui.progress(text)
        ui.done(text)


def failing_stage(ui: Ui, text: str) -> None:
    try:
        with ui.stage("x"):
            raise ValueError(text)
    except ValueError:
        pass


def explained(ui: Ui, text: str) -> None:
    blocks = (Words(text), Code(text, "diff"), ViewTable((text,), ((text,),)))
    ui.show(draw_section(Section("x", text, text, (Item(text, (text,), blocks),))))


DOORS_OF_UI = {
    "note": lambda ui, text: ui.note(text),
    "detail": lambda ui, text: ui.detail(text),
    "warn": lambda ui, text: ui.warn(text),
    "error": lambda ui, text: ui.error(text),
    "print": lambda ui, text: ui.print(text),
    "past": lambda ui, text: ui.past(text, text),
    "panel": lambda ui, text: ui.panel(text, [(text, text)]),
    "table": lambda ui, text: ui.table(text, [text], [[text], ["✓ " + text]]),
    "stage": stage,
    "failing stage": failing_stage,
    "result": lambda ui, text: ui.result({text: [text]}),
    "section": explained,
    "something drawn": lambda ui, text: ui.show(Table(text, title=text)),
}


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("door", DOORS_OF_UI)
def test_every_door_of_the_ui_spells_out_what_a_terminal_obeys(door, terminal):
    for text in (*SEQUENCES, *CHARACTERS):
        for how in ({}, {"json": True}):
            said = printed(lambda ui, text=text: DOORS_OF_UI[door](ui, text), terminal=terminal, **how)
            assert raw_in(said) == set(), (text, said)


def test_markup_is_text():
    for terminal in (True, False):
        said = printed(lambda ui: ui.print("[link=http://evil.example]x[/link] [red]y[/red] :bomb:"), terminal=terminal)
        assert "[link=http://evil.example]x[/link] [red]y[/red] :bomb:" in said


def test_a_mark_keeps_its_colour():
    said = printed(lambda ui: ui.table("", ["a"], [["✓ passes"]]), terminal=True)
    assert "\x1b[32m✓ passes" in said


@given(st.text(max_size=30))
def test_json_means_the_same_and_is_clean(text):
    data = visible_json(json.dumps({text: text}, ensure_ascii=False))
    assert json.loads(data) == {text: text} and raw_in(data) == set()


@given(st.text())
def test_what_is_visible_stays_so(text):
    assert visible(visible(text)) == visible(text) and raw_in(visible(text)) == set()


@pytest.mark.parametrize("words", [["show", "{}"], ["show", "--{}"], ["{}"], ["verify", "{}"], ["diff", "{}", "{}"]])
def test_errors_show_no_control_characters_of_names(words):
    for text in SEQUENCES:
        name = text.replace("\0", "")
        result = CliRunner().invoke(cli, [word.format(name) for word in words], prog_name="repro-kit")
        assert result.exit_code == 2 and raw_in(result.output + result.stderr) == set(), (text, result.output)


def test_nothing_else_prints():
    """Every other module prints through `Ui` or `echo`; a new `print` or `click.echo` would go around them."""
    found = []
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if (
            name in DOORS
            or name.startswith("probe/")
            or name in ("watching.py", "pytest_plugin.py", "runner/supervisor.py")
        ):
            continue  # those run in the user's own process, or talk through a pipe
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{name}:{node.lineno}: {what}" for node in ast.walk(tree) if (what := _prints(node))]
    assert found == []


def _prints(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    called = ast.unparse(node.func)
    stream = called.startswith(("sys.stdout.", "sys.stderr.", "sys.__stdout__", "sys.__stderr__"))
    writes = stream and called.rpartition(".")[2] in ("write", "writelines", "buffer.write")
    names = ("print", "traceback.print_exc", "traceback.print_exception", "warnings.warn", "pprint.pprint", "os.write")
    clicks = ("echo", "secho", "echo_via_pager", "prompt", "confirm", "pause", "progressbar")
    is_click = called.startswith("click.") and called.rpartition(".")[2] in clicks
    is_console = called.rpartition(".")[2] == "Console" or called.startswith("rich.print")
    return called if writes or called in names or is_click or is_console else ""


def test_the_ban_sees_what_it_is_to_see():
    for text in ("print(x)", "click.secho(x)", "sys.stderr.write(x)", "rich.console.Console()", "click.confirm(x)"):
        assert _prints(ast.parse(text).body[0].value)
