"""Read the command line of torchrun: the script that each rank runs, and the number of ranks on this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
_RANKS = re.compile(r"--?(?:nproc[-_]per[-_]node|nproc)(?:=(?P<given>.+))?$")
_NODES = re.compile(r"--?nnodes(?:=(?P<given>.+))?$")


@dataclass(frozen=True)
class Launch:
    """The ranks of one torchrun on one machine: each runs `script` with `arguments`."""

    ranks: int
    script: str
    arguments: tuple[str, ...] = ()


def launch_of(argv: Sequence[str]) -> Launch | None:
    """The launch that a command line makes; None where it is no torchrun of a script on one machine."""
    words = _after_launcher(argv)
    at = next((at for at, word in enumerate(words) if word.endswith(".py")), None)
    if at is None:
        return None
    ranks, nodes = _value(words[:at], _RANKS), _value(words[:at], _NODES)
    if not ranks.isdecimal() or int(ranks) < 1 or nodes not in ("", "1", "1:1"):
        return None
    return Launch(int(ranks), words[at], tuple(words[at + 1 :]))


def _after_launcher(argv: Sequence[str]) -> list[str]:
    """The words after the launcher; none for another command."""
    for at, word in enumerate(argv[:3]):
        if (at == 0 and PurePath(word).name == "torchrun") or (argv[at - 1] == "-m" and word in _LAUNCHERS):
            return list(argv[at + 1 :])
    return []


def _value(words: Sequence[str], option: re.Pattern[str]) -> str:
    """The value of an option, in its own word or in the next one; "" where the option is missing."""
    for at, word in enumerate(words):
        match = option.match(word)
        if match:
            return match["given"] or (words[at + 1] if at + 1 < len(words) else "")
    return ""
