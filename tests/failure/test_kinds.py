"""Each kind of failure says by itself how it is seen, compared and described."""

import pytest

from repro_kit.failure.classify import failure_from_exceptions
from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind, ShownBy
from repro_kit.failure.signature import Signature, Strength, signature_of
from repro_kit.serialize import from_data, to_data

INDUCTOR = Frame("/x/torch/_inductor/compile_fx.py", 1, "compile_fx")
DYNAMO = Frame("/x/torch/_dynamo/convert_frame.py", 1, "_compile")
WRAPPER = ExceptionLink("torch._inductor.exc.InductorError", "UserWarning: slow", (DYNAMO,))


@pytest.mark.parametrize("kind", Kind)
def test_a_kind_has_its_words_and_is_known_by_its_name(kind: Kind) -> None:
    policy = kind.policy
    assert Kind(str(kind)) is kind and from_data(to_data(Signature(kind)), Signature).kind is kind
    assert policy.expected.endswith(".") and policy.ending.endswith(".")
    fields = {name: name for name in ("subject", "compiled", "raised", "refused", "signal", "location", "s", "does")}
    assert "{" not in policy.title.format(**fields) + policy.summary.format(**fields)
    assert not policy.measured or policy.not_reduced or policy.units


def test_what_shows_a_kind_decides_what_is_run() -> None:
    watched = {kind for kind in Kind if kind.policy.ends_process}
    assert watched == {Kind.CRASH, Kind.TIMEOUT, Kind.DEADLOCK}
    assert {kind for kind in Kind if kind.policy.measured} == {
        kind for kind in Kind if kind.policy.shown_by is ShownBy.VALUE
    } - {Kind.COMPILE_GROWTH}


def test_a_deadlock_of_an_earlier_version_is_read_as_one() -> None:
    assert from_data({"kind": "timeout", "message": "the ranks wait for each other"}, Signature) == signature_of(
        Failure(Kind.DEADLOCK)
    )
    assert from_data({"kind": "timeout", "text": "rank 0 waits", "deadlock": True}, Failure) == Failure(
        Kind.DEADLOCK, text="rank 0 waits"
    )
    assert from_data({"kind": "timeout", "deadlock": False}, Failure).kind is Kind.TIMEOUT


def test_a_deadlock_is_no_other_hang_between_candidates() -> None:
    deadlock, hang = Signature(Kind.DEADLOCK), Signature(Kind.TIMEOUT, frames=("a.py:f",))
    assert deadlock.matches(deadlock) and deadlock.summary() == "hang: the ranks wait for each other"
    assert not deadlock.matches(hang) and not hang.matches(deadlock)
    assert deadlock.matches(hang, Strength.REBASED), "only the stacks of repro.py's ranks may be known"
    assert not deadlock.matches(Signature(Kind.TIMEOUT, message="compiling in inductor"), Strength.REBASED)
    assert not hang.matches(deadlock, Strength.REBASED)
    assert hang.matches(deadlock, Strength.CROSS_VERSION)


def test_a_warning_that_is_an_error_is_a_kind_of_its_own() -> None:
    links = [WRAPPER, ExceptionLink("UserWarning", "slow conversion of 3 values", (INDUCTOR,))]
    signature = signature_of(failure_from_exceptions(links))
    assert signature.kind is Kind.WARNING
    assert signature.summary() == ("UserWarning in compile_fx.py:compile_fx: slow conversion of … values")
    other = signature_of(failure_from_exceptions([links[0], ExceptionLink("FutureWarning", "gone", (INDUCTOR,))]))
    assert signature.matches(signature) and not signature.matches(other)


def test_what_earlier_versions_called_a_compile_error_matches_the_warning_that_it_is() -> None:
    now = Signature(Kind.WARNING, ("UserWarning",), "slow conversion", ("compile_fx.py:compile_fx",))
    for kind in (Kind.COMPILE_ERROR, Kind.DYNAMO_ERROR, Kind.RUNTIME_ERROR):
        then = Signature(kind, now.exceptions, now.message, now.frames)
        assert then.matches(now, Strength.REBASED) and not then.matches(now)
        assert not Signature(kind, ("UserWarning",), "another thing", now.frames).matches(now, Strength.REBASED)
