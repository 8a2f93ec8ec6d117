"""`env.json`: the environment in which the failure happened, limited to a chosen list of facts."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from repro_kit.case.stage_results import Environment, GitState
from repro_kit.errors import UsageError
from repro_kit.model.variables import allowed_variables
from repro_kit.probe.repro_probe.protocol.programs import EnvironmentData
from repro_kit.runner.ask import Probe, Question
from repro_kit.runner.launch import PROBE

_QUESTION = Question(
    seconds=300,  # as long as importing torch may take on a busy machine
    module="repro_probe.common.torch_environment",
    failing="could not describe its environment",
)


def environment(python: str, cwd: Path | None = None) -> Environment:
    """The environment of interpreter `python`, read in a process of its own.

    Raises ReproKitError when the interpreter cannot be run or has no torch.
    """
    # In the probe's directory, no file of the user's hides a module of the standard library.
    data = Probe(python, PROBE).ask(_QUESTION, EnvironmentData)
    torch = data.get("torch")
    if torch is None:
        raise UsageError(
            f"{python} cannot import torch ({data.get('error', 'not installed')}); "
            "name another interpreter with --python."
        )
    return Environment(
        python=data["python"],
        executable=data["executable"],
        platform=data["platform"],
        torch=torch,
        torch_git=data.get("torch_git"),
        collect_env=data.get("collect_env", ""),
        variables=allowed_variables(os.environ),
        packages=data.get("packages", {}),
        threads=data.get("threads"),
        accelerator=data.get("accelerator"),
        git=git_state(cwd or Path.cwd()),
    )


def begin_environment(python: str, cwd: Path) -> Future[Environment]:
    """Begin to read the environment, beside other work. The result raises as `environment` does."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(environment, python, cwd)
    finally:
        pool.shutdown(wait=False)


def git_state(directory: Path) -> GitState | None:
    """The state of the repository that holds `directory`; None outside a repository, or if git is missing."""
    try:
        import git
    except ImportError:  # GitPython raises this when there is no git command
        return None
    try:
        repo = git.Repo(directory, search_parent_directories=True, expand_vars=False)
        commit = repo.head.commit.hexsha if repo.head.is_valid() else None
        branch = None if repo.head.is_detached else repo.active_branch.name
        dirty = tuple(line[3:] for line in repo.git.status("--porcelain").splitlines())
        remotes = tuple(_without_credentials(url) for remote in repo.remotes for url in remote.urls)
        return GitState(str(repo.working_dir), commit, branch, dirty, remotes)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.GitCommandError, ValueError, OSError):
        return None


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rsplit("@", 1)[1]))
