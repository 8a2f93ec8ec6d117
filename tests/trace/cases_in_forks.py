"""Run trace cases in children of one process: torch is imported once, and what it builds first is built once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch


def each(cases: Mapping[str, Callable[[], object]], directory: str) -> None:
    """Run every case in a child of its own, with its trace in ``directory/NAME``."""
    for name, case in cases.items():
        child = os.fork()
        if not child:
            torch._logging._internal.LOG_TRACE_HANDLER.root_dir = str(Path(directory, name))
            torch._logging.structured.INTERN_TABLE.clear()  # or the child's log would lack what the parent's names
            try:
                case()
            finally:
                sys.stdout.flush()
                os._exit(0)
        os.waitpid(child, 0)


def run(cases: Mapping[str, Callable[[], object]], warm: Callable[[], object]) -> None:
    """Run the case that the command line names; with ``--each DIRECTORY`` call `warm`, then run all cases."""
    if sys.argv[1] == "--each":
        warm()
        torch._dynamo.reset()
        each(cases, sys.argv[2])
    else:
        cases[sys.argv[1]]()
