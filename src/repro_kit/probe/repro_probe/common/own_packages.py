"""The directories of repro-kit's own code in this process, which never counts as the user's."""

from __future__ import annotations

import os
import sys

_PROBE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def own_packages() -> tuple[str, ...]:
    """Return the directories of the probe, and of repro-kit where this process imported it (its plugin of pytest).

    An editable install keeps repro-kit outside of site-packages, in a directory that looks like one of the user's.
    """
    file = getattr(sys.modules.get("repro_kit"), "__file__", None)
    return (_PROBE, os.path.dirname(os.path.abspath(file))) if file else (_PROBE,)
