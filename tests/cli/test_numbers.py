"""Numbers that an option takes."""

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "0", "soon"])
@pytest.mark.parametrize(
    "words", [("collect", "--timeout"), ("verify", "--memory"), ("bisect", "--cache-size"), ("minify", "--deadline")]
)
def test_a_number_that_means_nothing_is_refused(words: tuple[str, str], number: str) -> None:
    result = CliRunner().invoke(cli, [*words, number, "nothing.py"])
    assert (result.exit_code, words[1] in result.output) == (2, True), result.output
