"""How a subject is compiled and run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

Backward = Literal["none", "sum", "randn"]
GradMode = Literal["enabled", "no_grad", "inference_mode"]

#: Backends of torch in an order where each adds one layer. Any other backend is the user's own.
LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


@dataclass(frozen=True)
class Autocast:
    """The autocast region around the *forward* call (the backward runs outside of it)."""

    device: str = "cpu"
    dtype: str = "bfloat16"
    cache_enabled: bool = True


@dataclass(frozen=True)
class Recipe:
    """Everything besides the program's text that decides how the program is compiled, run and judged.

    A field at its default is not written to files. `config` keys are ``<module>.<name>`` with module one of
    ``inductor``, ``dynamo``, ``functorch``, ``compiler``, ``shapes`` (torch.fx.experimental._config); values are
    Python literals.
    """

    backend: str = "inductor"  # registered name, or the name of a callable that the program's preamble defines
    mode: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    dynamic: bool | None = None
    fullgraph: bool = False
    backward: Backward = "none"  # the scalar to differentiate: the sum of the outputs, or a dot with seeded randoms
    grad_mode: GradMode = "enabled"
    autocast: Autocast | None = None
    contexts: tuple[str, ...] = ()  # more ``with`` items around each call and its backward; Python expressions
    compiled_autograd: bool = False  # compiled autograd compiles the backward
    seed: int = 0
    threads: int | None = None  # torch.set_num_threads
    memory: int | None = None  # bytes of address space that the process may map
    default_dtype: str | None = None
    graph_caches: bool = True  # FX graph cache and AOTAutograd cache
    warm_caches: bool = False  # compile once before the judged run, so that its code comes from the caches
    fallback_random: bool = False  # torch._inductor.config.fallback_random: eager's random numbers
    config: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    check: bool = True  # compare compiled with eager; False when the failure is an exception or a crash
    rtol: float | None = None  # None: torch.testing's default for the dtype
    atol: float | None = None

    def with_(self, **changes: Any) -> Recipe:
        """A copy with fields replaced."""
        return replace(self, **changes)
