"""List the modes of `torch.compile`: ``python -m repro_probe.common.modes`` prints the options of each as JSON."""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Print {mode: {option: value}}; a value that JSON lacks becomes text."""
    from torch._inductor import list_mode_options

    sys.stdout.flush()
    os.write(1, ("\n" + json.dumps(list_mode_options(), default=repr)).encode())


if __name__ == "__main__":
    main()
