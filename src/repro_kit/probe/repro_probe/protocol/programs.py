"""The input and output of the small programs that repro-kit starts in the user's interpreter."""

from __future__ import annotations

from typing import TypedDict


class NamesData(TypedDict):
    """Names to look up, or the unknown ones among them: the input and output of `common/torch_environment.py`."""

    backends: list[str]
    settings: list[str]


class ValueOrderBase(TypedDict):
    """The fields of every value that `query/write_values.py` writes: the files that it reads and writes."""

    source: str
    target: str


class ValueOrder(ValueOrderBase, total=False):
    """A stored value, to be written as one on the CPU; a storage of PyTorch's minifier has the form of its tensor."""

    dtype: str
    sizes: list[int]


class WrittenValues(TypedDict):
    """The output of `query/write_values.py`."""

    written: int


class EnvironmentBase(TypedDict):
    """The fields for every interpreter. `torch` is None where torch cannot be imported."""

    python: str
    executable: str
    platform: str
    torch: str | None
    packages: dict[str, str]


class EnvironmentData(EnvironmentBase, total=False):
    """The output of `common/torch_environment.py` where nothing is asked."""

    error: str
    torch_git: str | None
    accelerator: str | None
    threads: int
    collect_env: str
