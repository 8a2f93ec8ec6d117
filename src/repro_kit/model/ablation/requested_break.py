"""A graph break that the program asks for: no fault of the compiler."""

from __future__ import annotations

import re

from repro_kit.model.failure.failure import Failure
from repro_kit.model.failure.frames import torch_path

#: The title and the explanation in torch's own words (torch/_dynamo/variables/functions.py).
_ASKED = re.compile(r"User-inserted graph break|Call to `torch\._dynamo\.graph_break\(\)`")
_TRACED_LINE = re.compile(r'^\s*File "(?P<file>.+)", line \d+', re.MULTILINE)


def asks_for_break(failure: Failure) -> bool:
    """Whether a line outside of torch calls ``torch._dynamo.graph_break()``, and no break is allowed.

    torch's own code calls it too (torch/optim/optimizer.py); a break there is torch's.
    """
    for link in failure.exceptions:
        if _ASKED.search(link.message):
            traced = [*_TRACED_LINE.finditer(link.message.partition("from user code:")[2])]
            return bool(traced) and torch_path(traced[-1]["file"]) is None
    return False
