"""How often `repro.py` is run before something is said of how often it fails; where it runs. No torch is needed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repro_kit.failure.failure import ExceptionLink, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.reduce.flaky import NO_RUNS, Tally
from repro_kit.repro_run import running as module
from repro_kit.repro_run.running import Check, ReproRun, check_repro, run_repro

FAILURE = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("ValueError", "now and then"),))
Checked = Callable[..., tuple[Check, int]]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Checked:
    """The check of a `repro.py` that fails in the runs `fails`, of `seconds`; and the count of eager runs."""

    def make(
        fails: set[int],
        earlier: Tally = NO_RUNS,
        seconds: float = 1.0,
        eager_fails: tuple[int, ...] = (),
        at_once: bool = False,
        in_eager: bool = False,
    ) -> tuple[Check, int]:
        compiled_runs: list[bool] = []
        eager_runs: list[bool] = []

        def run(python: str, directory: Path, *, compiled: bool = True, **_: object) -> ReproRun:
            made = compiled_runs if compiled else eager_runs
            failing = len(made) in (fails if compiled else eager_fails)
            made.append(failing)
            verdict = Verdict(Status.FAIL, FAILURE, seconds) if failing else Verdict(Status.PASS, seconds=seconds)
            return ReproRun(verdict, "")

        monkeypatch.setattr(module, "run_repro", run)
        check = check_repro(
            sys.executable,
            Path(),
            signature_of(FAILURE),
            timeout=1.0,
            earlier=earlier,
            at_once=at_once,
            in_eager=in_eager,
        )
        return check, len(eager_runs)

    return make


ALWAYS = set(range(99))


@pytest.mark.parametrize(
    ("fails", "earlier", "seconds", "runs", "same"),
    [
        (ALWAYS, Tally(), 1.0, 5, 5),  # five alike: a rate of one half would show
        (ALWAYS, Tally(4, 4), 1.0, 1, 1),  # the stages before have seen it four times
        (ALWAYS, Tally(1, 1), 1.0, 4, 4),
        (ALWAYS, Tally(), 100.0, 3, 3),  # three that take long have to do
        (ALWAYS, Tally(3, 4), 1.0, 10, 10),  # it passed before
        ({0}, Tally(), 1.0, 10, 1),
        ({0}, Tally(9, 9), 1.0, 1, 1),
        ({2}, Tally(), 1.0, 10, 1),
        ({0, 1, 3, 4}, Tally(), 100.0, 5, 4),
        (set(), Tally(), 1.0, 3, 0),
        (set(), Tally(2, 10), 1.0, 18, 0),  # known to be flaky
        ({5}, Tally(2, 10), 1.0, 10, 1),
    ],
)
def test_a_failure_gets_the_runs_it_needs(
    checked: Checked, fails: set[int], earlier: Tally, seconds: float, runs: int, same: int
) -> None:
    check, _ = checked(fails, earlier, seconds)
    assert (len(check.runs), check.same) == (runs, same)
    assert check.verified is (same > 0)
    assert check.flaky is (same > 0 and (same < runs or earlier.flaky))


def test_a_flaky_failure_is_told_with_its_rate_and_how_often_to_run_it(checked: Checked) -> None:
    check, eager_runs = checked({0, 2, 5, 6})
    assert check.rate == "it failed as expected in 4 of 10 runs"
    assert check.repeats == 8
    assert eager_runs == check.repeats  # one passing run without torch.compile says as little
    before, _ = checked(ALWAYS, Tally(3, 4))
    assert before.rate == "it failed as expected in 10 of 10 runs, and before in 3 of 4"
    assert before.repeats > 1


def test_a_failure_that_comes_every_time_has_no_rate(checked: Checked) -> None:
    check, eager_runs = checked(ALWAYS)
    assert (check.rate, check.repeats, eager_runs) == ("", 1, 1)


def test_a_flaky_failure_that_comes_in_eager_too_is_not_verified(checked: Checked) -> None:
    check, _ = checked({0, 2, 5, 6}, eager_fails=(3,))
    assert not check.verified
    assert "TORCH_COMPILE_DISABLE=1" in check.reasons[0]


def test_a_failure_that_needs_no_compiler_must_come_without_it(checked: Checked) -> None:
    check, _ = checked(ALWAYS, eager_fails=(0,), in_eager=True)
    assert check.verified
    check, _ = checked(ALWAYS, in_eager=True)
    assert not check.verified
    assert "does not fail in the same way under TORCH_COMPILE_DISABLE=1" in check.reasons[0]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("fails", [ALWAYS, {0, 2, 5, 6}, set()])
def test_runs_at_once_decide_as_runs_in_turn_do(checked: Checked, fails: set[int], at_once: bool) -> None:
    check, eager_runs = checked(fails, eager_fails=(0,), at_once=at_once)
    assert eager_runs == 1  # the run without torch.compile did not pass
    assert not check.verified and not check.passes_in_eager


def test_an_interrupted_check_ends_the_run_beside(tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    (tmp_path / "repro.py").write_text(f"""\
import os, pathlib, time
if os.environ.get("TORCH_COMPILE_DISABLE"):
    pathlib.Path({str(begun)!r}).touch()
    time.sleep(600)
    pathlib.Path({str(ended)!r}).touch()
