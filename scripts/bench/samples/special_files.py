"""Files that are none: pipes, devices, sockets, links to nowhere, for the tests and for the trust bench."""

from __future__ import annotations

import os
import socket
from pathlib import Path

SPECIAL = ("pipe", "device", "endless", "socket", "directory", "loop", "dangling", "sparse", "unreadable")


def write_special(path: Path, kind: str) -> None:
    """Put a special file of this kind at `path`."""
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/null")
        case "endless":
            path.symlink_to("/dev/zero")
        case "socket":
            server = socket.socket(socket.AF_UNIX)
            here = Path.cwd()
            os.chdir(path.parent)  # names of sockets are short
            try:
                server.bind(path.name)
            finally:
                os.chdir(here)
                server.close()
        case "directory":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
        case "dangling":
            path.symlink_to("nowhere")
        case "sparse":
            with path.open("wb") as file:
                file.truncate((1 << 30) + 1)
        case "unreadable":
            path.write_bytes(os.urandom(4096))
