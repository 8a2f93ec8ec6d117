"""What each rank of a launcher runs."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.case.case import Subject
from repro_kit.model.torchrun import Launch, launch_of


def launch_in(subject: Subject) -> Launch | None:
    """The launch of ranks that `subject` makes, if it is the command of a launcher."""
    return launch_of(subject.argv) if subject.form == "command" else None


def rank_subject(subject: Subject) -> Subject:
    """The script or module that each rank runs, as a subject; `subject` itself where no launcher starts it."""
    launch = launch_in(subject)
    if launch is None:
        return subject
    return replace(subject, form="module" if launch.module else "script", argv=(launch.script, *launch.arguments))
