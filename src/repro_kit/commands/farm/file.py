"""`farm file`: prepare the issue of a case, or the comment on it, and send it with `gh` after a yes."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from repro_kit.bundle.story.addressee import addressee_of
from repro_kit.bundle.story.issue_form import (
    FORM,
    LOGS,
    REPOSITORY,
    UNANSWERED,
    body_of,
    refusal,
)
from repro_kit.bundle.story.story import Story
from repro_kit.bundle.story.title import title_from, title_of
from repro_kit.commands.farm.place import FarmPlace, named_case
from repro_kit.commands.farm.status import FarmJudge, Results
from repro_kit.commands.show import story_at
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.files import read_plain, write_atomic
from repro_kit.regressions.lifecycle import State, release_table
from repro_kit.regressions.release import without_twins
from repro_kit.regressions.store import FarmCase, FarmStore
from repro_kit.repro_run.untrusted import REPRO
from repro_kit.session.github import send
from repro_kit.ui import Ui

_LARGEST = 4 << 20  # bytes of a file that is quoted
_LINK = re.compile(r"https://github\.com/(?P<repo>[\w.-]+/[\w.-]+)/issues/(?P<number>\d+)(#.*)?")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_PATH = re.compile(r"(?P<version>[\w.+!-]+)@[^,'\"]*[/\\][^,'\"]*")  # an interpreter: its path is private
_OVER = (State.FIXED, State.CLOSED)


@dataclass(frozen=True)
class FileRequest:
    """What is filed, and where. `issue`: a link, or a number in `repository`; "": the one that is known."""

    case: str
    repository: str = REPOSITORY
    issue: str = ""


@dataclass(frozen=True)
class Draft:
    """A text that is ready to be sent: a comment on `issue`, or a new issue."""

    title: str
    body: str
    repository: str
    issue: str = ""  # link
    caution: str = ""  # why somebody else is asked before PyTorch

    @property
    def words(self) -> list[str]:
        """The words of `gh` that send it, without its body."""
        if self.issue:
            return ["issue", "comment", self.issue]
        return ["issue", "create", "--repo", self.repository, "--title", self.title]


def file_case(place: FarmPlace, request: FileRequest, ui: Ui) -> Exit:
    """Prepare the text, show it, and send it after a yes. Raises ReproKitError when there is nothing to say."""
    with place.reading() as store:
        case = named_case(store.cases(), request.case)
        issue = issue_link(request.issue, request.repository) or case.issue
        draft = _draft(place, store, case, request, issue)
    path = place.drafts / f"{case.name}.md"
    write_atomic(path, draft.body.encode())
    ui.print(f"{draft.title}\n\n{draft.body}")
    link = _sent(draft, path, ui)
    if link or (issue and issue != case.issue):
        with place.writing() as store, store.writing():
            store.set_issue(case.id, issue or link)
    ui.result(
        {"case": case.name, "title": draft.title, "text": str(path), "issue": issue or link or None, "sent": bool(link)}
    )
    return Exit.OK


def _sent(draft: Draft, path: Path, ui: Ui) -> str:
    """The link to what was sent; "" when it was not. Says how to send it by hand."""
    by_hand = f"gh {shlex.join(draft.words)} --body-file {shlex.quote(str(path))}"
    where = draft.issue or (
        FORM if draft.repository == REPOSITORY else f"https://github.com/{draft.repository}/issues/new"
    )
    if draft.caution:
        ui.warn(draft.caution)
    if shutil.which("gh") is None:
        ui.note(f"Nothing was sent: there is no `gh` (https://cli.github.com). Paste {path} into {where}.")
        return ""
    what = f"comment on {draft.issue}" if draft.issue else f"issue in {draft.repository}"
    if not ui.confirm(f"Send this {what}, for everybody to read?", insist=bool(draft.caution)):
        why = f"{UNANSWERED}; this sends it" if draft.caution else "--yes sends without asking, and so does"
        ui.note(f"Nothing was sent; {why}: {by_hand}")
        return ""
    link = send(draft.words, draft.body, remedy=f"paste {path} into {where}")
    ui.note(f"Sent: {link}")
    return link or where


def issue_link(issue: str, repository: str) -> str:
    """The link to the issue that the user names; "" for none. Raises UsageError."""
    if not _REPOSITORY.fullmatch(repository):
        raise UsageError(f"--repo takes OWNER/NAME, not {repository!r}.")
    number = issue.removeprefix("#")
    if number.isdecimal():
        return f"https://github.com/{repository}/issues/{number}"
    if issue and not _LINK.fullmatch(issue):
        raise UsageError(f"--issue takes a number, or a link like https://github.com/pytorch/pytorch/issues/1, not "
                         f"{issue!r}.")  # fmt: skip
    return issue


def _draft(place: FarmPlace, store: FarmStore, case: FarmCase, request: FileRequest, issue: str) -> Draft:
    """The text for the state of the case. Raises UsageError for a state of which there is nothing to say."""
    if case.is_imported:
        raise UsageError(
            f"{case.name} has no script here: it is a test that runs elsewhere; `farm report --issue LINK` names it."
        )
    if case.original:
        raise UsageError(f"{case.name} is not filed: it is a {case.evidence}.")
    judge = FarmJudge(place, store)
    results = judge.results(case)
    tables = _tables(case, results)
    if case.state in _OVER or case.state is State.REOPENED:
        if not issue:
            raise UsageError(f"{case.name} is {case.state}, which is a comment; name its issue with --issue.")
        again = judge.repeat(case, judge.standing(case, results)).replace(str(place.entry(case.id)), "BUNDLE")
        comment = f"{_comment(case)}\n\n{tables}\nTo repeat it: `{_without_paths(again)}`\n"
        return Draft(f"Comment on {issue}", comment, request.repository, issue)
    if case.state not in (State.OPEN, State.FLAKY):
        raise UsageError(f"{case.name} is {case.state}: run it first, an issue needs a build on which it fails.")
    if issue:
        raise UsageError(f"{case.name} is still {case.state}, and has the issue {issue}: there is nothing to add.")
    return _new_issue(place.entry(case.id), case, tables, request.repository)


def _new_issue(entry: Path, case: FarmCase, tables: str, repository: str) -> Draft:
    """A new issue. Raises UsageError if it would report a failure to PyTorch that is not PyTorch's."""
    story, facts = _story(entry), case.facts
    to = story.addressee if story else addressee_of(facts.layer, facts.cause)
    evidence = story.evidence if story else ""
    at_pytorch = repository.lower() == REPOSITORY
    if at_pytorch and not to.takes_pytorch:
        raise UsageError(f"{refusal(evidence, entry / 'issue.md')} `--repo OWNER/NAME` files it elsewhere.")
    title = title_of(story) if story else title_from(facts.signature, facts.layer, to, facts.operators)
    caution = to.caution(evidence) if at_pytorch else ""
    return Draft(title, _report(entry, case, tables), repository, caution=caution)


