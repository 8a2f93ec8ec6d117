"""Reduce failing scripts that are buried in unrelated model code over three modules.

    python scripts/bench/source.py [NAME …]

Each case is a failure of Dynamo in about 330 lines. The figures: statements and lines before and after, queries,
seconds, whether a fresh interpreter confirmed the result, and whether the result still has the cause (`needs`).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import SOURCE_REDUCTION
from samples.buried_failures import CASES, Buried

_LAYERS = 12  # unrelated classes in each of two modules


def _filler(module: str) -> str:
    """Unrelated model code."""
    parts = ["import math", "", "import torch", "from torch import nn", "from torch.nn import functional as F", ""]
    for number in range(_LAYERS):
        parts.append(f'''
class {module.title()}Block{number}(nn.Module):
    """Block {number} of {module}."""

    def __init__(self, width={8 * (number + 1)}, drop=0.{number}):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        y = self.norm(x)
        y = F.gelu(self.up(y))
        return x + self.drop(self.down(y)) / math.sqrt({number + 1})
''')
    return "\n".join(parts)


def write(case: Buried, directory: Path) -> Path:
    """Write the three modules; returns the script."""
    (directory / "blocks.py").write_text(_filler("blocks"))
    (directory / "failing.py").write_text(_filler("failing") + "\n" + case.definitions)
    script = directory / "train.py"
    script.write_text(f'''
"""Train a small model."""
import argparse

import torch

import blocks
from blocks import BlocksBlock2, BlocksBlock5
from failing import *


def data(count, width):
    for _ in range(count):
        yield torch.randn(4, width)


def warm_up(width):
    model = torch.nn.Sequential(BlocksBlock2(width), BlocksBlock5(width), blocks.BlocksBlock1(width))
    for batch in data(2, width):
        model(batch).sum().backward()
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=16)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = warm_up(arguments.width)
    x = torch.randn(4, 8)
{case.run}

if __name__ == "__main__":
    main()
''')
    return script


def lines(text: str) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in text.splitlines())


def reduce(name: str, case: Buried, directory: Path) -> str:
    """Reduce one case with repro-kit; returns a row."""
    script = write(case, directory)
    before = sum(lines(path.read_text()) for path in directory.glob("*.py"))
    started = time.monotonic()
    command = [sys.executable, "-m", "repro_kit", "minify", "--source", "--quiet", "--jobs", "2", *case.options]
    ended = subprocess.run([*command, script.name], check=False, cwd=directory, capture_output=True, text=True)
    seconds = time.monotonic() - started
    opened = next(directory.glob("*.repro"), None)
    if opened is None or not Case.open(opened).holds(SOURCE_REDUCTION):
        return f"| {name} | {before} | not reduced (exit {ended.returncode}): {ended.stderr.strip()[-200:]} |"
    reduction = Case.open(opened).load(SOURCE_REDUCTION)
    text = (opened / "minify" / "source" / "best.py").read_text()
    kept = "yes" if re.search(case.needs, text) else "NO"
    confirmed = "yes" if reduction.verified else "NO"
    print(f"--- {name}\n{text}", file=sys.stderr)
    return (
        f"| {name} | {before} | {lines(text)} | {reduction.statements_after} | {reduction.queries} "
        f"| {reduction.seconds:.0f} | {seconds:.0f} | {confirmed} | {kept} |"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*CASES, []], help="cases  [all]")
    arguments = parser.parse_args()
    print("| case | lines | lines after | statements | queries | reduction s | whole s | confirmed | cause kept |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in arguments.names or CASES:
        directory = Path(tempfile.mkdtemp(prefix="bench-source-"))
        try:
            print(reduce(name, CASES[name], directory), flush=True)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
