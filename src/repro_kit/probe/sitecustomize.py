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


def _start_probe(variables: "dict[str, str]") -> None:
    try:
        from repro_probe.common import run_files

        orders = run_files.read_orders(variables)
        if orders is None:
            return
        from repro_probe.entry import boot
    except Exception:  # a file of the user's hides a module, from torch too: its import fails next, and says so
        return
    boot.start(orders)


if os.environ.get("REPRO_PROBE_TOKEN"):
    from repro_probe.common.imports import before_import

    sys.path[:] = _without_probe()  # what is imported later is found in its package
    variables = dict(os.environ)  # the program may change its own
    before_import("torch", lambda: _start_probe(variables))
_run_users()
