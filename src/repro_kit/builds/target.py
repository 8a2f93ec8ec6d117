"""The interpreter that builds are made for: every environment gets the same Python."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import cached_property

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags

from repro_kit.errors import UsageError
from repro_kit.runner import kept

_ASK = """
import json, sys, sysconfig
print(json.dumps({
    "base": getattr(sys, "_base_executable", sys.executable) or sys.executable,
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "free": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
}))
"""


@dataclass(frozen=True)
class Target:
    """A Python that environments are made with; `base` is the one outside of any virtual environment."""

    python: str
    base: str
    version: tuple[int, int, int]
    free_threaded: bool = False

    @cached_property
    def tags(self) -> dict[Tag, int]:
        """Tags of the wheels that it can use, each with its rank: the lowest is the best."""
        platforms = list(platform_tags())
        short = self.version[:2]
        interpreter = f"cp{short[0]}{short[1]}"
        abi = interpreter + ("t" if self.free_threaded else "")
        known = [*cpython_tags(short, [abi], platforms), *compatible_tags(short, interpreter, platforms)]
        return {tag: rank for rank, tag in reversed(list(enumerate(known)))}

    def allows(self, requires_python: str | None) -> bool:
        """Whether it is among the versions that a wheel asks for; what cannot be read forbids nothing."""
        try:
            return not requires_python or SpecifierSet(requires_python).contains(".".join(map(str, self.version)))
        except InvalidSpecifier:
            return True


def target_of(python: str) -> Target:
    """What `python` is. Raises ReproKitError when it does not say, or is no CPython."""
    try:
        answer = kept.run([python, "-I", "-c", _ASK], timeout=60)
        answer.check_returncode()
        told = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UsageError(f"{python} does not work as a Python interpreter; give --python PATH.") from error
    if told["implementation"] != "cpython":
        raise UsageError(f"{python} is {told['implementation']}; builds are made for CPython, give --python PATH.")
    major, minor, patch = told["version"]
    return Target(python, told["base"], (major, minor, patch), told["free"])
