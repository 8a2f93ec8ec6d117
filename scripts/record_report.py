#!/usr/bin/env python3
"""Takes a picture of a bundle's `report.html` with headless Chromium, for the documentation.

    scripts/record_report.py CASE/bundle/report.html OUT.png [--width N] [--height N]

Chromium is the one that REPRO_KIT_CHROMIUM names, else the first one on PATH.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main() -> int:
    """Take the picture; 125 where there is no Chromium."""
    options = _options()
    chromium = os.environ.get("REPRO_KIT_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if chromium is None:
        print("There is no Chromium on PATH; install one, or name yours in REPRO_KIT_CHROMIUM.", file=sys.stderr)
        return 125
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        command = [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={options.width},{options.height}",
            f"--screenshot={options.out.resolve()}",
            options.report.resolve().as_uri(),
        ]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, default=900)
    parser.add_argument("--height", type=int, default=900)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
