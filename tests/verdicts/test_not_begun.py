"""Mistakes that end a script before anything is compiled: told in one sentence, and no failure of anybody's."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shlex
from pathlib import Path

import click
import pytest

from repro_kit.case.case import Subject
from repro_kit.cli.stages import collect
from repro_kit.errors import Exit, UsageError
from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind
from repro_kit.verdicts.not_the_compiler import refuse_what_did_not_begin

LIBRARY = "/usr/lib/python3.12"
TORCH = "/venv/lib/python3.12/site-packages/torch"


def subject_in(directory: Path, *words: str) -> Subject:
    return Subject("script", ("train.py", *words), str(directory), "/venv/bin/python")


def told(failure: Failure, subject: Subject) -> str:
    """The sentence that refuses the script; empty where it is not refused."""
    try:
        refuse_what_did_not_begin(failure, subject)
    except UsageError as error:
        assert error.exit_code is Exit.USAGE
        return str(error)
    return ""


def raised(kind: str, message: str, *frames: tuple[str, str, str]) -> Failure:
    """A failure by an exception; `frames` are the file, the function and the line of code of each."""
    traceback = tuple(Frame(file, at + 1, function, code) for at, (file, function, code) in enumerate(frames))
    return Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink(kind, message, traceback),))


def usage_of_argparse() -> str:
    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--data", required=True)
    with contextlib.redirect_stderr(io.StringIO()) as text, pytest.raises(SystemExit) as ended:
        parser.parse_args([])
    assert ended.value.code == 2
    return text.getvalue()


def usage_of_click() -> str:
    error = click.UsageError("Missing option '--data'.", click.Context(click.Command("train.py")))
    text = io.StringIO()
    error.show(text)
    return text.getvalue()


@pytest.mark.parametrize("text", [usage_of_argparse(), usage_of_click()], ids=["argparse", "click"])
def test_a_script_that_refuses_its_arguments_is_told_in_its_own_words(text: str, tmp_path: Path) -> None:
    failure = Failure(Kind.RUNTIME_ERROR, exit_status=2, text=f"a warning\n{text}")
    sentence = told(failure, subject_in(tmp_path, "--epochs", "1"))
    assert "refuses its arguments" in sentence and "--data" in sentence
    line = sentence.rpartition("repro-kit collect ")[2]
    assert collect.split(shlex.split(line)) == (["--fresh"], "script", ["train.py", "--epochs", "1", "ARGUMENTS"])


def test_a_test_that_is_not_there_is_no_failure_of_a_program(tmp_path: Path) -> None:
    text = "warnings\nERROR: not found: /x/test_t.py::nothing\n(no match in any of [<Module test_t.py>])\n"
    runs = Subject("module", ("pytest", "test_t.py::nothing"), str(tmp_path), "/venv/bin/python")
    sentence = "pytest runs no test: not found: /x/test_t.py::nothing."
    assert told(Failure(Kind.RUNTIME_ERROR, exit_status=4, text=text), runs) == sentence
    assert told(Failure(Kind.RUNTIME_ERROR, exit_status=5), runs) == "pytest runs no test: it ends with exit status 5."
    assert told(Failure(Kind.RUNTIME_ERROR, exit_status=1, text=text), runs) == ""
    assert told(Failure(Kind.RUNTIME_ERROR, exit_status=4, text=text), subject_in(tmp_path)) == ""


@pytest.mark.parametrize(("status", "text"), [(1, usage_of_argparse()), (2, "fatal error: out of patience")])
def test_another_status_or_another_text_is_no_usage_error(status: int, text: str, tmp_path: Path) -> None:
    assert told(Failure(Kind.RUNTIME_ERROR, exit_status=status, text=text), subject_in(tmp_path)) == ""


def test_a_script_that_asks_for_input_is_told_with_its_line(tmp_path: Path) -> None:
    failure = raised(
        "EOFError", "EOF when reading a line", (str(tmp_path / "train.py"), "<module>", "input('go on? ')")
    )
    sentence = told(failure, subject_in(tmp_path))
    assert "asks for input (train.py:1)" in sentence
    line = shlex.split(sentence.rpartition("repro-kit collect ")[2])
    assert collect.split(line)[1:] == ("command", ["sh", "-c", "echo ANSWER | python train.py"])


def test_a_syntax_error_in_an_imported_file_is_one(tmp_path: Path) -> None:
    failure = raised("SyntaxError", "invalid syntax (model.py, line 3)", ("train.py", "<module>", "import model"))
    assert "has a syntax error: invalid syntax (model.py, line 3)" in told(failure, subject_in(tmp_path))
    printed = raised(
        "SyntaxError", "invalid syntax", ("train.py", "<module>", "import model"), ("model.py", "", "def f(:")
    )
    assert "model.py:2 has a syntax error: invalid syntax." in told(printed, subject_in(tmp_path))


def test_a_module_that_is_not_installed_is_named_with_the_interpreter(tmp_path: Path) -> None:
    failure = raised("ModuleNotFoundError", "No module named 'tqdm'", ("train.py", "<module>", "import tqdm.auto"))
    sentence = told(failure, subject_in(tmp_path))
    assert "imports tqdm" in sentence and "/venv/bin/python" in sentence and "--python" in sentence
    of_torch = (f"{TORCH}/utils.py", "load", "import nope")
    failure = raised("ModuleNotFoundError", "No module named 'nope'", ("train.py", "<module>", "load()"), of_torch)
    assert told(failure, subject_in(tmp_path)) == ""


HIDING = [
    # The library imports the user's file, in which something fails.
    raised(
        "AttributeError",
        "'NoneType' object has no attribute 'seed'",
        ("train.py", "<module>", "import torch"),
        (f"{LIBRARY}/tempfile.py", "<module>", "from random import Random as _Random"),
        ("random.py", "<module>", "state.seed()"),
    ),
    # What the library takes from it is not there.
    raised(
        "ImportError",
        "cannot import name 'Random' from 'random' (/work/random.py)",
        ("train.py", "<module>", "import torch"),
        (f"{LIBRARY}/tempfile.py", "<module>", "from random import Random as _Random"),
    ),
    raised(
        "AttributeError",
        "partially initialized module 'random' from '/work/random.py' has no attribute 'Random' (most likely due to a "
        "circular import)",
        ("train.py", "<module>", "import torch"),
        (f"{TORCH}/random.py", "<module>", "random.Random()"),
    ),
]


@pytest.mark.parametrize("failure", HIDING, ids=["inside", "name", "circular"])
def test_a_file_that_hides_a_module_of_the_standard_library_is_named(failure: Failure, tmp_path: Path) -> None:
    (tmp_path / "random.py").touch()
    assert f"{tmp_path / 'random.py'} hides the module random of the standard library" in told(
        failure, subject_in(tmp_path)
    )


def test_a_file_that_hides_a_package_of_torch_is_named(tmp_path: Path) -> None:
    (tmp_path / "cuda.py").touch()
    failure = raised(
        "ModuleNotFoundError",
        "No module named 'cuda.bindings'; 'cuda' is not a package",
        ("train.py", "<module>", "import torch"),
        (f"{TORCH}/cuda/_utils.py", "<module>", "import cuda.bindings"),
    )
    assert "cuda.py hides the module cuda of an installed package" in told(failure, subject_in(tmp_path))
    (tmp_path / "torch.py").touch()
    used = ("train.py", "<module>", "torch.compile(f)")
    failure = raised("AttributeError", "module 'torch' has no attribute 'compile'", used)
    assert "torch.py hides the module torch" in told(failure, subject_in(tmp_path))


def test_a_module_of_the_users_own_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    own = raised("AttributeError", "module 'model' has no attribute 'Net'", ("train.py", "<module>", "model.Net()"))
    assert told(own, subject_in(tmp_path)) == ""
    loader = (f"{LIBRARY}/importlib/__init__.py", "import_module", "return _bootstrap._gcd_import(name[level:])")
    dynamic = raised(
        "ZeroDivisionError", "division by zero", ("train.py", "<module>", "load()"), loader,
        (os.fspath(tmp_path / "model.py"), "<module>", "1 / 0"),
    )  # fmt: skip
    assert told(dynamic, subject_in(tmp_path)) == ""
