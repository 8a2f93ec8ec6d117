import pytest

from repro_kit.stages.capture.growth import kept_limit


@pytest.mark.parametrize(
    ("words", "limit", "kept"),
    [
        ("compile time grows 2.1 times per repetition (…)", 1.5, 6.0),
        ("compile time grows with the power 3 of the repetitions (…)", 1.5, 2.2),
        ("compile time grows with the power 2.1 of the repetitions (…)", 2.0, 2.0),
        ("compile time grows faster than the power 3.3 of the repetitions (…)", 1.5, 2.5),
    ],
)
def test_a_reduced_program_must_grow_in_the_same_way(words: str, limit: float, kept: float) -> None:
    assert kept_limit(words, limit) == pytest.approx(kept, abs=0.1)
