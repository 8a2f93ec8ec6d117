"""The commits between two builds, from a local clone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import git

from repro_kit.bisect.ranking import Between, Commit
from repro_kit.builds.git.commits import opened
from repro_kit.builds.installed import github_url

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
