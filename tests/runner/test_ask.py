"""Questions to an interpreter: what is asked, what counts as the answer, and what is said where there is none."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from repro_kit.runner.ask import NoAnswer, Probe, Question


@dataclass(frozen=True)
class Sum:
    total: int
    note: str | None = None


ADD = Question(seconds=60, code="import json, sys\nprint(json.dumps({'total': sum(json.load(sys.stdin))}))")


def test_the_answer_is_the_last_line_of_json() -> None:
    assert Probe(sys.executable).ask(ADD, Sum, [1, 2]) == Sum(3)
    noisy = Question(seconds=60, code=f"print('{{')\n{ADD.code}\nprint('bye')\nprint('{{}}')")
    assert Probe(sys.executable).ask(noisy, Sum, [4]) == Sum(4)


def test_a_module_of_the_probe_answers_with_the_probe_on_its_path(tmp_path: Path) -> None:
    question = Question(seconds=60, module="repro_probe.common", failing="has no such program")
    with pytest.raises(NoAnswer, match=r"has no such program \(.*repro_probe\.common.*cannot be directly executed\)"):
        Probe(sys.executable, tmp_path).ask(question, Sum)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit('conda: no such environment')", "conda: no such environment"),
        ("print('hello')", "hello"),
        ("", "no output"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("print('{\"total\": []}')", '{"total": []}'),
    ],
)
def test_an_interpreter_that_gives_no_answer_is_named_with_its_reason(code: str, said: str) -> None:
    with pytest.raises(NoAnswer) as caught:
        Probe(sys.executable).ask(Question(seconds=60, code=code), Sum)
    assert caught.value.said == said
    assert str(caught.value) == (
        f"{sys.executable} does not work as a Python interpreter ({said}); give --python PATH."
    )


def test_an_interpreter_that_is_missing_or_late_is_named() -> None:
    with pytest.raises(NoAnswer, match=r"^/nope/python cannot be started: No such file or directory; give --python"):
        Probe("/nope/python").ask(ADD, Sum)
    late = Question(seconds=0.1, code="import time\ntime.sleep(60)")
    with pytest.raises(NoAnswer, match="does not answer within 0 s; give --python"):
        Probe(sys.executable).ask(late, Sum)
