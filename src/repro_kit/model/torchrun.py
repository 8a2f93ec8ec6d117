"""Read the command line of torchrun or accelerate: the script of each rank, and the number of ranks on this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

_ACCELERATE = "accelerate.commands.launch"
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", _ACCELERATE)
_RANKS = re.compile(r"--?(?:nproc[-_]per[-_]node|nproc|num[-_]processes)(?:=(?P<given>.+))?$")
_UNKNOWN = "auto"
_NODES = re.compile(r"--?(?:nnodes|num[-_]machines)(?:=(?P<given>.+))?$")


@dataclass(frozen=True)
class Launch:
    """The ranks of one launcher on one machine: each runs `script` with `arguments`.

    `ranks`: 0 where the command does not tell, as with a configuration of accelerate, or `--nproc-per-node auto`.
    """

    ranks: int
    script: str
    arguments: tuple[str, ...] = ()


def launch_of(argv: Sequence[str]) -> Launch | None:
    """The launch that a command line makes; None where it is no launcher of a script on one machine."""
    words = _after_launcher(argv)
    at = next((at for at, word in enumerate(words) if word.endswith(".py")), None)
    if at is None:
        return None
    ranks, nodes = _value(words[:at], _RANKS), _value(words[:at], _NODES)
    if nodes not in ("", "1", "1:1"):
        return None
    if PurePath(argv[0]).name.startswith("accelerate") or _ACCELERATE in argv[:3]:
        ranks = _of_accelerate(words[:at], ranks)
    return Launch(int(ranks) if ranks.isdecimal() else 0 if ranks else 1, words[at], tuple(words[at + 1 :]))


def _of_accelerate(words: Sequence[str], ranks: str) -> str:
    """The ranks that accelerate starts (`launch_command` in accelerate/commands/launch.py).

    Without an option for several processes, its configuration file may ask for them.
    """
    options = {word.lstrip("-").replace("_", "-") for word in words}
    if "cpu" in options:
        return "1"
    return ranks if ranks and options & {"multi-gpu", "use-fsdp", "use-megatron-lm"} else _UNKNOWN


def _after_launcher(argv: Sequence[str]) -> list[str]:
    """The words after the launcher; none for another command."""
    if [PurePath(word).name for word in argv[:2]] == ["accelerate", "launch"]:
        return list(argv[2:])
    if [PurePath(word).name for word in argv[:1]] in (["torchrun"], ["accelerate-launch"]):
        return list(argv[1:])
    for at in (1, 2):
        if at < len(argv) and argv[at - 1] == "-m" and argv[at] in _LAUNCHERS:
            return list(argv[at + 1 :])
    return []


def _value(words: Sequence[str], option: re.Pattern[str]) -> str:
    """The value of an option, in its own word or in the next one; "" where the option is missing."""
    for at, word in enumerate(words):
        match = option.match(word)
        if match:
            return match["given"] or (words[at + 1] if at + 1 < len(words) else "")
    return ""
