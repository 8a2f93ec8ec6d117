"""The data of a case that `repro_kit.watch` writes."""

from __future__ import annotations

from typing import TypedDict

WATCHED_SCHEMA = 1
WATCHED_FILE = "watched.json"
WATCHED_DIRECTORY = "watched"  # the directory of the findings
OWNER_FILE = ".owner"


class WatchedData(TypedDict):
    """The file `WATCHED_FILE`."""

    schema: int
    python: str
    torch: str
    command: list[str]
    cwd: str
    created: str
    variables: dict[str, str]
    graphs: int
    dropped: int  # graphs that were dropped because there were too many
