"""Fakes for the stages: small modules that write what real ones would, injected through the registry.

An interpreter is asked once whether it can run the same script; tests/subject asks it each time.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from click.testing import CliRunner, Result

from repro_kit.cli.main import cli
from repro_kit.pipeline.run import REGISTRY
from repro_kit.runner.ask import Probe, Question
from repro_kit.subject import subject_check

T = TypeVar("T")

STAGES = {
    "observe": """
        from repro_kit.failure.failure import Failure
        from repro_kit.failure.kinds import Kind
        from repro_kit.case.stage_results import Observation, ObservedFailure
        from repro_kit.failure.signature import Signature

        def run(case, options, ui):
            one, two = Signature(Kind.COMPILE_ERROR, ("E",), "boom"), Signature(Kind.CRASH, signal="memory")
            found = (ObservedFailure(Failure(one.kind), one), ObservedFailure(Failure(two.kind), two, count=2))
            argv = case.file.subject.argv
            case.write("observe/run.json", Observation(argv, 1, None, False, 1.0, 5, None, None, failures=found))
            case.update(signature=found[options.failure].signature)
            ui.done("compile-error: boom")
        """,
    "capture": """
        from repro_kit.case.stage_results import Capture

        def run(case, options, ui):
            case.write("capture/capture.json", Capture("program", statements=12))
            ui.done("12 statements")
        """,
    "ablate": """
        from repro_kit.diagnosis.cell import Ablation
        from repro_kit.failure.failure import Layer

        def run(case, options, ui):
            case.write("ablation.json", Ablation("program", layer=Layer.INDUCTOR, sentence="Inductor is to blame."))
            ui.done("Inductor is to blame.")
        """,
    "minify": """
        from repro_kit.case.stage_results import Reduction, ReductionStep

        def run(case, options, ui):
            steps = (ReductionStep("guess", 3, 7, "history/000.py"),)
            case.write("minify/minify.json", Reduction(12, 3, 40, 2.0, True, True, steps))
            ui.done("12 -> 3 statements")
        """,
    "bundle": """
        from pathlib import Path
        from repro_kit.failure.failure import Layer
        from repro_kit.case.stage_results import BundleResult

        def run(case, options, ui):
            Path(options.output).write_bytes(b"zip")
            case.write("bundle.json", BundleResult(options.output, "program", True, True, True, Layer.INDUCTOR))
            ui.done("verified")
        """,
}

_numbers = itertools.count()
_OF_A_TEST = "PYTEST_CURRENT_TEST"


class CheckedOnce(Probe):
    """Asks an interpreter of a script, or of a module, once for all that its answer may depend on."""

    _answers: ClassVar[dict[tuple[object, ...], Any]] = {}

    def ask(self, question: Question, reply_type: type[T], asked: object = None) -> T:
        """The answer, of now or of before."""
        assert isinstance(asked, dict) and self.cwd is not None and self.env is not None
        script = Path(asked["script"]).read_bytes() if asked["script"] else None
        env = tuple(sorted((name, value) for name, value in self.env.items() if name != _OF_A_TEST))
        key = (self.python, tuple(sorted(path.name for path in self.cwd.iterdir())), env, script, asked["module"])
        if key not in self._answers:
            self._answers[key] = super().ask(question, reply_type, asked)
        answer: T = self._answers[key]
        return answer


class Fakes:
    """The fake stages; `replace` gives one of them another body. Every run is counted in the file `ran`."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.monkeypatch = monkeypatch
        for name, text in STAGES.items():
            self.replace(name, text)

    def replace(self, name: str, text: str) -> None:
        module = f"fake_{name}_{next(_numbers)}"  # imported modules are kept by name
        log = f"open({str(self.place / 'ran')!r}, 'a').write('{name} ')"
        body = textwrap.dedent(text).replace(
            "def run(case, options, ui):\n", f"def run(case, options, ui):\n    {log}\n"
        )
        (self.place / f"{module}.py").write_text(body)
        self.monkeypatch.setitem(REGISTRY, name, dataclasses.replace(REGISTRY[name], module=module))

    def ran(self) -> list[str]:
        """The stages that ran since the last call."""
        path = self.place / "ran"
        words = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return words


@pytest.fixture
def fakes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    place = tmp_path_factory.mktemp("fakes")
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(subject_check, "Probe", CheckedOnce)
    return Fakes(place, monkeypatch)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to work in, with a script `train.py`, whose active environment is the one tests run in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return tmp_path


@pytest.fixture
def repro_kit() -> Callable[..., Result]:
    """Run the command line in this process."""

    def run(*args: str) -> Result:
        return CliRunner().invoke(cli, list(args), prog_name="repro-kit")

    return run
