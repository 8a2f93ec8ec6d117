"""A suggestion: one concrete next step, why, and how; tried from outside where that can be done."""

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
    """The number that a suggestion is to lower."""

    GRAPH_BREAKS = "graph breaks"
    RECOMPILES = "recompiles"
    LIMIT_HITS = "frames that hit the recompile limit"
    FAILURES = "failed compiles"
    COMPILE_SECONDS = "compile seconds"


@dataclass(frozen=True)
class AppliedChange:
    """How a suggestion is applied to an unmodified script.

    `config` are settings of torch (``dynamo.capture_scalar_outputs``), `functions` are added to settings that are sets
    of functions, `arguments` those of every torch.compile.
    """

    env: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)

    def joined(self, other: AppliedChange) -> AppliedChange:
        """Both at once; where they contradict each other, `other`."""
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
        """Whether both set the same thing to different values; lists of sources go together."""
        pairs = ((self.env, other.env), (self.config, other.config), (self.arguments, other.arguments))
        return any(one[key] != two[key] for one, two in pairs for key in {*one} & {*two} if key not in _JOINED)

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """The variables to set, given the user's `own`: lists of sources are prolonged."""
        kept = {name: own[name] for name in _JOINED if name in self.env and own.get(name)}
        return _with_lists(kept, self.env)

    def override(self) -> Override:
        """What the probe is asked to change."""
        return {"config": self.config, "functions": self.functions, **cast(Override, self.arguments)}

    def lines(self) -> list[str]:
        """How the user does it, as lines of shell and Python."""
        found = [f"export {name}={_quoted(value)}" for name, value in self.env.items()]
        found += [assigned(name, value) for name, value in self.config.items()]
        found += [
            f"{qualified(name)}.add({path.removeprefix('builtins.')})"
            for name, paths in self.functions.items()
            for path in paths
        ]
        if self.arguments:
            found.append(
                f"torch.compile(…, {', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"
            )
        return found


@dataclass(frozen=True)
class SourceEdit:
    """A change of the user's source: the file, and the change as a diff."""

    file: str
    diff: str


@dataclass(frozen=True)
class Suggestion:
    """One next step. `what` is an imperative sentence, `why` what the trace says; `section` the insight it is about.

    With `change` it can be tried from outside; with `edit` alone it cannot.
    """

    what: str
    why: str
    section: str
    aim: Aim
    change: AppliedChange | None = None
    edit: SourceEdit | None = None
    place: str = ""  # file:line
    note: str = ""  # what to know before taking it
    untried: str = "needs an edit"  # why it is not tried, where there is no `change`
    weight: float = 0.0  # what it may save, in compiles


def _quoted(value: str) -> str:
    """`value` for a shell; in double quotes where that is easier to read: sources have single ones."""
    return f'"{value}"' if "'" in value and not re.search(r'["$`\\\\!]', value) else shlex.quote(value)


def _with_lists(one: Mapping[str, str], two: Mapping[str, str]) -> dict[str, str]:
    joined = {**one, **two}
    for name in _JOINED:
        if one.get(name) and two.get(name):
            parts = dict.fromkeys(part for text in (one[name], two[name]) for part in text.split(",") if part)
            joined[name] = ",".join(parts)
    return joined
