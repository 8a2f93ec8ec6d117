"""The bundle stage on real scripts that need this machine, come and go, or are about torch: what it calls verified."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from promises.final_check import PLAIN, UNCLEAN, Unclean, bundled, case_of, machine
from repro_kit.case.case import StageRecord
from repro_kit.commands.verify import verify
from repro_kit.errors import Exit
from repro_kit.options.builds import VerifyOptions
from repro_kit.pipeline.summary import case_summary
from repro_kit.repro_run import running
from repro_kit.stages.bundle import checking
from repro_kit.ui import SilentUi

pytestmark = [pytest.mark.torch, pytest.mark.slow]

#: Reads a setting of torch's, which torch has from the environment; nothing is compiled, so that it ends soon.
READS_SETTING = """\
import os
import torch._functorch.config as config
if os.environ.get("TORCH_COMPILE_DISABLE") != "1" and ({when}):
    raise ValueError("planted")
"""
CHOSEN = [it for it in UNCLEAN if it.name in ("a file and a variable", "a file below", "threads")]


@pytest.mark.parametrize("unclean", CHOSEN, ids=lambda it: it.name)
def test_what_it_needs_is_carried_or_named_and_then_it_is_not_verified(unclean: Unclean, tmp_path: Path) -> None:
    with machine(unclean, tmp_path / "work"):
        result, files = bundled(case_of(tmp_path / "work", PLAIN, unclean.when))
    assert result.verified is (not unclean.need), result.reason
    assert bool(result.needs) is bool(unclean.need)
    for name in ("README.md", "issue.md", "report.html", "manifest.json"):
        assert unclean.need in files[name]
    with machine(Unclean("nothing", "False"), tmp_path / "stranger"):
        exit_code = verify([Path(result.path)], VerifyOptions(sys.executable), SilentUi(yes=True))
    assert exit_code is (Exit.NOTHING_FAILED if unclean.need else Exit.OK)


def test_a_setting_of_torch_is_carried_where_torch_itself_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (running, checking):  # each run imports torch, and one shows it
        monkeypatch.setattr(module, "RUNS_BEFORE_DETERMINISTIC", 1)
    unclean = Unclean("torch", "not config.enable_autograd_cache", "", {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0"})
    with machine(unclean, tmp_path / "work"):
        result, files = bundled(case_of(tmp_path / "work", READS_SETTING, unclean.when))
    assert result.verified, result.reason
    assert 'os.environ["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "0"' in files["repro.py"]


@pytest.mark.parametrize("name", ["CPATH", "CXX"])
def test_what_needs_the_users_own_compiler_is_not_verified(tmp_path: Path, name: str) -> None:
    """The check has the variables that choose a compiler, as a stranger has his own."""
    unclean = Unclean("a compiler", f'os.environ.get("{name}") == "old"', f"variable {name}", {name: "old"})
    with machine(unclean, tmp_path / "work"):
        result, files = bundled(case_of(tmp_path / "work", PLAIN, unclean.when))
    assert not result.verified and result.needs == (f"the environment variable {name}",)
    assert f"repro.py passes without the environment {unclean.need}" in files["README.md"]


@pytest.fixture
def counter() -> Iterator[Path]:
    """A file that outlives a clean process, and is named like nothing of the user's."""
    path = Path("/tmp") / f"count{uuid.uuid4().hex[:6]}"
    yield path
    path.unlink(missing_ok=True)


def test_a_failure_in_every_other_run_is_called_flaky_wherever_the_failure_is_told(
    tmp_path: Path, counter: Path
) -> None:
    count = f"open('{counter}', 'a').write('x') and len(open('{counter}').read()) % 2 == 1"
    case = case_of(tmp_path / "work", PLAIN, count)
    result, files = bundled(case)
    assert result.verified, result.reason
    rate = "it failed as expected in 5 of 10 runs"
    assert result.flaky == rate
    case.record(StageRecord("bundle", "done"))
    assert case_summary(case, Exit.OK, seconds=1.0).flaky == rate
    manifest = json.loads(files["manifest.json"])
    assert (manifest["flaky"], manifest["runs"]) == (rate, {"made": 10, "same": 5})
    assert manifest["repeats"] > 1
    for name in ("README.md", "issue.md", "report.html"):
        assert rate in files[name]
        assert "works as it is" not in files[name]
        needed = f"{manifest['repeats']} runs must all pass" if name == "issue.md" else f"seq {manifest['repeats']}"
        assert needed in files[name], "check.py is in the bundle, and not in an issue"
    assert verify([case.path], VerifyOptions(sys.executable), SilentUi(yes=True)) is Exit.OK


def test_a_bundle_that_is_known_to_be_flaky_is_fixed_only_after_that_many_runs(tmp_path: Path) -> None:
    (tmp_path / "repro.py").write_text("print('PASS')\n")
    claim = {"schema": 1, "repeats": 3}
    (tmp_path / "manifest.json").write_text(json.dumps(claim))
    told: list[dict[str, object]] = []
    ui = SilentUi(yes=True)
    ui.result = told.append
    assert verify([tmp_path / "repro.py"], VerifyOptions(sys.executable), ui) is Exit.NOTHING_FAILED
    assert str(told[0]["sentence"]).endswith("in 3 of 3 runs")
