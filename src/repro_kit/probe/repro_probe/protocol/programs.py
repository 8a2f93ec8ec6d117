"""The input and output of the small programs that repro-kit starts in the user's interpreter."""

from __future__ import annotations

from typing import TypedDict


class NamesData(TypedDict):
    """`common/names.py`: the names to look up on its command line, and the unknown names in its output."""

    backends: list[str]
    settings: list[str]


class StorageData(TypedDict):
    """`query/unpack_storages.py`: one storage of PyTorch's minifier, and the file to write its tensor to."""

    storage: str
    dtype: str
    sizes: list[int]
    target: str


class EnvironmentBase(TypedDict):
    """The fields for every interpreter. `torch` is None where torch cannot be imported."""

    python: str
    executable: str
    platform: str
    torch: str | None
    packages: dict[str, str]


class EnvironmentData(EnvironmentBase, total=False):
    """`common/torch_environment.py`: its output."""

    error: str
    torch_git: str | None
    accelerator: str | None
    threads: int
    collect_env: str