def _story(entry: Path) -> Story | None:
    """The bundle's own story; None if the case has none that can be read."""
    try:
        return story_at(entry)
    except ReproKitError:
        return None


def _tables(case: FarmCase, results: Results) -> str:
    """A table for each line on which the case was run, without private paths."""
    shown = []
    for line, of_line in without_twins(results).items():
        names = {result.build: _without_paths(result.build) for result in of_line}
        shown.append(f"{line}:\n\n{release_table(of_line, case.facts.repeats, names).as_markdown()}")
    return "\n".join(shown)


def _without_paths(text: str) -> str:
    return _PATH.sub(r"\g<version>", text)


def _report(entry: Path, case: FarmCase, tables: str) -> str:
    """The bundle's own text for an issue, else the failure and the script; and the builds."""
    if (entry / "issue.md").is_file():
        text = body_of(read_plain(entry / "issue.md", _LARGEST).decode("utf-8", "replace"))
    else:
        code = read_plain(entry / REPRO, _LARGEST).decode("utf-8", "replace")
        text = f"### 🐛 Describe the bug\n\n{case.facts.summary}\n\n````python\n{code.rstrip()}\n````\n"
    facts, logs, rest = text.partition(f"\n{LOGS}")  # the versions stay last
    return f"{facts.rstrip()}\n\n#### On other builds\n\n{tables}{logs}{rest}"


def _comment(case: FarmCase) -> str:
    words = "" if case.state is not State.FIXED else " It does not pass on every line of builds yet."
    return f"{'This fails again.' if case.state is State.REOPENED else 'This is fixed.'}{words}"
