"""Pages about the trace for the bundle: those of tlparse, and the page of `explain`."""

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
    """Add the pages to `contents`, which has the redacted trace; yields a sentence for pages that are left out."""
    explained = explained_before(case)
    if explained is not None:
        report = explained.report(Path(case.file.subject.cwd), own=case.is_own)
        contents.learn(report)
        contents.add_made("explain.html", "explanation", lambda: page(contents.redact(report)))
    program = tlparse()
    if program is None:
        yield "tlparse's pages are left out, since tlparse is not installed: pip install 'repro-kit[tlparse]'."
        return
    try:
        _add_tlparse(program, contents)
    except ReproKitError as error:
        yield f"tlparse's pages are left out: {error}"


def _add_tlparse(program: str, contents: Contents) -> None:
    """Add all files that tlparse writes. It reads the redacted trace, so that its pages hold nothing private."""
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
