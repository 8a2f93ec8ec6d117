"""Settings of torch by which a program promises something that the compiler does not check."""

from __future__ import annotations

import re
from collections.abc import Iterable

from repro_kit.failure.failure import Failure
from repro_kit.recipe import module_of

#: Each setting, with the value that promises nothing.
SETTINGS: dict[str, object] = {
    "inductor.use_fast_math": False,
    "inductor.cpp.enable_unsafe_math_opt_flag": False,
    "inductor.assume_aligned_inputs": False,
    "inductor.assume_32bit_indexing": False,
    "inductor.unsafe_skip_cache_dynamic_shape_guards": False,
    "dynamo.guard_nn_modules": True,
    "dynamo.skip_guards_on_constant_func_defaults": False,
    "dynamo._unsafe_skip_fsdp_module_guards": False,
    "dynamo.do_not_emit_runtime_asserts": False,
    "functorch.unsafe_allow_optimization_of_collectives": False,
}
#: Settings that promise something about the form of tensors alone: values that differ are no broken promise.
OF_FORM: dict[str, object] = {"inductor.keep_output_stride": True}
#: It promises that no weight changes. The promise is kept in its place (probe/repro_probe/embedded/promises.py).
FREEZING = "inductor.freezing"
_FORMS = ("stride", "alias")
_NAMED = re.compile(
    "|".join(re.escape(name.rpartition(".")[2]) for name in (*SETTINGS, *OF_FORM, FREEZING)), re.IGNORECASE
)


def makes_promises(text: str) -> bool:
    """Whether `text` names such a setting, or the environment variable for it."""
    return bool(_NAMED.search(text))


def withdrawn(failure: Failure) -> dict[str, dict[str, object]]:
    """The settings whose broken promise `failure` may be, by config module; empty where it can be none.

    Whatever a program promises, the compiler may neither raise nor crash: only a wrong result may be its own doing.
    """
    if not failure.kind.policy.compared:
        return {}
    form = failure.difference is None or failure.difference.kind in _FORMS
    return _by_module({**SETTINGS, **(OF_FORM if form else {})}.items())


def _by_module(settings: Iterable[tuple[str, object]]) -> dict[str, dict[str, object]]:
    modules: dict[str, dict[str, object]] = {}
    for name, value in settings:
        modules.setdefault(module_of(name), {})[name.partition(".")[2]] = value
    return modules
