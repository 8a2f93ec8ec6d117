"""The environment of the user's command: `env.json`, leftovers of earlier debugging, and log files."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from repro_kit.bundle.privacy.vocabulary import allowed_variables
from repro_kit.case.stage_results import Environment, GitState
from repro_kit.errors import ReproKitError, UsageError
from repro_kit.probe.repro_probe.protocol.orders import EnvironmentData
from repro_kit.runner.ask import Probe, Question
from repro_kit.runner.compiler import users_cache
from repro_kit.runner.places import breaks_commands
from repro_kit.runner.subject_start import NOT_COPIED
from repro_kit.runner.supervised import PROBE
from repro_kit.ui import Ui


def size_of_cache(cache: Path) -> int:
    """The size of what a copy of a cache takes, in bytes; 0 where there is none. Files may go away meanwhile."""
    size = 0
    for file in cache.rglob("*"):
        if not set(file.relative_to(cache).parts).isdisjoint(NOT_COPIED):
            continue
        with suppress(OSError):
            status = file.stat()
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size


def warnings_of_leftovers(env: Mapping[str, str] = os.environ) -> list[str]:
    """A sentence for each leftover of torch's CompilerBisector (torch/_inductor/compiler_bisector.py), and one for a
    cache directory whose path makes C++ compilations fail.
    """
    sentences = []
    cache = users_cache(env)
    if breaks_commands(cache):
        sentences.append(
            f"Inductor's cache is in {str(cache)!r}, and Inductor does not quote that path for the C++ compiler: "
            "compilations fail without repro-kit too. Set TORCHINDUCTOR_CACHE_DIR and TMPDIR to paths without blanks "
            "and quotes."
        )
    status = cache / "bisect" / "bisect_status.txt"
    try:
        lines = status.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    backend = next((line.removeprefix("backend=").strip() for line in lines if line.startswith("backend=")), "")
    if backend:
        sentences.append(
            f"{status} is left from a run of torch's CompilerBisector: outside repro-kit, every torch.compile "
            f"uses backend {backend!r} until you remove the directory {status.parent}."
        )
    for name in ("TORCH_BISECT_BACKEND", "TORCH_BISECT_SUBSYSTEM"):
        if env.get(name):
            sentences.append(f"{name}={env[name]} is set and changes what is compiled in every run; unset it.")
    return sentences


_LOGS = "TORCH_LOGS_OUT"
_TRACES = ("TORCH_TRACE", "TORCH_DTRACE")


def check_users_logs(env: Mapping[str, str] = os.environ) -> None:
    """Raise ReproKitError for a path that cannot be written, so that a long run does not fail in the end."""
    if env.get(_LOGS):
        file = Path(env[_LOGS])
        if not file.parent.is_dir():
            raise _refused(_LOGS, file, f"there is no directory {file.parent}", "create it")
        if file.is_dir():
            raise _refused(_LOGS, file, "it is a directory", "name a file")
        _must_be_writable(_LOGS, file, file if file.exists() else file.parent)
    name, directory = _trace(env)
    if directory is not None:  # torch creates the directory and its parents
        existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
        if not existing.is_dir():
            raise _refused(name, directory, f"{existing} is not a directory", "name a directory")
        _must_be_writable(name, directory, existing)


def _must_be_writable(name: str, value: Path, existing: Path) -> None:
    if not os.access(existing, os.W_OK):
        raise _refused(name, value, f"{existing} cannot be written", "name another path")


def _refused(name: str, value: Path, why: str, what_to_do: str) -> ReproKitError:
    return UsageError(f"{name} is {value}, and {why}; {what_to_do}, or unset {name}.")


def _trace(env: Mapping[str, str]) -> tuple[str, Path | None]:
    name = next((name for name in _TRACES if env.get(name)), "")
    return name, Path(env[name]) if name else None


def give_back_users_logs(run_directory: Path, ui: Ui, env: Mapping[str, str] = os.environ) -> None:
    """Append the logs and copy the trace of the run in `run_directory` to the paths in the user's variables.

    Existing files keep their content. A warning names what cannot be written, which stays in `run_directory`.
    """
    logs = run_directory / "logs" / "torch.txt"
    if env.get(_LOGS) and logs.exists():
        try:
            _append(logs, Path(env[_LOGS]))
        except OSError as error:
            ui.warn(f"The logs cannot be added to {env[_LOGS]} ({_LOGS}): {error.strerror}; the logs are in {logs}.")
    name, directory = _trace(env)
    if directory is not None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for log in sorted(path for path in (run_directory / "trace").iterdir() if path.is_file()):
                _copy_beside(log, directory)
        except OSError as error:
            ui.warn(
                f"The trace cannot be copied to {directory} ({name}): {error.strerror}; "
                f"the trace is in {run_directory / 'trace'}."
            )


def _append(source: Path, target: Path) -> None:
    flags = (
        os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
    )  # without O_NONBLOCK, opening a pipe without a reader waits
    with source.open("rb") as text, os.fdopen(os.open(target, flags, 0o666), "ab") as file:
        shutil.copyfileobj(text, file)


def _copy_beside(source: Path, directory: Path) -> None:
    """Copy a file into `directory`, under a name that is free."""
    count = 1
    target = directory / source.name
    while True:
        try:
            with source.open("rb") as text, target.open("xb") as file:
                try:
                    shutil.copyfileobj(text, file)
                    return
                except OSError:
                    with suppress(OSError):
                        target.unlink()
                    raise
        except FileExistsError:
            count += 1
            target = directory / f"{source.stem}_{count}{source.suffix}"


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
