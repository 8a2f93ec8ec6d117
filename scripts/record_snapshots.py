#!/usr/bin/env python3
"""Write tests/snapshots: the help and the commonest endings of each command, as they are now. Read the difference.

.venv/bin/python scripts/record_snapshots.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/cli/test_snapshots.py"]
    done = subprocess.run(
        command, cwd=_ROOT, env={**os.environ, "REPRO_KIT_RECORDS_SNAPSHOTS": "1"}, check=False
    ).returncode
    subprocess.run(["git", "diff", "--stat", "tests/snapshots"], cwd=_ROOT, check=False)
    sys.exit(done)
