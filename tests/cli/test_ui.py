"""The terminal: what goes where, with and without a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys

import pytest

from repro_kit.errors import ReproKitError, StageError
from repro_kit.ui import SilentUi, Ui


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def plain(**kwargs) -> Ui:
    return Ui(out=io.StringIO(), err=io.StringIO(), **kwargs)


def test_stage_ends_in_one_line():
    ui = plain()
    with ui.stage("observe"):
        ui.progress("working [bold]")
        ui.done("found [x]\nand more")
    first, last = ui.out.getvalue().splitlines()
    assert first.endswith("observe  working [bold]  0 s") and last.endswith("observe  found [x] and more  0.0 s")


def test_the_first_progress_is_printed_at_once_and_further_ones_ever_more_rarely(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("repro_kit.ui.time.monotonic", lambda: now[0])
    ui = plain()
    with ui.stage("observe"):
        for _ in range(6000):  # ten minutes
            ui.progress("running python train.py")
            now[0] += 0.1
    lines = ui.out.getvalue().splitlines()
    assert lines[0] == "… observe  running python train.py  0 s"
    assert [line.rsplit("  ", 1)[1] for line in lines[:-1]] == ["0 s", "15 s", "45 s", "105 s", "225 s", "465 s"]


def test_what_the_script_prints_is_on_the_live_line_alone():
    ui = plain()
    with ui.stage("observe") as line:
        ui.progress("running")
        ui.printed("epoch 3")
        ui.progress("running")
        assert (line.text, line.printed) == ("running", "epoch 3")
        ui.progress("running it again")
        assert line.printed == ""
    assert "epoch" not in ui.out.getvalue()


def test_of_many_remarks_the_first_are_printed():
    ui, loud = plain(most=2), plain(most=2, verbose=1)
    for each in (ui, loud):
        for number in range(5):
            each.note(f"remark {number}")
    assert "remark 1" in ui.out.getvalue() and "remark 2" not in ui.out.getvalue()
    assert (ui.unseen, len(ui.notes), loud.unseen) == (3, 5, 0) and "remark 4" in loud.out.getvalue()


@pytest.mark.parametrize(("how", "cut"), [({"most": 5}, True), ({"most": 5, "verbose": 1}, False), ({}, False)])
def test_where_a_summary_follows_a_result_is_one_line(how, cut, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ui = Ui(out=Terminal(), err=Terminal(), **how)
    ui.past("observe", "word " * 60)
    assert (len(ui.out.getvalue().splitlines()) == 1) is cut
    with ui.stage("capture"):
        ui.done("word " * 60)
    said = ui.out.getvalue().rpartition("✓")[2].splitlines()
    assert (sum("word" in line for line in said) == 1) is cut and any("0.0 s" in line for line in said)


def test_failed_stage_and_one_that_raises():
    ui = plain()
    with ui.stage("one"):
        ui.failed("no")
    with pytest.raises(ValueError, match="bad"), ui.stage("two"):
        raise ValueError("bad")
    with pytest.raises(ReproKitError), ui.stage("three"):
        raise StageError("Nothing is there.")
    one, two, three = ui.out.getvalue().splitlines()
    assert one.startswith("✗ one") and "no" in one and two.startswith("✗ two") and "bad" in two
    assert three.split() == ["✗", "three", "0.0", "s"]  # the command says the sentence, once


def test_nested_stage_and_line_of_its_own():
    ui = plain()
    with ui.stage("outer") as outer:
        with ui.stage("inner"):
            ui.done("in")
        ui.done("out")
    assert [line.split()[2] for line in ui.out.getvalue().splitlines()] == ["in", "out"]
    assert (outer.text, outer.ok) == ("out", True)


def test_json_keeps_stdout_for_the_result():
    ui = plain(json=True)
    with ui.stage("observe"):
        ui.note("a note")
        ui.warn("a warning")
        ui.table("t", ["a"], [["b"]])
        ui.done("x")
    ui.result({"a": 1})
    assert json.loads(ui.out.getvalue()) == {"a": 1}
    assert all(part in ui.err.getvalue() for part in ("a note", "a warning", "| b", "observe"))


def test_result_needs_json():
    ui = plain()
    ui.result({"a": 1})
    assert ui.out.getvalue() == ""


def test_the_title_of_a_narrow_table_is_one_line():
    ui = plain()
    ui.table("a title that is wider than its table", ["a"], [["b"]])
    assert ui.out.getvalue().splitlines()[0] == "a title that is wider than its table"


def test_quiet_leaves_warnings_failures_and_print():
    ui = plain(quiet=True)
    with ui.stage("one"):
        ui.note("note")
        ui.warn("warning")
        ui.done("done")
    with ui.stage("two"):
        ui.failed("failed")
    ui.table("t", ["a"], [["b"]])
    ui.print("printed")
    text = ui.out.getvalue()
    assert "warning" in ui.err.getvalue() and "failed" in text and "printed" in text
    assert not any(part in text for part in ("note", "done", "| b"))
    assert ui.notes == ["note", "warning"]


def test_details_need_verbose():
    quiet, loud = plain(), plain(verbose=1)
    quiet.detail("d")
    loud.detail("d")
    assert quiet.out.getvalue() == "" and "d" in loud.out.getvalue()


def test_long_lines_are_not_broken_without_a_terminal():
    ui = plain()
    ui.note("x" * 500)
    assert ui.out.getvalue() == "  " + "x" * 500 + "\n"


def test_no_colour_and_no_markup(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    ui = Ui(out=Terminal(), err=Terminal())
    ui.warn("careful [red]")
    with ui.stage("observe"):
        ui.done("[/nothing]")
    text = ui.out.getvalue() + ui.err.getvalue()
    assert "careful [red]" in text and "[/nothing]" in text and "✓" in text
    assert not any(f"\x1b[{code}m" in text for code in range(30, 38))


def test_symbols_have_ascii_stand_ins():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="replace")
    ui = Ui(out=stream, err=stream)
    with ui.stage("observe"):
        ui.done("fine")
    stream.flush()
    assert raw.getvalue().startswith(b"ok observe")


def test_confirm(monkeypatch):
    assert plain(yes=True).confirm("Go on?") is True
    assert plain().confirm("Go on?") is False  # no terminal to ask on
    for answer, expected in (("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("", False)):
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        ui = Ui(out=Terminal(), err=Terminal())
        with ui.stage("bundle"):
            assert ui.confirm("Go on?") is expected
        assert "Go on?" in ui.out.getvalue()


def test_silent():
    ui = SilentUi()
    with ui.stage("x") as line:
        ui.warn("w")
        ui.done("d")
    assert (line.text, ui.notes) == ("d", ["w"])


def test_live_line_fits_a_narrow_terminal():
    code = (
        "import time; from repro_kit.ui import Ui; ui = Ui()\n"
        "with ui.stage('observe'):\n    ui.progress('x' * 300); time.sleep(0.3); ui.note('above')\n"
        "    ui.progress('run'); ui.printed('epoch 3'); time.sleep(0.3); ui.done('fine')"
    )
    parent, child = pty.openpty()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "40", "TERM": "xterm", "NO_COLOR": ""}
    subprocess.run([sys.executable, "-c", code], stdout=child, stderr=child, env=env, check=True)
    os.close(child)
    text = b""
    try:
        while block := os.read(parent, 65536):
            text += block
    except OSError:  # how a pty says that the other end is closed
        pass
    os.close(parent)
    assert b"run | epoch 3" in text
    assert b"above" in text and "✓".encode() in text and b"fine" in text
    assert b"x" * 10 in text and b"x" * 40 not in text
