"""Which settings are put back for which failure, which texts make promises, and how a program's own are named."""

import pytest

from repro_kit.diagnosis import promises
from repro_kit.diagnosis.promises import OwnSettings, makes_promises, marks_in, promises_of, withdrawn
from repro_kit.failure.failure import Difference, Failure, Phase
from repro_kit.failure.kinds import Kind

_FAST, _STRIDES = "use_fast_math", "keep_output_stride"


@pytest.mark.parametrize("kind", [Kind.COMPILE_ERROR, Kind.DYNAMO_ERROR, Kind.RUNTIME_ERROR, Kind.CRASH, Kind.TIMEOUT])
def test_no_promise_lets_the_compiler_raise_or_crash(kind: Kind) -> None:
    assert withdrawn(Failure(kind)) == {}


@pytest.mark.parametrize(("form", "asked"), [("value", False), ("nan", False), ("stride", True), ("alias", True)])
def test_a_promise_about_strides_is_broken_by_no_value(form: str, asked: bool) -> None:
    put_back = withdrawn(Failure(Kind.ACCURACY, Phase.COMPARE, difference=Difference(form, "output 0")))
    inductor = put_back["torch._inductor.config"]
    assert (_STRIDES in inductor) is asked and inductor[_FAST] is False
    assert put_back["torch._dynamo.config"]["guard_nn_modules"] is True


def test_a_check_of_the_programs_own_may_be_about_strides() -> None:
    assert withdrawn(Failure(Kind.ACCURACY))["torch._inductor.config"][_STRIDES] is True


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("torch._inductor.config.freezing = True", True),
        ("torch.compile(f, options={'cpp.enable_unsafe_math_opt_flag': True})", True),
        ("os.environ['TORCHINDUCTOR_FREEZING'] = '1'", True),
        ("torch._inductor.config.max_autotune = True", False),
        ("model.unfreeze()", False),
    ],
)
def test_a_text_that_names_such_a_setting_makes_promises(text: str, made: bool) -> None:
    assert makes_promises(text) is made


WRONG = Failure(Kind.ACCURACY, Phase.COMPARE, difference=Difference("value", "output 0"))


@pytest.mark.parametrize(
    ("own", "named"),
    [
        (
            OwnSettings({"inductor.freezing": True, "inductor.max_autotune": True}),
            ["torch._inductor.config.freezing = True: no weight changes"],
        ),
        (OwnSettings({"dynamo.guard_nn_modules": True, "inductor.freezing": False}), []),
        (
            OwnSettings(
                {"dynamo.guard_nn_modules": False},
                options={"cpp.enable-unsafe-math-opt-flag": True, "freezing": False},
                texts=["torch._inductor.config.freezing = False"],
            ),
            [
                "torch._dynamo.config.guard_nn_modules = False: no module changes",
                "options={'cpp.enable-unsafe-math-opt-flag': True}: no NaN, infinity or rounding counts",
            ],
        ),
        (
            OwnSettings(variables={"TORCHINDUCTOR_FREEZING": "1", "TORCHINDUCTOR_USE_FAST_MATH": "0", "HOME": "1"}),
            ["TORCHINDUCTOR_FREEZING=1: no weight changes"],
        ),
        (
            OwnSettings(texts=["with torch._inductor.config.patch(freezing=True):", "unfreezing = 1"]),
            ["torch._inductor.config.freezing: no weight changes"],
        ),
        (
            OwnSettings(texts=["os.environ['TORCHINDUCTOR_FREEZING'] = '1'"]),
            ["TORCHINDUCTOR_FREEZING: no weight changes"],
        ),
        (OwnSettings(texts=["torch.compile(model)"]), []),
    ],
)
def test_the_programs_own_settings_are_named_as_they_are_written(own: OwnSettings, named: list[str]) -> None:
    assert list(promises_of(own, WRONG)) == named


def test_a_setting_that_cannot_be_the_reason_is_not_named() -> None:
    own = OwnSettings({"inductor.keep_output_stride": False}, variables={"TORCHINDUCTOR_KEEP_OUTPUT_STRIDE": "0"})
    assert promises_of(own, WRONG) == ()
    assert len(promises_of(own, Failure(Kind.ACCURACY))) == 2


def test_every_promise_has_words() -> None:
    assert {*promises.SETTINGS, *promises.OF_FORM, promises.FREEZING} == set(promises.PROMISED)


def test_marks_are_named_as_they_are_written() -> None:
    texts = ["torch.compile(f, options={'guard_filter_fn': keep})", "@torch.compiler.allow_in_graph\ndef g(x): ..."]
    assert marks_in(texts) == ("allow_in_graph", "options={'guard_filter_fn': …}")
    assert marks_in(["guard_filter_fns"]) == ()
    assert marks_in(["torch._dynamo.config.ignore_logging_functions.add(note)"]) == ("ignore_logging_functions",)
