"""What of the user's machine a `repro.py` needs that passes in a clean process: found by putting it back."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.model.run_outcome import RunOutcome
from repro_kit.model.variables import is_allowed, is_secret
from repro_kit.reduce.first import needed
from repro_kit.reduce.flaky import ALIKE
from repro_kit.runner.launch import PROBE

HOME, DIRECTORY = "HOME", "PWD"  # what these stand for can be put back as well, each as a whole

#: What a run of its own must have of its own, and what would write to where the user looks.
_NEVER = re.compile(
    r"_|SHLVL|OLDPWD|TMP|TEMP|TMPDIR|\w+_CACHE_DIR|PYTHONDONTWRITEBYTECODE|PYTHONPYCACHEPREFIX|REPRO_\w+|"
    r"TORCH_D?TRACE|TORCH_LOGS_OUT|TORCH_COMPILE_DEBUG(_DIR)?|TORCH_COMPILE_DISABLE"
)
#: Those that have no effect once Python has begun, or belong to the machine.
_TOO_LATE = re.compile(r"PYTHON\w+|MALLOC_\w+|CC|CXX|RANK|WORLD_SIZE|LOCAL_RANK|CUDA_VISIBLE_DEVICES")
_CONFIRMED = 3  # runs that must fail with what is named
_PACKAGE = Path(__file__).resolve().parents[3]  # what makes `import repro_kit` work


@dataclass(frozen=True)
class Needs:
    """Names of the variables that it needs; `HOME` and `DIRECTORY` stand for what lies there."""

    names: tuple[str, ...]
    sure: bool = True  # each was seen to be needed; otherwise it may be some of them only

    def words(self, carried: Mapping[str, str]) -> tuple[str, ...]:
        """Each need that is not among the `carried` variables, in words."""
        not_carried = [name for name in self.names if name not in carried]
        if not self.sure and len(not_carried) > 1:
            return (f"some of what is in the environment variables {', '.join(not_carried)}",)
        return tuple(map(_word, not_carried))


def _word(name: str) -> str:
    if name == HOME:
        return "a file in the home directory"
    if name == DIRECTORY:
        return "a file in the working directory that is not in the bundle"
    return f"the environment variable {name}"


def find_needs(
    fails: Callable[[Mapping[str, str], Path | None], bool], variables: Mapping[str, str], directory: Path
) -> Needs | None:
    """What of `variables` and `directory` it takes to fail; None where it does not fail with all of them either.

    `fails` runs `repro.py` with variables put back, and files of the directory (None: none) beside it. At most about
    four times the logarithm of their number of questions are asked, and a few to tell a need from chance. No names:
    it fails with nothing put back, since it comes and goes.
    """
    items = [*(name for name in sorted(variables) if _can_matter(name, variables)), DIRECTORY]

    def ask(sets: Sequence[Sequence[int]]) -> list[bool]:
        return [fails(*_put_back([items[at] for at in each], variables, directory)) for each in sets]

    def outcomes(sets: Sequence[Sequence[int]]) -> list[RunOutcome]:
        return [RunOutcome.FAILS_ALIKE if failed else RunOutcome.PASSES for failed in ask(sets)]

    (all_of_it,) = ask([range(len(items))])
    if not all_of_it:
        return None
    if any(ask([()])[0] for _ in range(ALIKE)):
        return Needs(())
    for group in (_torchs(items), [items.index(name) for name in (HOME, DIRECTORY) if name in items]):
        if group and ask([group])[0]:
            break
    else:
        group = list(range(len(items)))
    needed_numbers, sure = needed(group, outcomes, budget=4 * math.ceil(math.log2(len(group) + 2)))
    return Needs(tuple(items[at] for at in needed_numbers), sure) if all(ask([needed_numbers] * _CONFIRMED)) else None


def carried(needs: Needs, variables: Mapping[str, str], redact: Callable[[str], str], *, late: bool) -> dict[str, str]:
    """The needed variables that `repro.py` may set itself: they concern the compiler, and hold nothing private.

    `late`: it sets them in the process that compiles, where Python has begun already.
    """
    return {
        name: variables[name]
        for name in needs.names
        if is_allowed(name)
        and not is_secret(name)
        and not (late and _TOO_LATE.fullmatch(name))
        and redact(variables[name]) == variables[name]
        and os.sep not in variables[name]
    }


def _torchs(items: Sequence[str]) -> list[int]:
    return [at for at, name in enumerate(items) if is_allowed(name)]


def _can_matter(name: str, variables: Mapping[str, str]) -> bool:
    return name != DIRECTORY and not _NEVER.fullmatch(name) and bool(_value(name, variables[name]))


def _put_back(
    names: Sequence[str], variables: Mapping[str, str], directory: Path
) -> tuple[dict[str, str], Path | None]:
    settled = {name: _value(name, variables[name]) for name in names if name != DIRECTORY}
    return settled, directory if DIRECTORY in names else None


def _value(name: str, value: str) -> str:
    """A variable's value without what makes repro-kit itself importable."""
    if name != "PYTHONPATH":
        return value
    own_paths = (_PACKAGE, PROBE.resolve())
    return os.pathsep.join(word for word in value.split(os.pathsep) if word and Path(word).resolve() not in own_paths)
