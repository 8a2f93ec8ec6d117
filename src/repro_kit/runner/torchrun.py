"""Read the command line of torchrun or accelerate: the script of each rank, and the ranks on one machine or several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

#: Processes that one run or one query may start on this machine, each of which compiles.
MOST_RANKS = 16
_ACCELERATE = "accelerate.commands.launch"
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", _ACCELERATE)
_RANKS = re.compile(r"--?(?:nproc[-_]per[-_]node|nproc|num[-_]processes)(?:=(?P<given>.+))?$")
_UNKNOWN = "auto"
_NODES = re.compile(r"--?(?:nnodes|num[-_]machines)(?:=(?P<given>.+))?$")
#: Options with a value that say how many nodes there are, or how they find each other.
_OF_NODES = re.compile(
    r"--?(?:nnodes|num[-_]machines|(?:node|machine)[-_]rank|master[-_](?:addr|port)|main[-_]process[-_](?:ip|port)"
    r"|local[-_]addr|rdzv[-_](?:backend|endpoint|id|conf))(?P<given>=.*)?$"
)
_MODULE = ("-m", "--module")


@dataclass(frozen=True)
class Launch:
    """The ranks of one launcher on one machine: each runs `script` with `arguments`.

    `module`: `script` is the name of a module, as after ``python -m``.
    `ranks`: 0 if the command does not say, as with a configuration of accelerate, or `--nproc-per-node auto`.
    """

    ranks: int
    script: str
    arguments: tuple[str, ...] = ()
    module: bool = False


@dataclass(frozen=True)
class OneMachine:
    """A job of `nodes` nodes as one machine runs it: `argv` starts `ranks` ranks there.

    `whole`: the ranks of the job; 0 if the command does not say, as with `--nproc-per-node gpu`.
    """

    argv: tuple[str, ...]
    ranks: int
    nodes: int
    whole: int

    @property
    def sentence(self) -> str:
        """What the user must know of the command that is run."""
        of = f"with {self.ranks} of its {self.whole} ranks" if self.whole > self.ranks else f"with {self.ranks} ranks"
        return (
            f"The job of {self.nodes} nodes is run on this machine alone, {of}; no other node is needed. "
            "A failure that needs the real nodes does not show."
        )


def on_one_machine(argv: Sequence[str]) -> OneMachine | None:
    """How one machine runs the job of several nodes that `argv` starts a part of, with MOST_RANKS ranks at most.

    A job that does not say how many ranks a node has gets one for each node. None if `argv` starts no such job.
    """
    words = _after_launcher(argv)
    end = _end_of_options(words)
    if end is None:
        return None
    nodes = _value(words[:end], _NODES).rpartition(":")[2]  # MIN:MAX
    if not nodes.isdecimal() or int(nodes) < 2:
        return None
    given = _value(words[:end], _RANKS) or "1"
    of_accelerate = _is_accelerate(argv)
    whole = int(given) * (1 if of_accelerate else int(nodes)) if given.isdecimal() else 0
    ranks = min(whole or int(nodes), MOST_RANKS)
    count = [f"--num_processes={ranks}"] if of_accelerate else ["--standalone", f"--nproc-per-node={ranks}"]
    others = _without(_without(words[:end], _OF_NODES), _RANKS)
    launcher = argv[: len(argv) - len(words)]
    return OneMachine((*launcher, *count, *others, *words[end:]), ranks, int(nodes), whole)


def launch_of(argv: Sequence[str]) -> Launch | None:
    """The launch that a command line makes; None if it is no launcher of a script on one machine."""
    words = _after_launcher(argv)
    at = _end_of_options(words)
    if at is None:
        return None
    ranks, nodes = _value(words[:at], _RANKS), _value(words[:at], _NODES)
    if nodes not in ("", "1", "1:1"):
        return None
    if _is_accelerate(argv):
        ranks = _of_accelerate(words[:at], ranks)
    count = int(ranks) if ranks.isdecimal() else 0 if ranks else 1
    is_module = words[at] in _MODULE
    script, *arguments = words[at + is_module :]
    return Launch(count, script, tuple(arguments), is_module)


def _end_of_options(words: Sequence[str]) -> int | None:
    """The place of the script, or of the ``-m`` before a module, among the words after the launcher."""
    scripts = (at for at, word in enumerate(words) if word.endswith(".py") or word in _MODULE)
    return next((at for at in scripts if at + (words[at] in _MODULE) < len(words)), None)


def _is_accelerate(argv: Sequence[str]) -> bool:
    return PurePath(argv[0]).name.startswith("accelerate") or _ACCELERATE in argv[:3]


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
    """The value of an option, in its own word or in the next one; "" if the option is missing."""
    for at, word in enumerate(words):
        match = option.match(word)
        if match:
            return match["given"] or (words[at + 1] if at + 1 < len(words) else "")
    return ""


def _without(words: Sequence[str], option: re.Pattern[str]) -> list[str]:
    """The words without the option and its value, in its own word or in the next one."""
    kept: list[str] = []
    after = iter(words)
    for word in after:
        match = option.match(word)
        if match is None:
            kept.append(word)
        elif not match["given"]:
            next(after, None)
    return kept