""")

    def interrupt(_: str) -> None:
        while not begun.exists():
            time.sleep(0.05)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_repro(sys.executable, tmp_path, signature_of(FAILURE), timeout=600, at_once=True, on_tick=interrupt)
    assert not ended.exists()


LOOK = """\
import os, pathlib, sys, tempfile
home = pathlib.Path.home()
assert not list(home.iterdir()), list(home.iterdir())
assert not os.listdir(".")
assert home != pathlib.Path({home!r})
assert tempfile.gettempdir().startswith(str(home.parent))
known = {{"PATH", "HOME", "TMPDIR", "PYTHONUSERBASE", "PYTHONDONTWRITEBYTECODE", "LC_CTYPE"}}
known |= {{"LD_LIBRARY_PATH", "CC", "CXX", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_COMPILE_DISABLE"}}
left = {{name for name in os.environ if name not in known and not name.startswith(("CUDA_", "NVIDIA_"))}}
assert not left, left
"""


@pytest.mark.parametrize("compiled", [True, False])
def test_it_runs_in_an_empty_home_with_few_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    for name in ("MY_MODE", "XDG_CACHE_HOME", "OMP_NUM_THREADS", "TORCHINDUCTOR_MAX_AUTOTUNE", "PYTHONPATH", "LANG"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / "repro.py").write_text(LOOK.format(home=str(Path.home())))
    run = run_repro(sys.executable, tmp_path, timeout=60, compiled=compiled)
    assert run.verdict.status is Status.PASS, run.output


def test_files_beside_are_shown_where_the_bundle_has_none(tmp_path: Path) -> None:
    own, bundle = tmp_path / "own", tmp_path / "bundle"
    for place in (own / "data", bundle / "files"):
        place.mkdir(parents=True)
    (own / "data/x.csv").write_text("1")
    (own / "a.py").write_text("the user's")
    (bundle / "files/a.py").write_text("the bundle's")
    (bundle / "repro.py").write_text(
        "import pathlib\nassert pathlib.Path('data/x.csv').exists()\n"
        "files = pathlib.Path(__file__).parent / 'files'\n"
        "assert (files / 'data/x.csv').read_text() == '1'\n"
        'assert (files / "a.py").read_text() == "the bundle\'s"\n'
    )
    run = run_repro(sys.executable, bundle, timeout=60, beside=own)
    assert run.verdict.status is Status.PASS, run.output
    assert sorted(path.name for path in tmp_path.rglob("*.*") if path.is_file()) == [
        "a.py",
        "a.py",
        "repro.py",
        "x.csv",
    ]


def test_tallies_add_up() -> None:
    def some() -> Iterator[Tally]:
        yield Tally(1, 1)
        yield Tally(2, 3)

    assert sum(some(), Tally()) == Tally(3, 4)
