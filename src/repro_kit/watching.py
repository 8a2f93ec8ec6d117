"""`watch` and `save_repro` for a user's program: they come from the probe, which needs only Python and torch."""

from __future__ import annotations

import importlib
import os
import sys

_PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe")  # noqa: PTH100, PTH118, PTH120 - light
if _PROBE not in sys.path:
    sys.path.append(_PROBE)

_watch = importlib.import_module("repro_probe.entry.watch")
save_repro = _watch.save_repro
start = _watch.start
watch = _watch.watch
