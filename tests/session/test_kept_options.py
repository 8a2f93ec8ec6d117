"""What a case keeps of the options it was made with, and what makes its results stale."""

import json
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.errors import UsageError
from repro_kit.options.stages import Options
from repro_kit.pipeline.run import REGISTRY, settings_of
from repro_kit.session.case_paths import read_options, write_options

#: An options.json with every key but those of options at their defaults.
WRITTEN = {
    "timeout": 30.0,
    "query_timeout": 9.0,
    "jobs": 3,
    "budget": 7,
    "deadline": 8.0,
    "preset": "quick",
    "backends": ["eager"],
    "axes": ["dynamic=True"],
    "cross": True,
    "stop_early": True,
    "repeat": 2,
    "on": "script",
    "workarounds": True,
    "border": "aot",
    "events": "e.jsonl",
    "failure": 1,
    "check": "accuracy",
    "oracle": "true",
    "oracle_matches": "x",
    "logs": "aot",
    "debug_artifacts": True,
    "function": "f",
    "narrow": "graph",
    "include_values": True,
    "include_source": True,
    "trace": "no",
    "dry_run": True,
    "output": "o.repro",
}
#: What such a case records of each stage's options, beside the state of the command's files.
RECORDED = {
    "observe": "timeout=30.0 logs=aot debug_artifacts=True function=f check=accuracy oracle=true oracle_matches=x "
    "failure=1",
    "capture": "",
    "ablate": "preset=quick backends=('eager',) axes=('dynamic=True',) cross=True stop_early=True repeat=2 on=script "
    "narrow=graph",
    "minify": "budget=7 deadline=8.0 border=aot",
    "bundle": "include_values=True include_source=True trace=no output=o.repro",
}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A new case of a command without files."""
    return Case.create(tmp_path / "a.repro", Subject("command", ("true",), str(tmp_path), "python"), "2026-01-01")


def kept(case: Case) -> Options:
    options = read_options(case)
    assert options is not None
    return options


def test_options_are_read_and_written_as_they_were(case: Case) -> None:
    file = case.path / "options.json"
    file.write_text(json.dumps(WRITTEN))
    options = kept(case)
    assert (options.observe.timeout, options.capture.timeout, options.ablate.timeout) == (30.0, 30.0, 30.0)
    assert options.ablate.axes == ("dynamic=True",)
    write_options(case, options)
    assert json.loads(file.read_text()) == WRITTEN


def test_every_option_has_its_key(case: Case) -> None:
    at_their_defaults = {"patient", "source", "treat_rounding_as"}
    assert {*Options().flat()} - at_their_defaults == {*WRITTEN}


def test_what_is_at_its_default_is_left_out(case: Case) -> None:
    write_options(case, Options().with_(jobs=2))
    assert json.loads((case.path / "options.json").read_text()) == {"jobs": 2}
    assert kept(case) == Options().with_(jobs=2)


def test_a_case_may_have_none(case: Case) -> None:
    assert read_options(case) is None


def test_damaged_options_are_one_sentence(case: Case) -> None:
    (case.path / "options.json").write_text('{"jobs": "many"}')
    with pytest.raises(UsageError, match=r"options\.json is damaged"):
        read_options(case)


@pytest.mark.parametrize("name", REGISTRY)
def test_what_makes_a_result_stale_is_told_as_before(case: Case, name: str) -> None:
    (case.path / "options.json").write_text(json.dumps(WRITTEN))
    files = settings_of(REGISTRY[name], case, Options().of(name))  # with every option at its default
    assert settings_of(REGISTRY[name], case, kept(case).of(name)) == " ".join(filter(None, [RECORDED[name], files]))


def test_an_option_that_several_stages_have_is_the_same_in_all() -> None:
    options = Options().with_(timeout=5.0, jobs=4)
    timeouts = {part.timeout for part in (options.observe, options.capture, options.ablate, options.minify)}
    assert timeouts == {5.0} and options.ablate.jobs == options.minify.jobs == 4


def test_an_unknown_option_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="There is no option timeuot"):
        Options().with_(timeuot=5.0)
