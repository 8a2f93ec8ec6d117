"""The directories that a client lets the server use: its roots, or without roots the server's working directory.

A path counts by what it is once its links are followed, so that no link leads out of a root.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import mcp_types as types

from repro_kit.errors import UsageError
from repro_kit.plain_file import no_file
from repro_kit.session.os_errors import shown_name

#: From this revision of the protocol on, a server answers a call with a question, and the client calls again.
ANSWERS_WITH_QUESTIONS = "2026-07-28"
KEY = "roots"
QUESTION = types.ListRootsRequest()


async def roots_of(ctx: Any, params: Any) -> tuple[Path, ...] | None:
    """The roots of the client; None if it has to be asked first, with `QUESTION`."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.roots is None:
        return (Path.cwd().resolve(),)
    if ctx.protocol_version < ANSWERS_WITH_QUESTIONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer revisions of the protocol call roots deprecated
            return _paths((await ctx.session.list_roots()).roots)
    answer = (getattr(params, "input_responses", None) or {}).get(KEY)
    return _paths(answer.roots) if isinstance(answer, types.ListRootsResult) else None


def _paths(roots: Sequence[types.Root]) -> tuple[Path, ...]:
    parts = [urlsplit(str(root.uri)) for root in roots]
    return tuple(Path(unquote(part.path)).resolve() for part in parts if part.netloc in ("", "localhost"))


def inside(path: Path, roots: Sequence[Path]) -> Path:
    """The path `path` without links. Raises UsageError if it lies outside of `roots`, or is neither a file nor
    a directory. The message does not reveal what is there.
    """
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a path"
        raise UsageError(f"{shown_name(path)} cannot be used: {reason}.") from None
    if not any(resolved.is_relative_to(root) for root in roots):
        named = ", ".join(map(str, roots)) or "none"
        raise UsageError(f"{shown_name(path)} lies outside of the directories that this server may use: {named}.")
    kind = no_file(resolved)
    if kind and kind != "a directory":
        raise UsageError(f"{shown_name(path)} is {kind}; give a file or a directory.")
    return resolved


def check_links(directory: Path, roots: Sequence[Path]) -> None:
    """Raise UsageError if a link below `directory` leads out of `roots`, or something there is not a plain file."""
    for path in _below(directory):
        if path.is_symlink() or no_file(path):
            inside(path, roots)


def _below(directory: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        yield from (Path(folder, name) for name in (*folders, *files))
