"""Pages about the trace that go into a bundle beside it: tlparse's, and what `explain` found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from repro_kit.bundle.archive.contents import Contents
from repro_kit.case.case import Case
from repro_kit.errors import ReproKitError
from repro_kit.explain.page import page
from repro_kit.runner.scratch import scratch
from repro_kit.runner.tlparse import tlparse, write_html
from repro_kit.session.explained import explained_before

_TRACE = "trace/"


def add_pages(case: Case, contents: Contents) -> Iterator[str]:
    """Add them to `contents`, which has the (redacted) trace; yields what could not be added, and why."""
    explained = explained_before(case)
    if explained is not None:
        report = explained.report(Path(case.file.subject.cwd))
        contents.learn(report)
        contents.add_made("explain.html", "explanation", lambda: page(contents.redact(report)))
    program = tlparse()
    if program is None:
        yield "tlparse's pages are left out, since it is not installed: pip install 'repro-kit[tlparse]'."
        return
    try:
        _add_tlparse(program, contents)
    except ReproKitError as error:
        yield f"tlparse's pages are left out: {error}"


def _add_tlparse(program: str, contents: Contents) -> None:
    """All files that tlparse writes; it reads the trace as it is packed, so that nothing private comes back."""
    with scratch() as directory:
        logs = []
        for name, entry in contents.entries.items():
            if name.startswith(_TRACE) and name.endswith(".log"):
                log = Path(directory, "logs", name.removeprefix(_TRACE))
                log.parent.mkdir(parents=True, exist_ok=True)
                log.write_bytes(entry.data)
                logs.append(log)
        pages = Path(directory, "pages")
        write_html(program, logs, pages)
        for path in sorted(page_path for page_path in pages.rglob("*") if page_path.is_file()):
            text = path.read_text(encoding="utf-8", errors="replace")
            contents.add_text(f"tlparse/{path.relative_to(pages).as_posix()}", text, "tlparse")
