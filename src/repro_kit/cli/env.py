"""``repro-kit env``: the environment that failures are reported with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repro_kit.cli.common.base_command import command
from repro_kit.cli.common.values import make_ui, merged

if TYPE_CHECKING:
    from repro_kit.case.stage_results import Environment
    from repro_kit.ui import Ui


@command("env")
def env(ctx: click.Context, /, **_: object) -> None:
    r"""Print the environment of the interpreter that has torch, as a bundle shows it: versions, packages, settings.

    Only variables and packages on built-in allow-lists are shown, and nothing about the repository.

    \b
    repro-kit env --python .venv/bin/python
    """
    from repro_kit.builds.interpreters import find_python
    from repro_kit.bundle.privacy.shareable import shareable
    from repro_kit.model.serialize import to_data
    from repro_kit.session.script.interpreter_environment import environment
    from repro_kit.session.script.subject_check import check_interpreter

    values = merged(ctx)
    ui = make_ui(values)
    python = find_python(values["python"], Path.cwd(), os.environ)
    check_interpreter(python, Path.cwd(), os.environ)
    shown = shareable(environment(python))
    if ui.json:
        ui.result(to_data(shown))
    else:
        _print(ui, shown)


def _print(ui: Ui, env: Environment) -> None:
    facts = [
        ("python", f"{env.python} ({env.executable})"),
        ("platform", env.platform),
        ("torch", f"{env.torch} (git {env.torch_git})" if env.torch_git else str(env.torch)),
        ("threads", str(env.threads) if env.threads else "unknown"),
        ("accelerator", env.accelerator or "none"),
    ]
    facts += [("config", f"{name} = {value!r}") for name, value in env.config.items()]
    facts += [("variable", f"{name}={value}") for name, value in env.variables.items()]
    facts += [("package", f"{name} {version}") for name, version in env.packages.items()]
    width = max(len(label) for label, _ in facts)
    ui.print("\n".join(f"{label:<{width}}  {text}" for label, text in facts))
    if env.collect_env:
        ui.print(f"\n{env.collect_env.rstrip()}")
