"""The state of a bisection on disk, and the file names of a bisection in a case."""

from __future__ import annotations

from pathlib import Path

import orjson

from repro_kit.bisect.state import SCHEMA, BisectState
from repro_kit.errors import UsageError
from repro_kit.files import write_atomic
from repro_kit.model.serialize import dumps, from_data
from repro_kit.ownership import is_marked, mark_of
from repro_kit.plain_file import read_plain
from repro_kit.probe.repro_probe.protocol.watched_data import OWNER_FILE

STATE = "state.json"

_LARGEST = 64 << 20  # bytes of the state file


def read_state(directory: Path) -> BisectState | None:
    """The state in `directory`; None when there is none. Raises UsageError when it cannot be read."""
    path = directory / STATE
    try:
        data = orjson.loads(read_plain(path, _LARGEST))
        if data["schema"] > SCHEMA:
            raise UsageError(f"{path} was written by a newer repro-kit; upgrade, or start anew with --fresh.")
        return from_data(data, BisectState)
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is damaged; start anew with --fresh.") from error


def read_own_state(directory: Path) -> BisectState | None:
    """The state in `directory` to go on with: it names the wheels to install, so this user must have written it."""
    state = read_state(directory)
    if state is not None and not is_marked(directory, _chosen(state)):
        raise UsageError(
            f"{directory / STATE} is not marked as yours on this machine, and it names the builds to install; "
            "start anew with --fresh."
        )
    return state


def write_state(directory: Path, state: BisectState) -> None:
    """Write the state; a reader sees the old file or the new one. A second file says who chose the builds."""
    directory.mkdir(parents=True, exist_ok=True)
    mark = mark_of(directory, _chosen(state))
    if mark and not is_marked(directory, _chosen(state)):
        write_atomic(directory / OWNER_FILE, mark.encode())
    write_atomic(directory / STATE, dumps(state))


def _chosen(state: BisectState) -> str:
    """What a state makes repro-kit install, and from where."""
    return dumps([state.about, state.package, state.repository, state.builds]).decode()


DIRECTORY = "bisect"  # of a case

ANSWER = "answer.md"
