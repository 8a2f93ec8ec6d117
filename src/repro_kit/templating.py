"""The directory of the Jinja2 templates."""

from __future__ import annotations

from pathlib import Path

from repro_kit.errors import StageError

_PACKAGE = Path(__file__).resolve().parent


def templates_dir() -> Path:
    """The directory of the templates: inside the package in a wheel, at the top level in a source checkout.

    Raises StageError when neither exists.
    """
    for directory in (_PACKAGE / "templates", _PACKAGE.parent.parent / "templates"):
        if (directory / "repro.py.j2").is_file():
            return directory
    raise StageError("This installation of repro-kit lacks its templates; install it again.")
