"""What examples/expected.toml says of each example, and with which torch an example fails."""

from __future__ import annotations

import tomllib
from importlib import metadata
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from compatibility.environment import ROOT

EXAMPLES = ROOT / "examples"
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((EXAMPLES / "expected.toml").read_text(encoding="utf-8"))

#: Examples of two layers that fail with every torch: torch's own injected fault, and a backend that the script defines.
_FEW = ("inductor_cpp_compile_error.py", "backend_failure.py")


def releases(name: str) -> str:
    """The releases of torch that the example fails with, as a version specifier; empty for every one."""
    return EXPECTED[name].get("fails_on", "")


def fails_on(name: str, version: str) -> bool:
    """Whether the example is said to fail with that torch. A pre-release counts as the release that it leads to."""
    return SpecifierSet(releases(name)).contains(Version(version).base_version)


def torch_of_the_tests() -> str:
    """The torch of this interpreter, which the tests run the examples with."""
    return metadata.version("torch")


def of_the_tests() -> list[str]:
    """The examples that the tests run `collect` on, with the torch of this interpreter."""
    here = torch_of_the_tests()
    return [name for name, expected in EXPECTED.items() if expected.get("tested", True) and fails_on(name, here)]


def worth_collecting(version: str) -> list[str]:
    """The examples for `collect` with that torch: a few, and those that fail there and that the tests leave out."""
    left_out = {*EXPECTED} - {*of_the_tests(), *_FEW}
    return [*_FEW, *(name for name in EXPECTED if name in left_out and fails_on(name, version))]
