"""The report as one HTML file that loads nothing and is readable without JavaScript."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from repro_kit import __version__
from repro_kit.explain.report import ExplainReport
from repro_kit.explain.view import Code, Table, Words
from repro_kit.templating import templates_dir


def page(report: ExplainReport) -> str:
    """`report` as HTML."""
    return _environment().get_template("explain.html.j2").render(report=report, version=__version__)


def _coded(text: str) -> Markup:
    """`text` as HTML, with everything in backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if at % 2 else escape(part) for at, part in enumerate(parts))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates_dir()),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["coded"] = _coded
    for kind in (Words, Table, Code):
        environment.tests[kind.__name__.lower()] = lambda value, kind=kind: isinstance(value, kind)
    return environment
