"""What the weaker backends hand on to a stronger one: the graph, not the Python code that is printed for it.

The weaker backends run the printed code, and so they may fail by themselves, while the graph is right, and the stronger
backend fails by another bug. If the graph is interpreted, its own result shows.
"""

from __future__ import annotations

#: Makes the weaker backends interpret their graph, node by node. The ``aot_*`` ones call `boxed_nop`.
INTERPRETERS = """\
import torch
from torch._dynamo.backends import debugging, registry

def interpreted(graph, example_inputs, **_):
    return torch.fx.Interpreter(graph).run

def interpreted_boxed(graph, example_inputs, **_):
    def run(args):
        return torch.fx.Interpreter(graph).boxed_run(args)
    run._boxed_call = True
    return run

registry.list_backends(())  # imports them all, which a later call would register over the next line
registry._COMPILER_FNS["eager"] = interpreted
debugging.boxed_nop = interpreted_boxed
"""
