"""Names, text and files that nobody should give: one sentence, exit code 2, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from repro_kit.bundle.repro.source_files import source_text
from repro_kit.case.case import Case
from repro_kit.case.stage_results import Capture
from repro_kit.errors import ReproKitError
from repro_kit.files import read_text
from repro_kit.graph import parse
from repro_kit.runner.read_findings import read_findings
from repro_kit.serialize import DamagedError, dumps, from_data
from samples import nasty

LONG = "a" * 300


@pytest.mark.parametrize(
    "words",
    [
        ("collect", f"{LONG}.py"),
        ("collect", "--output", LONG, "train.py"),
        ("collect", "--python", LONG, "train.py"),
        ("show", LONG),
        ("diff", LONG, LONG),
        ("verify", LONG),
        ("explain", LONG),
        ("bisect", LONG),
        ("minify", LONG),
        ("nightly", LONG),
        ("show", "a/" * 3000),
        ("collect", "--", LONG),
        ("collect", "-m", LONG),
        ("ablate", "--against", LONG, "train.py"),
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_a_name_that_is_too_long(work, repro_kit, words):
    result = repro_kit(*words)
    assert result.exit_code == 2 and nasty.wrong(result.exit_code, result.output) == ""
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["collect", "observe", "show", "verify", "explain", "bisect", "minify", "nightly"])
@pytest.mark.parametrize(("word", "why"), [("a\udcff.py", "is not valid UTF-8"), ("a\0.py", "has a NUL character")])
def test_text_that_no_case_can_hold(work, repro_kit, name, word, why):
    result = repro_kit(name, word)
    assert result.exit_code == 2 and f"The argument {word!r} {why}; rename it." in result.stderr


def test_bytes_of_a_shell_that_are_no_text(work):
    argv = [os.fsencode(sys.executable), b"-m", b"repro_kit", b"collect", b"--json", b"x\xff.py"]
    done = subprocess.run(argv, cwd=work, capture_output=True, text=True)
    assert done.returncode == 2 and "is not valid UTF-8" in done.stderr and '"exit": 2' in done.stdout


def test_a_directory_whose_name_is_no_text(work):
    place = work / "d\udcff"
    place.mkdir()
    done = subprocess.run([sys.executable, "-m", "repro_kit", "env"], cwd=place, capture_output=True, text=True)
    assert done.returncode == 2 and "The current directory" in done.stderr and "is not valid UTF-8" in done.stderr


def test_a_directory_that_is_gone(work):
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, '-m', 'repro_kit', 'env'])"
    (work / "gone").mkdir()
    done = subprocess.run([sys.executable, "-c", code], cwd=work / "gone", capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: The current directory cannot be used: ")


@pytest.mark.parametrize("option", [("--check", "="), ("--check", "9" * 400), ("--narrow", "x")])
def test_a_value_that_is_refused_while_it_is_read(work, repro_kit, option):
    result = repro_kit("ablate", "--json", *option, "train.py")
    assert result.exit_code == 2 and result.stderr.startswith("error: ") and '"error": ' in result.stdout


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("not_utf8.py", "has a syntax error, says"),
        ("odd_coding.py", "unknown encoding: klingon"),
        ("utf16.py", "is not a Python file"),
        ("nul.py", "is not a Python file"),
        ("syntax.py", "has a syntax error, says"),
        ("deep.py", "has a syntax error, says"),
        ("notebook.ipynb", "is a notebook"),
        ("folder", "is a directory"),
    ],
)
def test_a_script_that_is_none(work, repro_kit, name, part):
    nasty.operands(work)
    result = repro_kit("collect", name)
    assert result.exit_code == 2 and part in result.stderr and "Traceback" not in result.output


@pytest.mark.parametrize("name", ["latin.py", "bom.py", "empty.py"])
def test_a_script_of_another_encoding_is_run(work, repro_kit, fakes, name):
    nasty.operands(work)
    assert repro_kit("collect", name).exit_code == 0


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (b"# -*- coding: latin-1 -*-\r\nx = '\xe9'\r\n", "# -*- coding: utf-8 -*-\nx = 'é'\n"),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n", None),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n"),
        (b"x = '\xe9'\n", "x = '\ufffd'\n"),
        (b"# coding: klingon\nx = 1\n", "# coding: klingon\nx = 1\n"),
    ],
)
def test_a_source_file_is_text_whatever_its_encoding(tmp_path, written, text):
    (tmp_path / "a.py").write_bytes(written)
    expected = text or "#!/usr/bin/python\n# vim: set fileencoding=utf-8 :\nx = '€'\n"
    assert source_text(tmp_path / "a.py") == expected


@pytest.mark.parametrize(
    "data", [None, 1, "x", [], {}, {"subject": 3}, {"subject": "program", "verdict": [[]]}, {"subject": {}}, [None]]
)
def test_data_that_does_not_fit_is_one_error(data):
    with pytest.raises(DamagedError):
        from_data(data, Capture)


def test_text_that_is_not_unicode_is_written_all_the_same():
    data = {"a": ["\udcff", {"\ud800": 1}]}
    assert from_data(json.loads(dumps(data).decode("utf-8")), dict[str, object]) == data


def test_a_program_that_is_nested_too_deeply():
    with pytest.raises(ReproKitError, match=r"nested too deeply|not valid Python"):
        parse("# repro-kit program 1\nx = " + "-" * 100_000 + "1\n")


def test_a_file_of_a_case_that_is_no_text(tmp_path):
    (tmp_path / "a.py").write_bytes(b"\xff")
    with pytest.raises(ReproKitError, match="it is not UTF-8 text"):
        read_text(tmp_path / "a.py")
    with pytest.raises(ReproKitError, match="is missing"):
        read_text(tmp_path / "b.py")


@pytest.mark.parametrize("text", [b"x = " + b"[" * 20_000, b"\xff", b"schema = 1", b"schema = 99", b"subject = 3"])
def test_a_damaged_case_file(tmp_path, text):
    (tmp_path / "case.toml").write_bytes(text)
    with pytest.raises(ReproKitError):
        Case.open(tmp_path)


@pytest.mark.parametrize("name", ["hello-1.json", "goodbye-1.json", "measured-1.json", "exception-1.json"])
@pytest.mark.parametrize(
    "text", ["[]", "3", '{"config": 3, "exceptions": {}}', '{"exceptions": 3, "config": 4, "compiled": 5}', "{"]
)
def test_damaged_findings_are_problems(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert len(read_findings(tmp_path).problems) == 1


@pytest.mark.parametrize(
    ("name", "option"),
    [("collect", "--timeout"), ("explain", "--timeout"), ("verify", "--memory"), ("bisect", "--timeout")],
)
@pytest.mark.parametrize("number", ["0", "-1", "nan", "inf", "1e308", "9" * 400])
def test_a_number_that_nobody_can_count_to(work, repro_kit, name, option, number):
    result = repro_kit(name, f"{option}={number}", "train.py")
    assert result.exit_code == 2 and f"'{option}'" in result.stderr
