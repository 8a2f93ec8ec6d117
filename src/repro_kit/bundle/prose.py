"""`issue.md` and `README.md`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.rendering import render
from repro_kit.model.cell_words import remark, word
from repro_kit.model.results import TwinFound

#: Stands for the text of `repro.py` in what `issue` returns.
REPRO = "@@repro.py@@"

_HEAD_LINES, _TAIL_LINES = 40, 80
_LONGEST_LOG = 16_000  # characters; GitHub takes 65,536 for a whole issue
_LONGEST_REPRO = 24_000
_LONGEST_VERSIONS = 12_000

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_CLOCK = re.compile(r"^(?P<rank>\[rank\d+\]:)?[VDIWEC]\d{4} [\d:.]+ \d+ ", re.MULTILINE)
_WARNING = re.compile(r":\d+(?::\d+)?: (?:warning|note): ")
_CONTINUED = re.compile(r"\s+\d* *\|")
_RANDOM_DIRECTORY = re.compile(r"/tmp/(?:tmp[a-z0-9_]{8}|repro-kit-[a-z0-9_]{8})")


@dataclass(frozen=True)
class Account:
    """What the bundle's texts tell beyond the facts of the failure."""

    level: str  # "program" or "script"
    verified: bool
    reason: str
    flaky: str = ""  # "2 of 3 runs"
    repro: str = ""
    log: str = ""
    minimized: str = ""  # "12 -> 1 statements"
    twin: TwinFound | None = None  # the nearest program that passes
    files: tuple[tuple[str, str], ...] = ()  # (name, what it is)
    left_out: tuple[str, ...] = ()


def issue(facts: Facts, account: Account) -> str:
    """The text to paste into PyTorch's torch.compile bug form, box by box."""
    return render(
        "issue.md.j2",
        facts=facts,
        account=account,
        rows=rows(facts),
        log=trim(without_warnings(steady(account.log))),
        repro=REPRO if len(account.repro) <= _LONGEST_REPRO else "",
        repro_fence=fence(account.repro),
        log_fence=fence(account.log),
        twin_fence=fence(account.twin.diff) if account.twin else "",
        versions=facts.environment.collect_env[:_LONGEST_VERSIONS].strip(),
    )


def readme(facts: Facts, account: Account) -> str:
    """What the bundle is, for somebody who opens it by hand."""
    return render("README.md.j2", facts=facts, account=account)


def rows(facts: Facts) -> list[tuple[str, str, str]]:
    """The ablation table: (setting, verdict, remark)."""
    cells = facts.ablation.cells if facts.ablation else ()
    return [(cell.name, word(cell), remark(cell).replace("|", "\\|")) for cell in cells]


def steady(log: str) -> str:
    """`log` without what differs from run to run: addresses, clocks and process ids, random directories."""
    log = _CLOCK.sub(lambda found: f"{found['rank'] or ''}", log)
    return _RANDOM_DIRECTORY.sub("/tmp/…", _ADDRESS.sub("0x…", log))


def without_warnings(log: str) -> str:
    """`log` without the warnings of native compilers, each of which comes with the lines of code it is about."""
    kept: list[str] = []
    skipping = False
    count = 0
    for line in log.splitlines():
        warning = bool(_WARNING.search(line))
        skipping = warning or (skipping and bool(_CONTINUED.match(line)))
        count += warning
        if not skipping:
            kept.append(line)
    note = [f"[{count} compiler warnings left out]"] if count else []
    return "\n".join([*kept, *note])


def trim(log: str) -> str:
    """`log` short enough to paste: its middle is left out, and a line says how much."""
    lines = log.rstrip().splitlines()
    if len(lines) > _HEAD_LINES + _TAIL_LINES + 1:
        left = len(lines) - _HEAD_LINES - _TAIL_LINES
        lines = [*lines[:_HEAD_LINES], f"[… {left} lines left out …]", *lines[-_TAIL_LINES:]]
    text = "\n".join(lines)
    if len(text) <= _LONGEST_LOG:
        return text
    half = _LONGEST_LOG // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def fence(text: str) -> str:
    """A Markdown fence that `text` does not close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return "`" * (longest + 1)
