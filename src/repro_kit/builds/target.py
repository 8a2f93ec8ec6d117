"""The interpreter that builds are installed for: every environment gets the same Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags

from repro_kit.errors import UsageError
from repro_kit.runner.ask import Probe, Question

_QUESTION = Question(
    seconds=60,
    flags=("-I",),
    code="""
import json, sys, sysconfig
print(json.dumps({
    "base": getattr(sys, "_base_executable", sys.executable) or sys.executable,
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "free": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
}))
""",
)


@dataclass(frozen=True)
class _Told:
    base: str
    version: tuple[int, int, int]
    implementation: str
    free: bool


@dataclass(frozen=True)
class Target:
    """The Python of all environments; `base` is the interpreter outside of any virtual environment."""

    python: str
    base: str
    version: tuple[int, int, int]
    free_threaded: bool = False

    @cached_property
    def tags(self) -> dict[Tag, int]:
        """Tags of the wheels that this Python can install (PEP 425), each with its rank; the lowest is the best."""
        platforms = list(platform_tags())
        short = self.version[:2]
        interpreter = f"cp{short[0]}{short[1]}"
        abi = interpreter + ("t" if self.free_threaded else "")
        supported = [*cpython_tags(short, [abi], platforms), *compatible_tags(short, interpreter, platforms)]
        return {tag: rank for rank, tag in reversed(list(enumerate(supported)))}

    def allows(self, requires_python: str | None) -> bool:
        """Whether a wheel's Requires-Python allows this Python. An unreadable one allows all."""
        try:
            return not requires_python or SpecifierSet(requires_python).contains(".".join(map(str, self.version)))
        except InvalidSpecifier:
            return True


def target_of(python: str) -> Target:
    """The target for interpreter `python`. Raises UsageError when it does not run, or is not CPython."""
    told = Probe(python).ask(_QUESTION, _Told)
    if told.implementation != "cpython":
        raise UsageError(f"{python} is {told.implementation}; builds are made for CPython, give --python PATH.")
    return Target(python, told.base, told.version, told.free)
