"""Which settings are put back for which failure, and which texts make promises."""

import pytest

from repro_kit.diagnosis.promises import makes_promises, withdrawn
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
