"""``--dry-run``: every file of the bundle, with its size and the reason why the bundle has it."""

from __future__ import annotations

from collections.abc import Mapping

from repro_kit.bundle.archive.archive import CHECKSUMS
from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.ui import Ui

_WHY = {
    "repro": "shows the failure",
    "check": "runs repro.py; its exit status shows whether that fails as expected",
    "source": "your own file, which repro.py runs: --include-source",
    "values": "tensor values that repro.py loads: --include-values",
    "trace": "torch's structured trace: --trace",
    "artifact": "a graph from the trace: --trace yes",
    "log": "torch's log: --trace yes",
    "explanation": "what the trace shows about the user's code: --trace yes",
    "tlparse": "the trace as tlparse shows it: --trace yes",
    "issue": "the text for the bug form",
    "report": "the whole story as a page",
    "story": "the story, for programs",
    "test": "repro.py as a test",
    "readme": "describes the bundle",
    "recipe": "how the program is compiled and run",
    "environment": "versions, packages and settings",
    "ablation": "which settings pass and which fail",
    "redactions": "what was replaced by which token",
}


def preview(contents: Contents, files: Mapping[str, bytes], ui: Ui) -> None:
    """Show a table of the sealed `files`, and tables of the values that were replaced and kept."""
    rows = []
    for name, data in sorted(files.items()):
        entry = contents.entries.get(name)
        why = _WHY.get(entry.role, entry.role) if entry else _SEALS.get(name, _WHY["redactions"])
        cut = f", {entry.truncated} bytes cut out" if entry and entry.truncated else ""
        rows.append([name, f"{len(data):,}", str(entry.redactions) if entry else "0", why + cut])
    ui.table("", ["file", "bytes", "replaced", "why it goes in"], rows)
    replaced = [
        [replacement.token, replacement.what, str(replacement.places), ", ".join(replacement.files)]
        for replacement in contents.replaced()
    ]
    if replaced:
        ui.table("", ["token", "stands for", "places", "files"], replaced)
    kept_rows = [
        [kept_value.value, kept_value.kind, kept_value.origin, kept_value.reason]
        for kept_value in contents.kept_values()
    ]
    if kept_rows:
        ui.table("", ["kept as it is", "what it is", "where from", "why it goes in"], kept_rows)


_SEALS = {MANIFEST: "lists the files, and describes the failure", CHECKSUMS: "for sha256sum -c"}
