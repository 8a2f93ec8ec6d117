"""Put back the settings by which a program promises something, and let no compiled code hold an outdated weight.

The setup of a cell is this text. A promise is made by a setting that lets the compiler assume what it does not check.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any


def withdraw(settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Put back `settings` before each compile, and where the program passes them as options of a compile.

    `settings`: by the name of a config module, each with the value that promises nothing. Freezing stays as the program
    has it: what it promises is kept instead.
    """
    configs = [(importlib.import_module(name), values) for name, values in settings.items()]

    def put_back(*_: Any) -> None:
        for config, values in configs:
            for name, value in values.items():
                if getattr(config, name, value) != value:
                    setattr(config, name, value)

    from torch._dynamo.callback import callback_handler

    callback_handler.register_start_callback(put_back)
    _leave_out_of_options(settings["torch._inductor.config"])
    _keep_frozen_weights_up_to_date()


def _leave_out_of_options(settings: Mapping[str, Any]) -> None:
    import torch

    wrapper: Any = torch._TorchCompileInductorWrapper
    apply_options = wrapper.apply_options

    @functools.wraps(apply_options)
    def apply_others(self: Any, options: Any) -> Any:
        others = {name: value for name, value in (options or {}).items() if name.replace("-", "_") not in settings}
        return apply_options(self, others)

    wrapper.apply_options = apply_others


def _keep_frozen_weights_up_to_date() -> None:
    """Let a call forget all compiled code where a weight differs from what freezing made a constant of.

    Where no weight changes, nothing is forgotten: a failure of freezing itself stays.
    """
    import torch
    from torch._dynamo import eval_frame
    from torch._inductor import freezing
    from torch.utils._python_dispatch import _disable_current_modes

    module: Any = eval_frame
    enter, freeze = module._maybe_set_eval_frame, freezing.freeze
    frozen: list[tuple[Any, Any]] = []

    @functools.wraps(freeze)
    def freeze_and_remember(*arguments: Any, **named: Any) -> Any:
        context: Any = torch._guards.TracingContext.try_get()
        flat = getattr(context, "params_flat_unwrap_subclasses", None) or getattr(context, "params_flat", None)
        weights = list(flat or ())
        model, kept = freeze(*arguments, **named)
        with _disable_current_modes():
            frozen.extend((weight, weight.detach().clone()) for at, weight in enumerate(weights) if at not in kept)
        return model, kept

    def enter_up_to_date(callback: Any) -> Any:
        if callback is not None and callback is not False:
            with _disable_current_modes():
                outdated = any(_differ(weight, constant) for weight, constant in frozen)
            if outdated:
                frozen.clear()
                torch._dynamo.reset_code_caches()
        return enter(callback)

    freezing.freeze = freeze_and_remember
    module._maybe_set_eval_frame = enter_up_to_date


def _differ(one: Any, other: Any) -> bool:
    """Whether two tensors of one shape differ; NaN is as NaN."""
    return not bool(((one == other) | ((one != one) & (other != other))).all())
