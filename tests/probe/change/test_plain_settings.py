"""Settings of an older torch, whose config modules keep plain values (torch/utils/_config_module.py of torch 2.5)."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from repro_kit.runner.supervised import PROBE

sys.path.insert(0, str(PROBE))
from repro_probe.change import override
from repro_probe.common import torch_environment
from repro_probe.protocol.orders import ProbeOptions
from repro_probe.protocol.recipe_data import CONFIG_MODULES


class PlainConfig(ModuleType):
    """Holds values in `_config` and their defaults in `_default`, as the module class of torch 2.5 does."""

    def __init__(self, name: str, **values: Any) -> None:
        super().__init__(name)
        self.__dict__.update(_config=dict(values), _default=dict(values))

    def __setattr__(self, name: str, value: object) -> None:
        self._config[name] = value

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_config"][name]
        except KeyError:
            raise AttributeError(name) from None


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> PlainConfig:
    module = PlainConfig(CONFIG_MODULES["inductor"], simdlen=None, max_autotune=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in CONFIG_MODULES.values():
        if name != module.__name__:
            monkeypatch.delitem(sys.modules, name, raising=False)
    return module


class Findings:
    """A directory of findings with these options, which nothing is written to."""

    def __init__(self, options: ProbeOptions) -> None:
        self.options = options


def test_changed_values_are_the_users_settings(config: PlainConfig) -> None:
    config.simdlen = 8
    assert torch_environment.non_default_config() == {"inductor.simdlen": 8}


def test_a_script_cannot_change_an_overridden_setting(config: PlainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(override, "when_imported", lambda name, then: name == config.__name__ and then(config))
    config.max_autotune = True
    options: ProbeOptions = {"config": {"inductor.simdlen": 1}, "defaults": ["inductor.max_autotune"]}
    override.install(Findings(options), print, print)  # type: ignore[arg-type]
    config.simdlen = 8
    vars(config)["_config"].update(max_autotune=True)  # as its `patch` does
    assert (config.simdlen, config.max_autotune) == (1, False)
