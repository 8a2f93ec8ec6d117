"""Whatever a planted value is made of, the files stay well-formed, and no spelling of the value is left in them."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planted_secrets import PROGRAM
from private_values import bundle_of, problems_of, small_case, spelt, with_program, with_trace
from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.privacy.private_values import Private, teach
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.redact_files import redact_file, redact_typed
from repro_kit.bundle.story.story import Story, read_story, write_story
from repro_kit.case.stage_results import Environment
from repro_kit.failure.failure import Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.options.stages import BundleOptions
from repro_kit.recipe import Recipe
from repro_kit.serialize import dumps, from_data, to_data

ODD = [
    "pa\\nss",
    '"},{"a":"',
    "a'b\"c\\",
    "Zk4\nQw8\tRt2",
    "ünï-çødé",
    "\u202ekcatta",
    "😀 secret 😀",
    "</script>x",
    "a&b<c>d",
]
ODD += ["C:\\new\\table", "%41%42xyz", "{{7*7}}", "'; import os", "\\u0041bcd", 'x = """', "@@code 0@@", "$(rm -rf)"]
ENUMS = [*Kind, *Layer, "program", "script", "true", "null", "schema", "manifest"]
values = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=40),
    st.text("abc\\\"'\n{}[]:,<>&%/é 1", min_size=4, max_size=20),
)
TOKEN = "REDACTED_SECRET_1"  # what the redactor writes in the value's place
ENV = Environment("3.11", "python", "Linux", "2.13")


def redactor_of(value: str) -> Redactor:
    redactor = Redactor()
    teach(redactor, [Private(value, "environment variable", "DB_PASSWORD", secret=True)])
    return redactor


def story_of(value: str) -> Story:
    signature = Signature(Kind.DYNAMO_ERROR, (value,), f"x {value} y")
    return Story(signature, value, ENV, "program", recipe=Recipe(config={value: value}))


@settings(deadline=None, max_examples=100)
@given(values)
@example("\\nZk4Qw8Rt2Yp6Lm9Xv3Nb")
@example("dynamo-error")
@example("message")
def test_data_classes_stay_whole(value: str) -> None:
    redactor = redactor_of(value)
    shown = redact_typed(story_of(value), lambda text: redactor.redact(text).text)
    again = read_story({"story.json": write_story(shown).encode(), "env.json": dumps(ENV)}, "it")
    assert again.signature.kind is Kind.DYNAMO_ERROR and again.level == "program"
    assert from_data(to_data(shown.signature), Signature) == shown.signature
    if redactor.replaces(value):
        texts = [shown.error, shown.signature.message, *shown.recipe.config]
        assert [spelling for spelling in spelt(value) for text in texts if spelling in text] == []
        assert spellings_left(write_story(shown), value, write_story(story_of(TOKEN))) == []


def json_file(value: str, indent: int | None) -> str:
    return json.dumps({"a": [f"- {value} -", {value: 1.5}], "b": {"message": value}, "c": None}, indent=indent)


TRACE_HEAD = "V1120 17:29:56.314000 42 torch/_dynamo/x.py:1] "


def trace_file(value: str) -> str:
    payload = "\n".join("\t" + line for line in f"code {value} code".split("\n"))
    return TRACE_HEAD + json.dumps({"artifact": {"name": f"- {value}"}, "has_payload": ""}) + "\n" + payload + "\n"


def python_file(value: str) -> str:
    return f"x = {value!r}\ny = [{value + ' z'!r}]  # {value!a}\nz = {json.dumps(value)}\n"


def spellings_left(text: str, value: str, file_without: str) -> list[str]:
    """Spellings of `value` that stand in `text` more often than in a file that never held `value`.

    A value such as ``{"a`` may equal a piece of the file's own syntax: such a piece is no leak.
    """
    return [spelling for spelling in spelt(value) if text.count(spelling) > file_without.count(spelling)]


@settings(deadline=None, max_examples=100)
@given(values)
@example("\\nZk4Qw8Rt2Yp6Lm9Xv3Nb")
@example("has_payload")
@example(' {"a')
def test_json_and_traces_stay_whole(value: str) -> None:
    redactor = redactor_of(value)
    for indent in (None, 2):
        text = redact_file(json_file(value, indent), "x.json", "artifact", redactor).text
        assert set(json.loads(text)) == {"a", "b", "c"}
        if redactor.replaces(value):
            assert spellings_left(text, value, json_file(TOKEN, indent)) == []
    text = redact_file(trace_file(value), "trace/x.log", "trace", redactor).text
    assert text.endswith("\n") and json.loads(text.splitlines()[0].removeprefix(TRACE_HEAD))["artifact"]
    if redactor.replaces(value):
        assert spellings_left(text, value, trace_file(TOKEN)) == []


@settings(deadline=None, max_examples=100)
@given(values)
@example("'''")
@example("abc\\")
def test_python_still_compiles(value: str) -> None:
    redactor = redactor_of(value)
    text = redact_file(python_file(value), "x.py", "source", redactor).text
    compile(text, "x.py", "exec")
    if redactor.replaces(value):
        assert spellings_left(text, value, python_file(TOKEN)) == []


@pytest.mark.parametrize("value", ["\\nZk4Qw8Rt2Yp6Lm9Xv3Nb", "dynamo-error", *ODD, *ENUMS])
def test_a_whole_bundle_stays_well_formed(tmp_path: Path, value: str) -> None:
    case = small_case(tmp_path, f"x {value} y")
    with_program(case, PROGRAM.replace("TENSOR0", "a").replace("TENSOR1", "b"))
    with_trace(
        case, [({"artifact": {"name": value}}, f"say {value}"), ({"str": [value, 1]}, json.dumps({value: value}))]
    )
    files = bundle_of(case, {"NOTIFY_ON": value, "DB_PASSWORD": value}, BundleOptions(trace="yes"))
    assert problems_of(files) == []


def test_a_letter_after_a_backslash_belongs_to_no_secret() -> None:
    contents = Contents(Redactor())
    contents.add_text("logs/a.txt", r'{"at": "x\nZk4Qw8Rt2Yp6Lm9Xv3Nb"}', "log")
    contents.add_text("logs/b.json", r'{"at": "x\nZk4Qw8Rt2Yp6Lm9Xv3Nb"}', "log")
    assert contents.entries["logs/a.txt"].data == rb'{"at": "x\nREDACTED_SECRET_1"}'
    assert json.loads(contents.entries["logs/b.json"].data) == {"at": "x\nREDACTED_SECRET_1"}
