"""Output before a `Ui` exists: errors, and text for other programs."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from repro_kit.visible import visible, visible_json


def echo(text: str, *, err: bool = False, label: str = "") -> None:
    """Print `text` behind our own coloured `label`; characters that control a terminal are spelt out."""
    head = f"{click.style(label, fg='red', bold=True)} " if label else ""
    click.echo(head + visible(text), err=err, color=False if os.environ.get("NO_COLOR") else None)


def echo_json(data: Any) -> None:
    """Print `data` as JSON on stdout."""
    click.echo(visible_json(json.dumps(data, indent=2)))
