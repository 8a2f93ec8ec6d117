"""Both sides of the wire: repro-kit's data classes have the fields that the protocol says the probe writes."""

import ast
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from repro_kit.explain.extra_run import MeasuredCall
from repro_kit.failure.compiled_calls import CompiledCall
from repro_kit.failure.failure import Difference, ExceptionLink, Frame, Phase, Status
from repro_kit.graph.reading.graph_record import BackendRecord, GraphRecord, InputRecord, NameRecord
from repro_kit.probe.repro_probe.protocol import (
    failure_data,
    findings,
    graph_data,
    queries,
    recipe_data,
)
from repro_kit.probe.repro_probe.protocol.findings import WatchedData
from repro_kit.probe.repro_probe.protocol.recipe_data import CONFIG_MODULES
from repro_kit.recipe import Autocast, Recipe, assigned, module_of, qualified, short_name
from repro_kit.runner.read_findings import RecordedEvent, TorchProcess
from repro_kit.runner.supervised import PROBE
from repro_kit.subject.watched_recording import Watched

READ_BY = [
    (findings.Hello, TorchProcess),
    (failure_data.FrameData, Frame),
    (failure_data.LinkData, ExceptionLink),
    (failure_data.DifferenceData, Difference),
    (findings.CompiledCallData, CompiledCall),
    (findings.TimedCall, MeasuredCall),
    (graph_data.GraphEvent, RecordedEvent),
    (graph_data.GraphData, GraphRecord),
    (graph_data.InputData, InputRecord),
    (graph_data.NameData, NameRecord),
    (graph_data.BackendData, BackendRecord),
    (recipe_data.AutocastData, Autocast),
    (recipe_data.RecipeData, Recipe),
    (WatchedData, Watched),
]


@pytest.mark.parametrize(("written", "read"), READ_BY, ids=lambda cls: cls.__name__)
def test_every_field_that_is_read_is_one_that_the_probe_writes(written: Any, read: Any) -> None:
    assert {field.name for field in fields(read)} <= set(get_type_hints(written))


def test_a_recipe_is_at_the_defaults_of_the_protocol() -> None:
    plain = {field.name: getattr(Recipe(), field.name) for field in fields(Recipe)}
    assert plain | {"contexts": list(plain["contexts"])} == recipe_data.RECIPE_DEFAULTS
    assert set(recipe_data.RECIPE_DEFAULTS) == set(get_type_hints(recipe_data.RecipeData))


def test_phases_and_statuses_of_a_reply_are_those_of_the_model() -> None:
    assert set(get_args(queries.QueryPhase)) == set(map(str, Phase))
    assert set(get_args(queries.QueryStatus)) <= set(map(str, Status))


def test_settings_are_spelt_by_the_one_map_of_config_modules() -> None:
    for short, module in CONFIG_MODULES.items():
        assert module_of(f"{short}.cpp.simdlen") == module
        assert qualified(f"{short}.cpp.simdlen") == f"{module}.cpp.simdlen"
        assert assigned(f"{short}.cpp.simdlen", "x") == f"{module}.cpp.simdlen = 'x'"
        assert short_name(f"{module}.cpp.simdlen") == f"{short}.cpp.simdlen"
    assert short_name("torch.backends.cudnn.enabled") is None


def test_the_protocol_imports_the_standard_library_alone() -> None:
    code = (
        "import importlib, pathlib, sys\n"
        f"for path in pathlib.Path({str(PROBE / 'repro_probe' / 'protocol')!r}).glob('*.py'):\n"
        "    importlib.import_module(f'repro_probe.protocol.{path.stem}')\n"
        "print({name.partition('.')[0] for name in sys.modules} & {'torch', 'repro_kit', 'numpy'})\n"
    )
    python = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(PROBE)!r})\n{code}"]
    assert subprocess.run(python, capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.parametrize("path", sorted(PROBE.rglob("*.py")), ids=lambda path: str(path.relative_to(PROBE)))
def test_the_probe_is_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.torch
@pytest.mark.parametrize("module", ["entry.boot", "entry.watch", "server.zygote", "server.children", "calls.calls"])
def test_what_runs_before_the_users_torch_imports_none(module: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(PROBE)!r}); import repro_probe.{module}; print('torch' in sys.modules)"
    python = [sys.executable, "-I", "-c", code]
    assert subprocess.run(python, capture_output=True, text=True, check=True).stdout == "False\n"
