"""A suggestion: one concrete step, the reason, and how to apply it, if possible without editing the script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from repro_kit.model.torch_config import assigned, qualified
from repro_kit.probe.repro_probe.protocol.orders import Override

_JOINED = ("TORCH_COMPILE_DYNAMIC_SOURCES", "TORCH_COMPILE_UNBACKED_SOURCES")  # lists, separated by commas


class Aim(StrEnum):
    """The number that a suggestion should lower."""

    GRAPH_BREAKS = "graph breaks"
    RECOMPILES = "recompiles"
    LIMIT_HITS = "frames that hit the recompile limit"
    FAILURES = "failed compiles"
    COMPILE_SECONDS = "compile seconds"


@dataclass(frozen=True)
class AppliedChange:
    """How to apply a suggestion to an unmodified script.

    `config` holds settings of torch (``dynamo.capture_scalar_outputs``). `functions` are added to settings that are
    sets of functions. `arguments` are added to every torch.compile.
    """

    env: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)

    def joined(self, other: AppliedChange) -> AppliedChange:
        """Both changes in one; `other` wins where they contradict each other."""
        functions = {
            name: tuple(dict.fromkeys((*self.functions.get(name, ()), *other.functions.get(name, ()))))
            for name in {**self.functions, **other.functions}
        }
        return AppliedChange(
            _with_lists(self.env, other.env),
            {**self.config, **other.config},
            functions,
            {**self.arguments, **other.arguments},
        )

    def contradicts(self, other: AppliedChange) -> bool:
        """Whether both set one option to different values; lists of sources can be joined."""
        pairs = ((self.env, other.env), (self.config, other.config), (self.arguments, other.arguments))
        return any(
            ours[key] != theirs[key] for ours, theirs in pairs for key in {*ours} & {*theirs} if key not in _JOINED
        )

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """The variables to set; lists of sources are appended to the user's `own`."""
        kept = {name: own[name] for name in _JOINED if name in self.env and own.get(name)}
        return _with_lists(kept, self.env)

    def override(self) -> Override:
        """The changes that the probe is asked for."""
        return {"config": self.config, "functions": self.functions, **cast(Override, self.arguments)}

    def lines(self) -> list[str]:
        """The change as lines of shell and Python for the user."""
        lines = [f"export {name}={_quoted(value)}" for name, value in self.env.items()]
        lines += [assigned(name, value) for name, value in self.config.items()]
        lines += [
            f"{qualified(name)}.add({path.removeprefix('builtins.')})"
            for name, paths in self.functions.items()
            for path in paths
        ]
        if self.arguments:
            lines.append(
                f"torch.compile(…, {', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"
            )
        return lines


@dataclass(frozen=True)
class SourceEdit:
    """A change of the user's source: the file and a diff."""

    file: str
    diff: str


@dataclass(frozen=True)
class Suggestion:
    """One step. `what` is an imperative sentence, `why` the reason; `section` names the insight.

    A suggestion with `change` can be tried from outside; one with only `edit` cannot.
    """

    what: str
    why: str
    section: str
    aim: Aim
    change: AppliedChange | None = None
    edit: SourceEdit | None = None
    place: str = ""  # file:line
    note: str = ""  # side effects
    untried: str = "needs an edit"  # why a suggestion without `change` is not tried
    weight: float = 0.0  # how many compiles it may save


def _quoted(value: str) -> str:
    """`value` quoted for a shell; in double quotes if that is easier to read."""
    return f'"{value}"' if "'" in value and not re.search(r'["$`\\\\!]', value) else shlex.quote(value)


def _with_lists(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    joined = {**first, **second}
    for name in _JOINED:
        if first.get(name) and second.get(name):
            parts = dict.fromkeys(part for text in (first[name], second[name]) for part in text.split(",") if part)
            joined[name] = ",".join(parts)
    return joined
