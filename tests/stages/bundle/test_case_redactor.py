"""What the redactor of a case knows of the machine and the command."""

import sys
from pathlib import Path

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import Environment
from repro_kit.recipe import Recipe
from repro_kit.stages.bundle.sharing import redactor_of


def test_the_directory_of_a_script_is_replaced_wherever_it_is(tmp_path: Path) -> None:
    case = Case.create(
        tmp_path / "x.repro",
        Subject("command", ("torchrun", "/tmp/merger_of_acme/train.py", "local.py"), str(tmp_path), sys.executable),
        "2030-01-01T00:00:00Z",
    )
    case.write("env.json", Environment("3.11.4", sys.executable, "Linux", "2.13.0"))
    redactor = redactor_of(case, Recipe())
    text = f"at /tmp/merger_of_acme/train.py:16, {tmp_path}/local.py:2 and /usr/lib/x.so"
    assert redactor.redact(text).text == "at <code-1>/train.py:16, <cwd>/local.py:2 and /usr/lib/x.so"


def test_the_name_of_the_script_stays_since_the_bundle_has_the_script(tmp_path: Path) -> None:
    case = Case.create(
        tmp_path / "x.repro",
        Subject("script", ("/tmp/elsewhere/08_rate_model.py", "--client", "acme_corp"), str(tmp_path), sys.executable),
        "2030-01-01T00:00:00Z",
    )
    case.write("env.json", Environment("3.11.4", sys.executable, "Linux", "2.13.0"))
    text = redactor_of(case, Recipe()).redact("python lib/08_rate_model.py --client acme_corp").text
    assert text.startswith("python lib/08_rate_model.py --client ") and "acme" not in text
