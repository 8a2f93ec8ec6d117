#!/usr/bin/env python3
"""Measures every promise of docs/explanation/promises.md, and prints the table that stands there.

    python scripts/bench/trust.py [--size small|full] [--only SUBJECT]... [--write]

A subject is a module of ``scripts/bench/promises`` with ``measure(size, scratch) -> list[Row]``. ``small`` is what the
tests run; ``full`` takes most of an hour on two cores. ``--write`` puts the rows into the table of the page; those that
were not measured stay. Exits with 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import promises
from promises import Row

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "promises.md"
_BEGIN, _END = "<!-- trust table: begin -->", "<!-- trust table: end -->"


def subjects() -> list[str]:
    """The names of the modules that measure."""
    return sorted(module.name for module in pkgutil.iter_modules(promises.__path__))


def measure(subject: str, size: str) -> list[Row]:
    """The rows of one subject."""
    module = importlib.import_module(f"promises.{subject}")
    with tempfile.TemporaryDirectory(prefix="trust-") as scratch:
        rows: list[Row] = module.measure(size, Path(scratch))
        return rows


def table(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| promise | tried | held | goal |", "|---|---|---|---|"]
    lines += [f"| {row.promise} | {row.tried:,} | {row.held:,} | {row.bar:.1%} |" for row in rows]
    return "\n".join(lines)


def _write(rows: Iterable[Row]) -> None:
    """Put `rows` into the table of the page: a row in the place of an older one, a new one at the end."""
    head, _, rest = _PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    old, _, tail = rest.partition(_END)
    lines = {line.split(" | ")[0]: line for line in (*old.strip().splitlines(), *table(rows).splitlines())}
    text = "\n".join([head + _BEGIN, *lines.values(), _END]) + tail
    _PAGE.write_text(text, encoding="utf-8")


def main() -> int:
    """Measure, print, and perhaps write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--only", action="append", choices=subjects())
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows: list[Row] = []
    for subject in options.only or subjects():
        print(f"measuring {subject}", file=sys.stderr, flush=True)
        rows += measure(subject, options.size)
    print(table(rows))
    for row in rows:
        for line in row.broken:
            print(f"BROKEN: {row.promise}: {line}", file=sys.stderr)
    if options.write:
        _write(rows)
    return 0 if all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
