"""repro-kit turns a failing ``torch.compile`` call into a verified, minimal, self-contained bug report.

For programs that fail: `watch` and `save_repro`, which need torch and nothing else. For those who reduce with an oracle
of their own: `minify`, which needs no torch. See docs/reference/python-api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repro_kit.graph.reducer import minify
    from repro_kit.watching import save_repro as save_repro
    from repro_kit.watching import watch as watch

__version__ = "0.1.0"
__all__ = ["__version__", "minify", "save_repro", "watch"]


def __getattr__(name: str) -> Any:
    if name == "minify":  # imported on demand: the command line starts faster without
        from repro_kit.graph.reducer import minify

        return minify
    if name in ("save_repro", "watch"):
        from repro_kit import watching

        return getattr(watching, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
