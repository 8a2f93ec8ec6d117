"""``python -m repro_probe.query.move_values``: write files of tensors again, with their tensors on the CPU.

The input is a JSON list of pairs of paths: the file, and where to write it.
"""

from __future__ import annotations

import json
import sys

import torch


def main() -> None:
    """Write every file that the input asks for."""
    for source, target in json.load(sys.stdin):
        torch.save(torch.load(source, map_location="cpu", weights_only=True), target)


if __name__ == "__main__":
    main()
