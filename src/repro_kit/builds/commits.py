"""Commits of a local clone: as builds, each in a separate work tree, and as what changed between two builds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import git

from repro_kit.builds.build_source import BuildCommand, BuildSource, Ready, Target, UnusableError
from repro_kit.builds.install import ExtraPackages, Uv, activated
from repro_kit.builds.interpreters import github_url
from repro_kit.errors import UsageError
from repro_kit.regressions.build import Build
from repro_kit.regressions.ranking import Between, Commit
from repro_kit.runner import supervised
from repro_kit.runner.supervised import exit_name, launch

MOST_COMMITS = 20_000  # of one search
_CHECKOUT = 3600.0  # seconds


class CommitSource(BuildSource):
    """The commits of `clone` from `old` to `new` along first parents, oldest first.

    `cwd` is the user's working directory. Work trees and environments are made below `directory`.
    """

    def __init__(
        self,
        clone: Path,
        old: str | None,
        new: str,
        *,
        cwd: Path,
        target: Target,
        uv: Uv,
        wants: ExtraPackages,
        directory: Path,
        command: BuildCommand,
        paths: Sequence[str] = (),
        keep: bool = False,
    ) -> None:
        self._repo = opened(clone)
        self.description = f"commits of {clone}" + (f" to {', '.join(paths)}" if paths else "")
        self._cwd = cwd
        self._target = target
        self._uv = uv
        self._wants = wants
        self._directory = directory
        self._command = command
        self._keep = keep
        self._builds = _listed(self._repo, old, new, paths=paths)

    def builds(self) -> Sequence[Build]:
        """The commits, older end first."""
        return self._builds

    @contextmanager
    def ready(self, build: Build) -> Iterator[Ready]:
        """Check `build` out beside the clone, and run the build command there. Raises UnusableError when this fails."""
        directory = self._directory / build.name
        tree, environment = directory / "tree", directory / "env"
        self._discard(tree)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._worktree("add", "--detach", "--force", str(tree), str(build.commit))
            yield self._prepare(build, tree, environment)
        finally:
            if not self._keep:
                self._discard(tree)
                shutil.rmtree(directory, ignore_errors=True)

    def _prepare(self, build: Build, tree: Path, environment: Path) -> Ready:
        python, variables = self._target.python, {}
        if self._command.command or self._wants.packages:
            python = self._uv.make(environment, self._target)
            variables = {**activated(environment, os.environ), "PYTHON": python}
            if self._wants.packages:
                self._uv.install(python, None, self._wants, environment)
        if self._command.command:
            self._build(tree, variables)
        root = Path(str(self._repo.working_tree_dir)).resolve()
        inside = self._cwd.resolve().is_relative_to(root)
        cwd = tree / self._cwd.resolve().relative_to(root) if inside else tree
        return Ready(
            python,
            variables,
            cwd if cwd.is_dir() else tree,
            commit=build.commit,
            repository=next(
                filter(None, (github_url(url) for remote in self._repo.remotes for url in remote.urls)), None
            ),
        )

    def _build(self, tree: Path, variables: dict[str, str]) -> None:
        out = tree.parent / "build.txt"
        run = launch(
            ["/bin/sh", "-c", self._command.command or ""],
            cwd=tree,
            env={**os.environ, **variables},
            timeout=self._command.timeout,
            stdout=out,
            stderr=tree.parent / "build-errors.txt",
        )
        if not run.ok:
            text = "".join(path.read_text(errors="replace")[-4000:] for path in (out, tree.parent / "build-errors.txt"))
            raise UnusableError(f"the build command ends with {exit_name(run)}: {_last(text)}")

    def _discard(self, tree: Path) -> None:
        with suppress(UnusableError):
            self._worktree("remove", "--force", str(tree))
        shutil.rmtree(tree, ignore_errors=True)
        with suppress(UnusableError):
            self._worktree("prune")

    def _worktree(self, *words: str) -> None:
        """Run `git worktree`, which may run the clone's hooks. Raises UnusableError when it fails."""
        try:
            done = supervised.run(["git", "-C", str(self._repo.working_dir), "worktree", *words], timeout=_CHECKOUT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnusableError(f"it cannot be checked out: {error}") from error
        if done.returncode:
            raise UnusableError(f"it cannot be checked out: {_last(done.stderr)}")


def opened(clone: Path) -> git.Repo:
    """The repository at `clone`. Raises UsageError when there is none."""
    try:
        return git.Repo(clone, search_parent_directories=True, expand_vars=False)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError) as error:
        raise UsageError(f"{clone} is not a clone of a git repository.") from error


