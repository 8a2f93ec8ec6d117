"""Wait for the program to import torch, and start the probe then.

Nothing is imported here but modules that every interpreter has loaded: the program may have a file that is called like
one of the standard library, which must stay the first of that name.
"""

import os

from repro_probe.common.imports import before_import


def wait() -> None:
    """Start the probe before the program's import of torch, by the orders that the variables name now."""
    variables = dict(os.environ)  # the program may change its own

    def begin() -> None:
        try:
            from repro_probe.common import read_orders

            orders = read_orders.read(variables)
            if orders is None:
                return
            from repro_probe.entry import boot
        except Exception:  # a file of the user's hides a module, from torch too: its import fails next, and says so
            return
        boot.start(orders)

    before_import("torch", begin)
