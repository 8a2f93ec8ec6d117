"""Where the Jinja2 templates lie."""

from __future__ import annotations

from pathlib import Path

from repro_kit.errors import StageError

_PACKAGE = Path(__file__).resolve().parent


def templates_dir() -> Path:
    """The templates: inside the package in a wheel, at the top level in a source checkout.

    Raises ReproKitError when neither is there.
    """
    for directory in (_PACKAGE / "templates", _PACKAGE.parent.parent / "templates"):
        if (directory / "repro.py.j2").is_file():
            return directory
    raise StageError("This installation of repro-kit lacks its templates; install it again.")
