"""``bundle --open`` and ``bundle --gh``: turn a finished bundle into an issue of PyTorch."""

from __future__ import annotations

import shutil
import sys
import webbrowser
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repro_kit.errors import Exit, UsageError

if TYPE_CHECKING:
    from repro_kit.bundle.story.story import Story
    from repro_kit.cli.common.work import Job
    from repro_kit.pipeline.run import StageEnding


@dataclass(frozen=True)
class Filing:
    """What the command does with the packed bundle."""

    open: bool = False
    gh: bool = False

    def check(self) -> None:
        """Raise ReproKitError if `--gh` was given and `gh` is not installed."""
        if self.gh and shutil.which("gh") is None:
            raise UsageError("--gh needs GitHub's command `gh` (https://cli.github.com). Install it, or use --open.")

    def __call__(self, job: Job, ending: StageEnding) -> StageEnding:
        """Show the link to a new issue, or file it. Nothing is sent before the user says yes."""
        made = ending.exit_code in (Exit.OK, Exit.UNVERIFIED) and not job.options.bundle.dry_run
        if not (made and (self.open or self.gh)):
            return ending
        from repro_kit.bundle.story.issue_form import body_of, new_issue_link, refusal
        from repro_kit.commands.show import story_at
        from repro_kit.files import read_text

        packed = job.case.path / "bundle"  # the case's own story is not redacted
        story = story_at(packed)
        body = body_of(read_text(packed / "issue.md"))
        if not story.addressee.takes_pytorch:
            raise UsageError(refusal(story.evidence, packed / "issue.md"))
        if self.open:
            _warn(job, story)
            link = new_issue_link(story, body)
            job.ui.note(f"New issue: {link}")
            if sys.stdout.isatty() and not webbrowser.open(link):
                job.ui.note("No browser could be opened. Open the link by hand.")
        if self.gh:
            _create(job, story, body)
        return ending


def _create(job: Job, story: Story, body: str) -> None:
    from repro_kit.bundle.story.issue_form import REPOSITORY, UNANSWERED
    from repro_kit.bundle.story.labels import labels_of
    from repro_kit.bundle.story.title_facts import title_of
    from repro_kit.session.github import send

    ui, title = job.ui, title_of(story)
    ui.print(f"\n{title}\n\n{body}")
    _warn(job, story)
    others = bool(story.caution)
    if not ui.confirm(f"File this issue in {REPOSITORY}, for everybody to read?", insist=others):
        ui.note(f"Nothing was filed; {UNANSWERED if others else '--yes files without asking'}.")
        return
    words = ["issue", "create", "--repo", REPOSITORY, "--title", title]
    link = send(words, body, remedy="use --open")
    ui.note(f"Filed: {link}. Attach the bundle there; labels that fit: {', '.join(labels_of(story))}.")


def _warn(job: Job, story: Story) -> None:
    """Print what speaks against an issue of PyTorch."""
    if story.caution:
        job.ui.warn(story.caution)
    if not story.verified:
        job.ui.warn(f"The bundle is NOT VERIFIED: {story.reason}.")
