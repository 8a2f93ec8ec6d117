"""Find what a `repro.py` that passes in a clean process needs from the user's machine, by restoring it in parts."""

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
from repro_kit.reduce.flaky import RUNS_BEFORE_DETERMINISTIC
from repro_kit.runner.launch import PROBE

HOME, DIRECTORY = "HOME", "PWD"  # the home and the working directory, each restored as a whole

#: Variables that each run sets itself, and variables that would make it write to the user's files.
_NEVER = re.compile(
    r"_|SHLVL|OLDPWD|TMP|TEMP|TMPDIR|\w+_CACHE_DIR|PYTHONDONTWRITEBYTECODE|PYTHONPYCACHEPREFIX|REPRO_\w+|"
    r"TORCH_D?TRACE|TORCH_LOGS_OUT|TORCH_COMPILE_DEBUG(_DIR)?|TORCH_COMPILE_DISABLE"
)
#: Variables that have no effect once Python has started, or that belong to the machine.
_TOO_LATE = re.compile(r"PYTHON\w+|MALLOC_\w+|CC|CXX|RANK|WORLD_SIZE|LOCAL_RANK|CUDA_VISIBLE_DEVICES")
#: Variables that choose the compiler of generated code, and where it looks.
OF_COMPILERS = ("CC", "CXX", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")
_CONFIRMED = 3  # runs that must fail with the needs that were found
_PACKAGE = Path(__file__).resolve().parents[3]  # the directory on the path for `import repro_kit`


@dataclass(frozen=True)
class Needs:
    """Names of the variables that `repro.py` needs. `HOME` and `DIRECTORY` mean files in these directories."""

    names: tuple[str, ...]
    sure: bool = True  # whether each name is needed; if not, only some may be

    def words(self, carried: Mapping[str, str]) -> tuple[str, ...]:
        """The needs in words, without the `carried` variables."""
        not_carried = [name for name in self.names if name not in carried]
        if not self.sure and len(not_carried) > 1:
            return (f"some of the environment variables {', '.join(not_carried)}",)
        return tuple(map(_word, not_carried))


def _word(name: str) -> str:
    if name == HOME:
        return "a file in the home directory"
    if name == DIRECTORY:
        return "a further file in the working directory"
    return f"the environment variable {name}"


def find_needs(
    fails: Callable[[Mapping[str, str], Path | None], bool], variables: Mapping[str, str], directory: Path
) -> Needs | None:
    """Which of `variables` and `directory` `repro.py` needs to fail; None if it passes even with all of them.

    `fails` runs `repro.py` with variables restored, and with the files of a directory (or None) beside it. The search
    asks about four times the logarithm of the number of variables, and a few times more to exclude chance. A result
    without names means that `repro.py` fails with nothing restored, since its failure is flaky.
    """
    items = [*(name for name in sorted(variables) if _can_matter(name, variables)), DIRECTORY]

    def ask(sets: Sequence[Sequence[int]]) -> list[bool]:
        return [fails(*_put_back([items[at] for at in each], variables, directory)) for each in sets]

    def outcomes(sets: Sequence[Sequence[int]]) -> list[RunOutcome]:
        return [RunOutcome.FAILS_ALIKE if failed else RunOutcome.PASSES for failed in ask(sets)]

    (all_of_it,) = ask([range(len(items))])
    if not all_of_it:
        return None
    if any(ask([()])[0] for _ in range(RUNS_BEFORE_DETERMINISTIC)):
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

    `late`: `repro.py` sets them in the process that compiles, after Python has started.
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
    """The value of a variable, without the directories of repro-kit in PYTHONPATH."""
    if name != "PYTHONPATH":
        return value
    own_paths = (_PACKAGE, PROBE.resolve())
    return os.pathsep.join(word for word in value.split(os.pathsep) if word and Path(word).resolve() not in own_paths)
