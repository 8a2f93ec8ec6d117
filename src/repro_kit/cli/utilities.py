"""The commands that work on no case: env, demo, completion, mcp."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from click.shell_completion import get_completion_class
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from repro_kit.cli.common.base_command import command, echo
from repro_kit.cli.common.values import make_ui, merged
from repro_kit.errors import StageError, UsageError
from repro_kit.files import read_plain

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
    from repro_kit.bundle.privacy.vocabulary import shareable
    from repro_kit.serialize import to_data
    from repro_kit.subject.subject_check import check_interpreter
    from repro_kit.subject.users_environment import environment

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


#: The scripts, and the releases of torch that each fails with (examples/expected.toml).
SCRIPTS = {"dynamic_shape_error.py": "<2.14", "inductor_accuracy.py": ">=2.0"}
_LARGEST = 1 << 16  # bytes
_PACKAGE = Path(__file__).resolve().parent.parent


def fitting(torch: str) -> str:
    """The name of the first script that fails with this version of torch."""
    try:
        version = Version(torch)
    except InvalidVersion:  # a build of the user's own
        return next(reversed(SCRIPTS))
    return next(
        name for name, fails_on in SCRIPTS.items() if SpecifierSet(fails_on).contains(version, prereleases=True)
    )


def write_demo(name: str, directory: Path) -> Path:
    """Write the script `name` to `directory`; one that is there stays. Raises ReproKitError for another file there."""
    path, text = directory / name, _source(name).read_bytes()
    try:
        with path.open("xb") as file:
            file.write(text)
    except FileExistsError:
        if read_plain(path, _LARGEST) != text:
            raise UsageError(f"{name} is another file here; remove it, or go to another directory.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; go to another directory.") from error
    return path


def _source(name: str) -> Path:
    """The file of a script: inside the package in a wheel, among the examples in a source checkout."""
    for directory in (_PACKAGE / "examples", _PACKAGE.parent.parent / "examples"):
        if (directory / name).is_file():
            return directory / name
    raise StageError("This installation of repro-kit lacks its examples; install it again.")


@command("demo")
def demo(ctx: click.Context, /, run: bool, **_: object) -> None:
    r"""Write a script that fails with this torch to the current directory, and say how to collect its failure.

    It is the script of the tutorial, or, with torch 2.14 and newer, another one. No file is overwritten.

    \b
    repro-kit demo
    repro-kit demo --run
    """
    from repro_kit.builds.interpreters import find_python
    from repro_kit.subject.subject_check import check_interpreter

    values = merged(ctx)
    ui = make_ui(values)
    python = find_python(values["python"], Path.cwd(), os.environ)
    torch = check_interpreter(python, Path.cwd(), os.environ)
    script = write_demo(fitting(torch), Path.cwd())
    words = ["collect", *(["--python", values["python"]] if values["python"] else []), script.name]
    if run:
        flags = [f"--{name}" for name in ("json", "quiet", "verbose") if values[name]]
        collect = cast(click.Group, ctx.find_root().command).get_command(ctx, words[0])
        assert collect is not None
        ctx.exit(collect.main([*flags, *words[1:]], prog_name="repro-kit collect", standalone_mode=False))
    ui.print(f"{script.name} fails with torch {torch}. To collect its failure: {shlex.join(['repro-kit', *words])}")
    ui.result({"script": str(script), "command": ["repro-kit", *words]})


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(ctx: click.Context, shell: str) -> None:
    r"""Print the completion script of a shell.

    \b
    eval "$(repro-kit completion bash)"        in ~/.bashrc; zsh likewise
    repro-kit completion fish | source         in config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}.", ctx)
    echo(kind(ctx.find_root().command, {}, "repro-kit", "_REPRO_KIT_COMPLETE").source())


@command("mcp")
def mcp(_: click.Context) -> None:
    r"""Serve collect, explain, verify, bisect, show and farm_status as tools, on stdin and stdout.

    Paths are relative to the current directory. Nothing runs code without consent: the client asks its user, or calls
    again with the consent that the first answer names.

    \b
    repro-kit mcp
    """
    try:
        from repro_kit.commands.mcp.server import serve
    except ImportError as error:
        raise UsageError(f"mcp needs more: pip install 'repro-kit[mcp]' ({error}).") from error
    serve()
