#!/usr/bin/env python3
"""Runs a command on a terminal and keeps what stays on the screen, as an SVG or as text, for the documentation.

    scripts/record_terminal.py OUT.svg|OUT.txt [--width N] [--title TEXT] [--shown TEXT] -- COMMAND...

The command gets a pseudo-terminal as its output and no input. Lines that it erases again, like a progress line, are
left out. `--shown` is the command line that the picture shows where that differs from the one that is run.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.text import Text

_CONTROL = re.compile(r"\r\n|\n|\r|\x1b\[2K|\x1b\[1A|\x1b\[\?25[lh]")
#: Fonts of the reader's own machine in place of those that rich would load from the network.
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
#: Not shown: the paths of this checkout are written relative to it.
_REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> int:
    """Record, draw, and exit with the command's own status."""
    options = _options()
    output, status = _run(options.command, options.width)
    lines = list(_screen(output))
    shown = options.shown or shlex.join(options.command)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    screen = [f"\x1b[1m$ {shown}\x1b[0m", *lines]
    drawn = _drawn(screen, options.width, options.title) if options.out.suffix == ".svg" else _plain(screen)
    options.out.write_text(drawn, encoding="utf-8")
    return status


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="a name that ends in .svg is drawn, any other is text")
    parser.add_argument("--width", type=int, default=100, help="columns of the terminal (100)")
    parser.add_argument("--title", default="repro-kit", help="title of the window")
    parser.add_argument("--shown", help="command line that the picture shows")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    return parser.parse_args()


def _run(command: list[str], width: int) -> tuple[str, int]:
    """All that `command` wrote to a terminal of `width` columns, and its exit status."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(width)}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    output = b"".join(_chunks(ours))
    os.close(ours)
    return output.decode("utf-8", "replace"), process.wait()


def _chunks(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # Linux: the other end was closed
            return
        if not chunk:
            return
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        yield chunk


def _screen(output: str) -> list[str]:
    """The lines that are left on the screen: erased ones are gone, and a carriage return begins a line anew."""
    lines = [""]
    position = 0
    for control in _CONTROL.finditer(output):
        lines[-1] += output[position : control.start()]
        position = control.end()
        match control.group():
            case "\n" | "\r\n":
                lines.append("")
            case "\x1b[2K":
                lines[-1] = ""
            case "\x1b[1A" if len(lines) > 1:
                lines.pop()
    lines[-1] += output[position:]
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.replace(f"{_REPOSITORY}/", "") for line in lines]


def _plain(lines: list[str]) -> str:
    return "".join(f"{Text('').join(AnsiDecoder().decode(line)).plain.rstrip()}\n" for line in lines)


def _drawn(lines: list[str], width: int, title: str) -> str:
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor")
    decoder = AnsiDecoder()
    for line in lines:
        console.print(Text("").join(decoder.decode(line)), soft_wrap=False)
    return _FONT.sub("", console.export_svg(title=title))


if __name__ == "__main__":
    raise SystemExit(main())
