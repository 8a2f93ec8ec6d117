import pytest

from repro_kit.errors import ReproKitError
from repro_kit.failure.failure import Measured, Status
from repro_kit.failure.kinds import Kind, Unit
from repro_kit.failure.signature import Strength, signature_of
from repro_kit.failure.symptom import Symptom, parse_symptom


@pytest.mark.parametrize(
    ("text", "kind", "limit", "unit", "baseline"),
    [
        ("accuracy", Kind.ACCURACY, 0, Unit.COUNT, {}),
        ("recompiles>3", Kind.RECOMPILES, 3, Unit.COUNT, {}),
        ("graph-breaks > 0", Kind.GRAPH_BREAKS, 0, Unit.COUNT, {}),
        ("compile-time>30", Kind.COMPILE_TIME, 30, Unit.SECONDS, {}),
        ("compile-time>1.5min", Kind.COMPILE_TIME, 90, Unit.SECONDS, {}),
        ("compile-growth>2.5", Kind.COMPILE_GROWTH, 2.5, Unit.COUNT, {}),
        ("slowdown>1.2", Kind.SLOWDOWN, 1.2, Unit.RATIO, {}),
        ("slowdown>1.2x@eager", Kind.SLOWDOWN, 1.2, Unit.RATIO, {}),
        ("slowdown>1.1@dynamic=False", Kind.SLOWDOWN, 1.1, Unit.RATIO, {"dynamic": False}),
        ("memory>1.5", Kind.MEMORY, 1.5, Unit.RATIO, {}),
        ("memory>2GiB", Kind.MEMORY, 2 * 1024**3, Unit.BYTES, {}),
        ("memory>500MB", Kind.MEMORY, 500 * 1000**2, Unit.BYTES, {}),
        ("recompiles>2x@mode=max-autotune", Kind.RECOMPILES, 2, Unit.RATIO, {"mode": "max-autotune"}),
        (
            "compile-time>2x@aot_eager,inductor.pattern_matcher=False",
            Kind.COMPILE_TIME,
            2,
            Unit.RATIO,
            {"backend": "aot_eager", "inductor.pattern_matcher": False},
        ),
    ],
)
def test_what_may_be_said(text, kind, limit, unit, baseline):
    symptom = parse_symptom(text)
    assert (symptom.kind, symptom.limit, symptom.unit, symptom.baseline) == (kind, limit, unit, baseline)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("speed>2", "is not a symptom"),
        ("recompiles", "is not a symptom"),
        ("recompiles>-1", "is not a symptom"),
        ("recompiles>3s", "not counted in 's'"),
        ("slowdown>5GiB", "not counted in 'GiB'"),
        ("compile-growth>2x", "not counted in 'x'"),
        ("compile-time>2x", "compile-time>2x@aot_eager"),
        ("recompiles>3@aot_eager", "recompiles>2x@aot_eager"),
        ("slowdown>2@speed=1", "'speed' is not a setting"),
    ],
)
def test_what_is_wrong_is_named(text, word):
    with pytest.raises(ReproKitError, match=word.replace(">", ".")):
        parse_symptom(text)


def test_a_measurement_is_judged_beyond_its_noise():
    slow = parse_symptom("slowdown>1.2")
    failed = slow.verdict(Measured(1.5, 1.4, 1.6))
    assert failed.status is Status.FAIL
    assert failed.failure is not None and failed.failure.measured is not None
    assert failed.failure.measured.limit == 1.2
    assert slow.verdict(Measured(1.25, 1.1, 1.4)).status is Status.FLAKY
    assert slow.verdict(Measured(1.15, 1.1, 1.3)).status is Status.FLAKY
    assert slow.verdict(Measured(1.0, 0.9, 1.1)).status is Status.PASS
    assert slow.verdict(Measured.exact(1.2)).status is Status.PASS  # more than, not as much as


def test_a_ratio_is_to_what_the_baseline_measured():
    twice = parse_symptom("recompiles>2x@dynamic=False").with_reference(3)
    assert twice.verdict(Measured.exact(6)).status is Status.PASS
    assert twice.verdict(Measured.exact(7)).status is Status.FAIL


def test_two_runs_above_the_limit_show_the_same_failure():
    def seen(symptom: Symptom, value: float):
        failure = symptom.verdict(Measured.exact(value, "f at a.py:1")).failure
        assert failure is not None
        return signature_of(failure)

    many = parse_symptom("recompiles>3")
    first, second = seen(many, 5), seen(many, 9)
    assert first.matches(second, Strength.STRICT)
    assert not first.matches(seen(parse_symptom("graph-breaks>3"), 9))
    assert first.summary() == "5 recompiles, more than 3: f at a.py:1"