def commit_in(repo: git.Repo, word: str) -> git.Commit:
    """The commit that `word` names. Raises UsageError when there is none."""
    try:
        return repo.commit(word)
    except (git.BadName, git.GitCommandError, ValueError, IndexError) as error:
        raise UsageError(f"{word} is not a commit of {repo.working_dir}; fetch it, or give another.") from error


def build_of(commit: git.Commit) -> Build:
    """The build for `commit`."""
    day = datetime.fromtimestamp(commit.committed_date, UTC).date().isoformat()
    return Build(commit.hexsha[:12], date=day, commit=commit.hexsha, title=str(commit.summary))


def _listed(repo: git.Repo, old: str | None, new: str, *, paths: Sequence[str]) -> list[Build]:
    end = commit_in(repo, new)
    start = commit_in(repo, old) if old else None
    if start is not None and not repo.is_ancestor(start, end):
        turned = " (the ends are the other way round: use --find-fix?)" if repo.is_ancestor(end, start) else ""
        raise UsageError(f"{old} is not an ancestor of {new} in {repo.working_dir}{turned}.")
    revisions = f"{start.hexsha}..{end.hexsha}" if start else end.hexsha
    shas = repo.git.rev_list("--first-parent", f"--max-count={MOST_COMMITS + 1}", revisions, "--", *paths).split()
    if start is not None and len(shas) > MOST_COMMITS:
        raise UsageError(
            f"There are more than {MOST_COMMITS:,} commits from {old} to {new}; give a nearer end, or --path."
        )
    commits = [repo.commit(sha) for sha in reversed(shas)]
    if start is not None:
        commits.insert(0, start)
    if not commits or commits[-1] != end:
        commits.append(end)  # a filter by path may leave it out
    return [build_of(commit) for commit in commits]


def merged_branch(clone: Path, sha: str) -> tuple[str, str] | None:
    """The first and last commit of the branch that merge `sha` merged; None when it is not a merge of two parents."""
    commit = commit_in(opened(clone), sha)
    if len(commit.parents) != 2:
        return None
    base = commit.repo.merge_base(*commit.parents)
    return (base[0].hexsha, commit.parents[1].hexsha) if base else None


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "there was no message"


#: Titles on the branch that nightlies are built from; the commit in brackets is the one on the main branch.
_NIGHTLY = re.compile(r"^\d{4}-\d{2}-\d{2} nightly release \((?P<sha>[0-9a-f]{7,40})\)")
_MOST = 20_000


def between(clone: Path, old: str, new: str) -> Between:
    """The commits between two builds, from the commits that the builds say they were made from."""
    repo = opened(clone)
    old_main, new_main = _on_main(repo, old), _on_main(repo, new)
    for sha in (old_main, new_main):
        if not _has(repo, sha):
            return Between(old_main, new_main, problem=f"{clone} has no commit {sha[:12]}; fetch it and run again")
    text = repo.git.log(
        "--reverse", f"--max-count={_MOST}", "--format=%x00%H%x01%s", "--name-only", f"{old_main}..{new_main}"
    )
    return Between(old_main, new_main, tuple(_commits(text)))


def on_main(title: str, sha: str) -> str:
    """The commit on the main branch that a nightly's commit (by its title) was made from; else `sha` itself."""
    nightly = _NIGHTLY.match(title)
    return nightly["sha"] if nightly else sha


def repository_of(clone: Path) -> str | None:
    """The clone's repository on GitHub; None when it has none."""
    urls = [github_url(url) for remote in opened(clone).remotes for url in remote.urls]
    return next(filter(None, urls), None)


def _on_main(repo: git.Repo, sha: str) -> str:
    if not _has(repo, sha):
        return sha
    commit = repo.commit(sha)
    return on_main(str(commit.summary), commit.hexsha)


def _has(repo: git.Repo, sha: str) -> bool:
    try:
        repo.commit(sha)
    except (git.BadName, git.GitCommandError, ValueError, IndexError):
        return False
    return True


def _commits(text: str) -> Iterator[Commit]:
    for entry in text.split("\0")[1:]:
        head, _, rest = entry.partition("\n")
        sha, _, title = head.partition("\1")
        yield Commit(sha, title, tuple(line for line in rest.splitlines() if line))
