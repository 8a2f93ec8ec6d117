"""What is written to a case or a bundle reads back as it was, whatever numbers and texts it holds."""

import dataclasses
import json
import math
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro_kit.case.case import Case, CaseFile, Subject
from repro_kit.case.stage_results import Observation, ObservedFailure
from repro_kit.errors import ReproKitError
from repro_kit.failure.failure import Difference, ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.failure.tracebacks import difference_in
from repro_kit.serialize import dumps, from_data, loads
from result_types import Chance, result_types

TYPES = result_types()
UNBOUNDED = """Tensor-likes are not close!

Mismatched elements: 1 / 4 (25.0%)
Greatest absolute difference: 1.0 at index (0,) (up to 1e-05 allowed)
Greatest relative difference: inf at index (0,) (up to 1.3e-06 allowed)"""


def same(one: object, other: object) -> bool:
    """Equality that takes a NaN for equal to another."""
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        names = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(other) and all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def test_the_classes_that_are_written_are_found() -> None:
    names = {name.rpartition(".")[2] for name in TYPES}
    assert {"CaseFile", "Observation", "Ablation", "Reduction", "Story", "Manifest", "Cell", "Signature"} <= names
    assert len(TYPES) > 20


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_result_reads_back_as_it_was_written(name: str, seed: int) -> None:
    value = Chance(seed).value(TYPES[name])
    written = dumps(value)
    assert same(from_data(orjson.loads(written), TYPES[name]), value)
    assert same(from_data(json.loads(written), TYPES[name]), value)  # by any reader of JSON


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_case_opens_with_what_was_saved(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("case")
    file = dataclasses.replace(Chance(seed).value(CaseFile), schema=1)
    Case(path, file).save()
    assert same(Case.open(path).file, file)


def test_a_difference_without_bound_is_kept_in_the_case(tmp_path: Path) -> None:
    case = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), ".", "python"), "2026-01-01")
    link = ExceptionLink("AssertionError", UNBOUNDED)
    failure = Failure(Kind.ACCURACY, exceptions=(link,), difference=difference_in(UNBOUNDED))
    seen = ObservedFailure(failure, signature_of(failure))
    case.write("observe/run.json", Observation(("a.py",), 1, None, False, 1.0, 0, None, None, failures=(seen,)))
    (read,) = case.read("observe/run.json", Observation).failures
    assert read == seen
    assert read.failure.difference is not None and read.failure.difference.max_rel == math.inf
    assert read.signature.magnitude == 1.0


def test_null_is_no_number() -> None:
    with pytest.raises(ValueError):
        from_data({"kind": "value", "where": "output 0", "max_rel": None}, Difference)


@pytest.mark.parametrize("text", ['{"$float": "much"}', '{"$float": []}', '{"$int": "x"}', '{"$int": 3}', "[" * 5000])
def test_damage_is_a_value_error_or_the_like(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        from_data(loads(text), dict)


def test_a_damaged_file_of_a_case_is_one_sentence(tmp_path: Path) -> None:
    case = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), ".", "python"), "2026-01-01")
    (case.path / "x.json").write_text('{"kind": "value", "where": "", "max_rel": {"$float": "much"}}')
    with pytest.raises(ReproKitError, match="damaged"):
        case.read("x.json", Difference)
