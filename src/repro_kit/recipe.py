"""How a subject is compiled and run, and the names of torch's settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from repro_kit.failure.kinds import Kind
from repro_kit.probe.repro_probe.protocol.recipe_data import (
    AOT_INDUCTOR,
    AUTOCAST_DEFAULTS,
    CONFIG_MODULES,
    EXPORTS,
    FAKE,
    Backward,
    GradMode,
)
from repro_kit.probe.repro_probe.protocol.recipe_data import RECIPE_DEFAULTS as DEFAULTS

#: Backends of torch in an order where each adds one layer. Any other backend is the user's own.
LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


def rungs(backend: str) -> tuple[str, ...]:
    """The backends to look at for a failure with `backend`, in order: the ladder, and what can export.

    What writes Inductor's code into files is slow, so it is looked at only for its own failures.
    """
    if backend in EXPORTS:
        return (*LADDER, *EXPORTS)
    return (*LADDER, *EXPORTS, backend) if backend == AOT_INDUCTOR else (*LADDER, backend)


@dataclass(frozen=True)
class Autocast:
    """The autocast region around the *forward* call (the backward runs outside of it)."""

    device: str = AUTOCAST_DEFAULTS["device"]
    dtype: str = AUTOCAST_DEFAULTS["dtype"]
    cache_enabled: bool = AUTOCAST_DEFAULTS["cache_enabled"]


@dataclass(frozen=True)
class ProcessGroup:
    """The process group that a program's collectives name.

    The world has the name "0", and the subgroups "1", "2", … in their order, as `torch.distributed` names them.
    """

    size: int  # ranks of the world
    backend: str = FAKE  # "fake": one process makes up every collective; "gloo": one process for each rank
    rank: int = 0  # the rank that is judged
    subgroups: tuple[tuple[int, ...], ...] = ()  # the ranks of each
    others: tuple[int, ...] = ()  # the ranks that run the program's peer in place of `graph`

    @property
    def is_fake(self) -> bool:
        """Whether one process plays all ranks."""
        return self.backend == FAKE


@dataclass(frozen=True)
class Recipe:
    """Everything besides the program's text that decides how the program is compiled, run and judged.

    A field at its default is not written to files. `config` keys are ``<module>.<name>`` with module one of
    ``inductor``, ``dynamo``, ``functorch``, ``compiler``, ``shapes`` (torch.fx.experimental._config); values are
    Python literals.
    """

    backend: str = DEFAULTS["backend"]  # registered, the name of a callable in the preamble, or one of ENTRIES
    mode: str | None = DEFAULTS["mode"]
    options: dict[str, Any] = field(default_factory=dict)
    dynamic: bool | None = DEFAULTS["dynamic"]
    fullgraph: bool = DEFAULTS["fullgraph"]
    backward: Backward = DEFAULTS["backward"]  # from the sum of outputs, or seeded random gradients
    grad_mode: GradMode = DEFAULTS["grad_mode"]
    autocast: Autocast | None = None
    contexts: tuple[str, ...] = ()  # further ``with`` items around each call and its backward; Python expressions
    group: ProcessGroup | None = None  # what the collectives need
    compiled_autograd: bool = DEFAULTS["compiled_autograd"]  # compiled autograd compiles the backward
    seed: int = DEFAULTS["seed"]
    threads: int | None = DEFAULTS["threads"]  # torch.set_num_threads
    memory: int | None = DEFAULTS["memory"]  # bytes of address space that the process may map
    default_dtype: str | None = DEFAULTS["default_dtype"]
    graph_caches: bool = DEFAULTS["graph_caches"]  # FX graph cache and AOTAutograd cache
    warm_caches: bool = DEFAULTS["warm_caches"]  # compiled once before, so that what is judged comes from these caches
    fallback_random: bool = DEFAULTS["fallback_random"]  # inductor's switch for eager's random numbers
    config: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    check: bool = DEFAULTS["check"]  # compare compiled with eager; off when only an exception or a crash is looked for
    validation: bool = DEFAULTS["validation"]  # eager raises; the failure is that the compiled program does not
    growth: float | None = DEFAULTS["growth"]  # compile time must grow slower than this power of the repetitions
    rtol: float | None = DEFAULTS["rtol"]  # None: torch.testing's default for the dtype
    atol: float | None = DEFAULTS["atol"]

    def with_(self, **changes: Any) -> Recipe:
        """A copy with fields replaced."""
        return replace(self, **changes)


def judged_as(kind: Kind) -> dict[str, Any]:
    """The fields of a recipe that say what decides whether a program fails by `kind`."""
    return {"check": kind is Kind.ACCURACY, "validation": kind.policy.eager_raises}


def module_of(setting: str) -> str:
    """``torch._inductor.config``: the module that has the setting."""
    short = setting.partition(".")[0]
    return CONFIG_MODULES.get(short, f"torch._{short}.config")


def qualified(setting: str) -> str:
    """``torch._inductor.config.cpp.simdlen``."""
    return f"{module_of(setting)}.{setting.partition('.')[2]}"


def assigned(setting: str, value: object) -> str:
    """``torch._inductor.config.cpp.simdlen = 8``."""
    return f"{qualified(setting)} = {value!r}"


def short_name(expression: str) -> str | None:
    """``inductor.cpp.simdlen`` for ``torch._inductor.config.cpp.simdlen``; None for anything but a setting."""
    for short, module in CONFIG_MODULES.items():
        if expression.startswith(f"{module}."):
            return f"{short}.{expression.removeprefix(f'{module}.')}"
    return None
