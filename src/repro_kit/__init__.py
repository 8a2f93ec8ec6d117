"""repro-kit turns a failing ``torch.compile`` call into a verified, minimal, self-contained bug report.

For those who reduce with an oracle of their own: `minify` (see docs/python-api.md). It needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repro_kit.reduce import minify as minify

__version__ = "0.1.0"
__all__ = ["__version__", "minify"]


def __getattr__(name: str) -> Any:
    if name == "minify":  # imported on demand: the command line starts faster without
        from repro_kit.reduce import minify

        return minify
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
