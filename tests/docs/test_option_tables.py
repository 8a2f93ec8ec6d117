"""The tables of options in the reference are those of the declarations."""

from record_options import PAGE, written


def test_the_reference_has_every_option_as_it_is_declared() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run scripts/record_options.py"
    for words in ("--query-timeout S", "--preset quick", "--find-fix", "--shard I/N", "--compile-id ID"):
        assert words in page
