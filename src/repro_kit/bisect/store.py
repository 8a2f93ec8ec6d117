"""The state of a bisection on disk, and the answer beside it."""

from __future__ import annotations

from pathlib import Path

import orjson

from repro_kit.bisect.state import SCHEMA, BisectState
from repro_kit.errors import UsageError
from repro_kit.files import write_atomic
from repro_kit.model.serialize import dumps, from_data
from repro_kit.plain_file import read_plain

STATE = "state.json"

_LARGEST = 64 << 20  # bytes of it


def read_state(place: Path) -> BisectState | None:
    """The state in `place`; None when there is none. Raises ReproKitError when it cannot be read."""
    path = place / STATE
    try:
        data = orjson.loads(read_plain(path, _LARGEST))
        if data["schema"] > SCHEMA:
            raise UsageError(f"{path} was written by a newer repro-kit; upgrade, or start anew with --fresh.")
        return from_data(data, BisectState)
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is damaged; start anew with --fresh.") from error


def write_state(place: Path, state: BisectState) -> None:
    """Write the state, whole or not at all."""
    write_atomic(place / STATE, dumps(state))


DIRECTORY = "bisect"  # of a case

ANSWER = "answer.md"
