"""Only the user chooses what runs and what is shown: no file in a strange place does, and no left-over variable."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from promises import Row
from repro_kit.cli.common.config_defaults import read_defaults
from repro_kit.errors import ReproKitError
from repro_kit.options.commands import every_option
from repro_kit.options.declare import Source
from repro_kit.runner.subject_start import probe_environment
from repro_kit.runner.supervised import PROBE
from repro_kit.runner.write_orders import in_force
from samples import strangers

#: Variables that are tried beside the changes of orders: how many.
_COUNTS = {"small": 10, "full": 200}
_VALUES = {str: ("'yes'", "'redacted'", "'x:y'", "'/tmp/x'"), bool: ("true",), float: ("9",), int: ("9",)}


def measure(size: str, scratch: Path) -> list[Row]:
    """A row each for strange files, for keys that are not a project's, and for the probe's variables."""
    with mock.patch.dict(os.environ, {"XDG_CONFIG_HOME": str(scratch / "config")}):
        return [
            _row("a pyproject.toml that is not the user's own project's sets nothing", _strange_files(scratch)),
            _row("a project's file cannot choose what runs or is shown", _refused_keys(scratch)),
            _row("variables that this run's launcher did not set start no probe", _variables(scratch, _COUNTS[size])),
            _row("REPRO_KIT switched off imports nothing", _switched_off()),
        ]


def _row(promise: str, attempts: Iterator[tuple[str, bool]]) -> Row:
    all_attempts = list(attempts)
    broken = tuple(attempt for attempt, held in all_attempts if not held)
    return Row(promise, len(all_attempts), len(all_attempts) - len(broken), broken=broken)


def _repository(scratch: Path, text: str) -> Path:
    """A directory within a new repository whose pyproject.toml has `text`."""
    directory = scratch / "repository"
    if directory.exists():
        shutil.rmtree(directory)
    deep = directory / "a" / "b"
    deep.mkdir(parents=True)
    (directory / ".git").mkdir()
    (directory / "pyproject.toml").write_text(f"[tool.repro-kit]\n{text}\n")
    for at in (directory, deep.parent, deep):
        at.chmod(0o755)
    return deep


def _strange_files(scratch: Path) -> Iterator[tuple[str, bool]]:
    for change in strangers.files():
        for text in ("timeout = 5", "python = '/tmp/x'", "trace = 'yes'", "include-values = true", "nonsense = ["):
            deep = _repository(scratch, text)
            change(deep.parents[1], deep)
            try:
                defaults = read_defaults(deep)
                yield f"{change.__name__}: {text}", not defaults.values and len(defaults.notes) == 1
            except ReproKitError as error:
                yield f"{change.__name__}: {text}: {error}", False


def _refused_keys(scratch: Path) -> Iterator[tuple[str, bool]]:
    for name, option in every_option().items():
        if option.rule.source is Source.PROJECT:
            continue
        for value in _VALUES.get(option.kind, _VALUES[str]):
            deep = _repository(scratch, f"{name} = {value}")
            try:
                yield f"{name} = {value}: {read_defaults(deep).values}", False
            except ReproKitError as error:
                yield f"{name} = {value}: {error}", "may not set" in str(error)


def _variables(scratch: Path, count: int) -> Iterator[tuple[str, bool]]:
    marker = scratch / "ran"
    options = {"setup": f"open({str(marker)!r}, 'w')"}
    for change in strangers.orders():
        env = probe_environment(os.environ, "override", scratch / change.__name__, 60, options)
        path = Path(env["REPRO_PROBE_ORDERS"])
        with in_force(env):
            yield change.__name__, _is_off({**env, **change(env, path)}, marker)
    left_over = probe_environment(os.environ, "override", scratch / "left", 60, options)
    with in_force(left_over):
        own = _is_off(left_over, marker)
    yield "orders of this run are followed", not own
    yield "orders of a run that has ended", _is_off(left_over, marker)
    chance = random.Random(1)
    names = ["MODE", "DIR", "OPTIONS", "ORDERS", "TOKEN", "SETUP"]
    values = [
        "override",
        str(scratch),
        '{"setup": "raise SystemExit(9)"}',
        "0" * 64,
        "/etc/passwd",
        "/dev/zero",
        "\udcff",
    ]
    for _ in range(count):
        env = {f"REPRO_PROBE_{name}": chance.choice(values) for name in chance.sample(names, chance.randrange(2, 6))}
        yield f"{env}", _is_off({**os.environ, **env, "PYTHONPATH": str(PROBE)}, marker)


def _is_off(env: Mapping[str, str], marker: Path) -> bool:
    done = subprocess.run([sys.executable, "-c", strangers.SAYS], env=env, capture_output=True, text=True, check=False)
    return (done.stdout, done.stderr, marker.exists()) == ("False\n", "", False)


def _switched_off() -> Iterator[tuple[str, bool]]:
    text = (Path(__file__).resolve().parents[3] / "src" / "repro_kit.pth").read_text()
    code = f"import sys; exec({text!r}); print([name for name in sys.modules if name.startswith('repro_')])"
    for value in ("", "0", "false", "off", "no", "OFF", "False", " 0 "):
        env = {**os.environ, "REPRO_KIT": value}
        done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=False)
        yield repr(value), (done.stdout, done.stderr) == ("[]\n", "")
