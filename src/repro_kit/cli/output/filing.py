"""``bundle --open``, ``--gh`` and ``--comment``: turn a finished bundle into an issue of PyTorch, or into a comment."""

from __future__ import annotations

import re
import shutil
import sys
import webbrowser
from typing import TYPE_CHECKING

from repro_kit.errors import Exit, UsageError
from repro_kit.options.commands import FilingOptions

if TYPE_CHECKING:
    from repro_kit.bundle.story.story import Story
    from repro_kit.commands.intake.open_case import Job
    from repro_kit.pipeline.run import StageEnding

_ISSUE = re.compile(r"#?(?P<number>\d+)|https://github\.com/pytorch/pytorch/issues/(?P<linked>\d+)(?:#.*)?")


class Filing(FilingOptions):
    """What the command does with the packed bundle."""

    def check(self) -> None:
        """Raise ReproKitError if `--gh` was given and `gh` is not installed, or if `--comment` names no issue."""
        if self.gh and shutil.which("gh") is None:
            raise UsageError("--gh needs GitHub's command `gh` (https://cli.github.com). Install it, or use --open.")
        if self.comment and not _ISSUE.fullmatch(self.comment):
            raise UsageError(f"--comment takes the number of an issue of PyTorch, or its link, not {self.comment!r}.")

    def __call__(self, job: Job, ending: StageEnding) -> StageEnding:
        """Show the link to a new issue, or file it. Nothing is sent before the user says yes."""
        made = ending.exit_code in (Exit.OK, Exit.UNVERIFIED) and not job.options.bundle.dry_run
        if not (made and (self.open or self.gh or self.comment)):
            return ending
        from repro_kit.bundle.story.issue_form import body_of, new_issue_link, refusal
        from repro_kit.commands.show import story_at
        from repro_kit.files import read_text

        packed = job.case.path / "bundle"  # the case's own story is not redacted
        story = story_at(packed)
        if not story.addressee.takes_pytorch:
            raise UsageError(refusal(story.evidence, packed / "issue.md"))
        if self.comment:
            self._comment(job, story, self.comment)
            return ending
        body = body_of(read_text(packed / "issue.md"))
        if self.open:
            _warn(job, story)
            _open(job, new_issue_link(story, body), "New issue")
        if self.gh:
            _create(job, story, body)
        return ending

    def _comment(self, job: Job, story: Story, issue: str) -> None:
        """Show the comment on an issue that exists; `--open` opens the issue, `--gh` sends the comment after a yes."""
        from repro_kit.bundle.pages.markdown import comment_with_code
        from repro_kit.bundle.story.issue_form import REPOSITORY

        match = _ISSUE.fullmatch(issue)
        assert match is not None  # `check` has looked
        link = f"https://github.com/{REPOSITORY}/issues/{match['number'] or match['linked']}"
        body = comment_with_code(story)
        job.ui.print(body)
        _warn(job, story)
        if self.open:
            _open(job, link, "The issue")
        if self.gh:
            _send(job, story, ["issue", "comment", link], body, f"Send this comment on {link}")
        else:
            job.ui.note(f"Nothing was sent: paste the text into {link}, or add --gh.")


def _open(job: Job, link: str, what: str) -> None:
    job.ui.note(f"{what}: {link}")
    if sys.stdout.isatty() and not webbrowser.open(link):
        job.ui.note("No browser could be opened. Open the link by hand.")


def _create(job: Job, story: Story, body: str) -> None:
    from repro_kit.bundle.story.issue_form import REPOSITORY, labels_of
    from repro_kit.bundle.story.title import title_of

    title = title_of(story)
    job.ui.print(f"\n{title}\n\n{body}")
    _warn(job, story)
    words = ["issue", "create", "--repo", REPOSITORY, "--title", title]
    if _send(job, story, words, body, f"File this issue in {REPOSITORY}"):
        job.ui.note(f"Labels that fit: {', '.join(labels_of(story))}.")


def _send(job: Job, story: Story, words: list[str], body: str, question: str) -> str:
    """Send the text with `gh` after a yes; the link to it, "" if nothing was sent."""
    from repro_kit.bundle.story.issue_form import UNANSWERED
    from repro_kit.session.github import send

    ui, others = job.ui, bool(story.caution)
    if not ui.confirm(f"{question}, for everybody to read?", insist=others):
        ui.note(f"Nothing was filed; {UNANSWERED if others else '--yes files without asking'}.")
        return ""
    link = send(words, body, remedy="use --open")
    ui.note(f"Filed: {link}")
    return link or "filed"


def _warn(job: Job, story: Story) -> None:
    """Print what speaks against an issue of PyTorch."""
    if story.caution:
        job.ui.warn(story.caution)
    if not story.verified:
        job.ui.warn(f"The bundle is NOT VERIFIED: {story.reason}.")
