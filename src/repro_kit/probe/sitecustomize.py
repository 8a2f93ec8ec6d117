"""Run the user's own sitecustomize, and let the probe wait for torch, in every Python process of a run by repro-kit.

Until the program imports torch, it sees nothing of this: nothing on `sys.path`, and no module of the standard library
that came from a file, since the program may have a file of that name.
"""

import os
import sys
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder

_HERE = os.path.dirname(os.path.abspath(__file__))


def _without_probe() -> "list[str]":
    return [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]


def _run_users() -> None:
    """Run the sitecustomize that this file hides. Without one, say as Python does that there is none."""
    spec = PathFinder.find_spec("sitecustomize", _without_probe())
    if spec is None or spec.loader is None:
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("REPRO_PROBE_TOKEN"):
    from repro_probe.entry.wait import wait

    sys.path[:] = _without_probe()  # what is imported later is found in its package
    wait()
_run_users()
