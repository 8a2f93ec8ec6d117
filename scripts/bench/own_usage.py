"""Run repro-kit in this process, and write what the process itself took to FILE, as JSON.

    python own_usage.py FILE ARGUMENT …

`peak_memory`: bytes of resident memory at most. `cpu`: seconds, without children.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from attempts import memory

if __name__ == "__main__":
    from repro_kit.cli.main import main

    try:
        main(sys.argv[2:])
    finally:
        Path(sys.argv[1]).write_text(json.dumps({"peak_memory": memory("VmHWM"), "cpu": time.process_time()}))
