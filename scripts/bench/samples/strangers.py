"""Files that strangers may leave behind: settings that must not count, and orders to the probe from another run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

_NOBODY = 65534

#: A program that says whether the probe follows. It starts when a program imports torch, which fails here.
SAYS = """
import os, sys, tempfile
with tempfile.TemporaryDirectory() as place:
    open(os.path.join(place, "torch.py"), "w").write("raise ImportError")
    sys.path.insert(0, place)
    try:
        import torch
    except ImportError:
        pass
print('repro_probe.entry.boot' in sys.modules, flush=True)
"""


# -- a repository with a pyproject.toml, and `deep`, a/b within it: each function makes the file one not to trust ----


def above_the_repository(repository: Path, deep: Path) -> None:
    (repository / ".git").rename(deep / ".git")


def no_repository(repository: Path, deep: Path) -> None:
    (repository / ".git").rmdir()


def a_repository_of_another(repository: Path, deep: Path) -> None:
    os.chown(repository / ".git", _NOBODY, _NOBODY)


def file_of_another(repository: Path, deep: Path) -> None:
    os.chown(repository / "pyproject.toml", _NOBODY, _NOBODY)


def directory_of_another(repository: Path, deep: Path) -> None:
    os.chown(deep.parent, _NOBODY, _NOBODY)


def file_that_others_write(repository: Path, deep: Path) -> None:
    (repository / "pyproject.toml").chmod(0o666)


def directory_that_others_write(repository: Path, deep: Path) -> None:
    repository.chmod(0o777)


def sticky_directory(repository: Path, deep: Path) -> None:
    repository.chmod(0o1777)


def directory_that_the_group_writes(repository: Path, deep: Path) -> None:
    repository.chmod(0o775)


def directory_between_that_others_write(repository: Path, deep: Path) -> None:
    deep.parent.chmod(0o777)


def a_link(repository: Path, deep: Path) -> None:
    (repository / "pyproject.toml").rename(repository / "real.toml")
    (repository / "pyproject.toml").symlink_to("real.toml")


def a_link_to_nothing(repository: Path, deep: Path) -> None:
    (repository / "pyproject.toml").unlink()
    (repository / "pyproject.toml").symlink_to("nowhere")


def too_large(repository: Path, deep: Path) -> None:
    with (repository / "pyproject.toml").open("a") as file:
        file.write("#" * (1 << 20))


def files() -> list[Callable[[Path, Path], None]]:
    """The ways for a file of settings not to count; only root can give things to another user."""
    own = [
        *(above_the_repository, no_repository, file_that_others_write, directory_that_others_write, sticky_directory),
        *(directory_that_the_group_writes, directory_between_that_others_write, a_link, a_link_to_nothing, too_large),
    ]
    return own + ([a_repository_of_another, file_of_another, directory_of_another] if os.geteuid() == 0 else [])


# -- an environment with orders of this very run, in the file at `path`: what makes them somebody else's ------------


def other_token(env: Mapping[str, str], path: Path) -> dict[str, str]:
    return {"REPRO_PROBE_TOKEN": "0" * 64}


def no_token(env: Mapping[str, str], path: Path) -> dict[str, str]:
    return {"REPRO_PROBE_TOKEN": ""}


def readable_by_others(env: Mapping[str, str], path: Path) -> dict[str, str]:
    path.chmod(0o644)
    return {}


def a_link_to_it(env: Mapping[str, str], path: Path) -> dict[str, str]:
    link = path.with_name("link")
    link.symlink_to(path)
    return {"REPRO_PROBE_ORDERS": str(link)}


def a_copy(env: Mapping[str, str], path: Path) -> dict[str, str]:
    copy = path.with_name("copy.json")
    copy.touch(0o600)
    copy.write_bytes(path.read_bytes())
    return {"REPRO_PROBE_ORDERS": str(copy)}


def a_relative_path(env: Mapping[str, str], path: Path) -> dict[str, str]:
    return {"REPRO_PROBE_ORDERS": os.path.relpath(path)}


def a_fifo(env: Mapping[str, str], path: Path) -> dict[str, str]:
    os.mkfifo(path.with_name("fifo"), 0o600)
    return {"REPRO_PROBE_ORDERS": str(path.with_name("fifo"))}


def a_directory(env: Mapping[str, str], path: Path) -> dict[str, str]:
    return {"REPRO_PROBE_ORDERS": str(path.parent)}


def not_json(env: Mapping[str, str], path: Path) -> dict[str, str]:
    path.write_text("{" * 100_000)
    return {}


def another_shape(env: Mapping[str, str], path: Path) -> dict[str, str]:
    path.write_text(json.dumps({"token": env["REPRO_PROBE_TOKEN"], "mode": 1}))
    return {}


def of_another_user(env: Mapping[str, str], path: Path) -> dict[str, str]:
    os.chown(path, _NOBODY, _NOBODY)
    return {}


def orders() -> list[Callable[[Mapping[str, str], Path], dict[str, str]]]:
    """The ways for orders not to count; each returns the variables that change."""
    own = [
        *(other_token, no_token, readable_by_others, a_link_to_it, a_copy, a_relative_path),
        *(a_fifo, a_directory, not_json, another_shape),
    ]
    return own + ([of_another_user] if os.geteuid() == 0 else [])
