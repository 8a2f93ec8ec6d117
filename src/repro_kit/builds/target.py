"""The interpreter that builds are installed for: every environment gets the same Python."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import cached_property

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags

from repro_kit.errors import UsageError
from repro_kit.runner import supervised

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
    try:
        answer = supervised.run([python, "-I", "-c", _ASK], timeout=60)
        answer.check_returncode()
        facts = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UsageError(f"{python} does not work as a Python interpreter; give --python PATH.") from error
    if facts["implementation"] != "cpython":
        raise UsageError(f"{python} is {facts['implementation']}; builds are made for CPython, give --python PATH.")
    major, minor, patch = facts["version"]
    return Target(python, facts["base"], (major, minor, patch), facts["free"])
