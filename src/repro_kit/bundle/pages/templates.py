"""Render the templates for Python and Markdown."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from repro_kit.templating import templates_dir


def render(template: str, **values: Any) -> str:
    """The text of template file `template`, rendered with `values`."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates_dir()),
        autoescape=lambda name: bool(name and name.endswith(".html.j2")),  # the other templates are Python and Markdown
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters["indented"] = _indented
    environment.filters["docstring"] = _docstring
    environment.filters["marked"] = _marked
    environment.filters["told"] = _told
    environment.filters["plain"] = _plain
    return environment


def _indented(text: str, width: int = 4) -> str:
    return "".join(" " * width + line if line.strip() else line for line in text.splitlines(keepends=True))


def _docstring(text: str) -> str:
    """`text` escaped for a docstring."""
    return text.replace("\\", "\\\\").replace('"""', "'''").rstrip('"')


def _plain(text: str) -> str:
    """`text` as one line of Markdown for a table: angle brackets and bars are escaped."""
    return " ".join(text.split()).replace("<", "&lt;").replace("|", "\\|")


def _told(text: str) -> Markup:
    """A line of Markdown as HTML: code and bold words, and nothing else."""
    return Markup(re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", _marked(text)))


def _marked(text: str) -> Markup:
    """`text` with everything in backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
