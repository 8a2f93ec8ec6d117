"""`manifest.json` and `redactions.json`, as typed data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from repro_kit.model.failure.failure import Layer
from repro_kit.model.failure.signature import Signature

SCHEMA = 1
MANIFEST = "manifest.json"
REDACTIONS = "redactions.json"


@dataclass(frozen=True)
class Tool:
    """What wrote the bundle."""

    name: str
    version: str


@dataclass(frozen=True)
class Runs:
    """Runs of `repro.py`, and how many of them failed with the signature."""

    made: int
    same: int


@dataclass(frozen=True)
class FileListed:
    """One file of the bundle."""

    path: str
    sha256: str
    size: int  # bytes
    role: str
    redactions: int  # places replaced
    truncated: int  # bytes cut out of the middle


@dataclass(frozen=True)
class Manifest:
    """The files of a bundle (except the manifest and the checksums), and the main facts of the failure."""

    schema: Literal[1]
    tool: Tool
    created: str  # when the case was created, ISO 8601
    level: Literal["program", "script"]
    verified: bool
    reason: str  # why it is not verified, or not minimized
    runs: Runs
    layer: Layer | None
    torch: str | None
    python: str
    platform: str
    accelerator: str | None
    limit: float  # seconds that a run of `repro.py` may take
    values: bool  # tensor values are in it
    signature: Signature
    files: tuple[FileListed, ...]
    flaky: str = ""  # how often it fails, in words; empty: in every run
    repeats: int = 1  # runs of `repro.py` that must all pass before the failure counts as gone
    needs: tuple[str, ...] = ()  # parts of the original machine that the failure needs


@dataclass(frozen=True)
class Replaced:
    """One token, what it stands for, and where it occurs; never the original."""

    token: str
    what: str
    places: int
    files: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """A group of private values that stay as they are: their kind, the reason, and their number; never the values."""

    what: str  # "environment variable"
    reason: str  # "a word of torch"
    values: int


@dataclass(frozen=True)
class Redactions:
    """What was replaced in a bundle, and which private values were not."""

    replaced: tuple[Replaced, ...]
    schema: int = SCHEMA
    kept: tuple[Kept, ...] = ()
