"""No command line and no damaged file ends in an "unexpected" error or a traceback."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from promises import Row
from samples import nasty
from samples.nasty import Ran

_SEED = 20_300_101
#: In this process, in processes of their own, damaged files: how many.
_COUNTS = {"small": (54, 2, 12), "full": (1000, 60, 567)}


def measure(size: str, scratch: Path) -> list[Row]:
    """A row each for fuzzed command lines, the same from a shell, and damaged files of a case."""
    within, outside, files = _COUNTS[size]
    directory = scratch / "work"
    directory.mkdir()
    operand_paths = nasty.operands(directory)
    with nasty.quiet_world(directory):
        heavy = size == "full"
        lines = list(nasty.invocations(_SEED, within, operand_paths, heavy=heavy))
        own = list(nasty.invocations(_SEED + 1, outside, operand_paths, heavy=heavy))
        return [
            _row("fuzzed command lines end with a sentence", map(nasty.in_process, lines)),
            _row("fuzzed command lines in a shell do", (nasty.in_another(words, directory) for words in own)),
            _row("damaged files of a case do", _of_damaged_files(directory, files)),
        ]


def _of_damaged_files(directory: Path, count: int) -> Iterator[Ran]:
    """Each damaged file, given to the command that reads most of it."""
    good, bad = directory / "whole.repro", directory / "bad.repro"
    nasty.make_case(good, directory / "plain.py")
    for name, content in nasty.damaged(_SEED, count, good):
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        (bad / name).write_bytes(content)
        for words in nasty.readers(name):
            yield nasty.in_process(words)


def _row(promise: str, runs: Iterable[Ran]) -> Row:
    all_runs = list(runs)
    broken = tuple(f"{' '.join(ran.words)[:200]!r}: {ran.wrong}" for ran in all_runs if ran.wrong)
    return Row(promise, len(all_runs), len(all_runs) - len(broken), broken=broken)
