"""Settings of torch by which a program promises something that the compiler does not check."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from repro_kit.failure.failure import Failure
from repro_kit.recipe import assigned, module_of, qualified

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
#: What each promises, in words.
PROMISED = {
    "inductor.use_fast_math": "faster, less exact functions will do",
    "inductor.cpp.enable_unsafe_math_opt_flag": "no NaN, infinity or rounding counts",
    "inductor.assume_aligned_inputs": "all inputs are aligned",
    "inductor.assume_32bit_indexing": "32 bits are enough for every index",
    "inductor.unsafe_skip_cache_dynamic_shape_guards": "what is in the cache fits the sizes",
    "inductor.keep_output_stride": "nobody asks for strides",
    "dynamo.guard_nn_modules": "no module changes",
    "dynamo.skip_guards_on_constant_func_defaults": "no default of a function changes",
    "dynamo._unsafe_skip_fsdp_module_guards": "no FSDP module changes",
    "dynamo.do_not_emit_runtime_asserts": "all sizes are as assumed",
    "functorch.unsafe_allow_optimization_of_collectives": "collectives may change their order",
    FREEZING: "no weight changes",
}
#: What a program tells Dynamo not to trace, not to guard, to leave out or to call later; each as it is written.
MARKS = {
    "assume_constant_result": "assume_constant_result",
    "allow_in_graph": "allow_in_graph",
    "nonstrict_trace": "nonstrict_trace",
    "substitute_in_graph": "substitute_in_graph",
    "guard_filter_fn": "options={'guard_filter_fn': …}",
    "skip_guard_eval_unsafe": "skip_guard_eval_unsafe",
    "ignore_logging_functions": "ignore_logging_functions",
    "ignore_logger_methods": "ignore_logger_methods",
    "reorderable_logging_functions": "reorderable_logging_functions",
}
_MARK = re.compile(rf"\b(?:{'|'.join(MARKS)})\b")
_WORD = re.compile(r"\b[A-Za-z_]\w+\b")
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
    return _by_module(_broken_by(failure).items()) if failure.kind.policy.compared else {}


def _broken_by(failure: Failure) -> dict[str, object]:
    form = failure.difference is None or failure.difference.kind in _FORMS
    return {**SETTINGS, **(OF_FORM if form else {})}


def _by_module(settings: Iterable[tuple[str, object]]) -> dict[str, dict[str, object]]:
    modules: dict[str, dict[str, object]] = {}
    for name, value in settings:
        modules.setdefault(module_of(name), {})[name.partition(".")[2]] = value
    return modules


@dataclass(frozen=True)
class OwnSettings:
    """What a program sets, as far as it is known: settings of torch, options of a compile, variables, and its texts."""

    config: Mapping[str, object] = field(default_factory=dict)  # "inductor.freezing": True
    options: Mapping[str, object] = field(default_factory=dict)  # "freezing": True
    variables: Mapping[str, str] = field(default_factory=dict)
    texts: Sequence[str] = ()


def promises_of(own: OwnSettings, failure: Failure) -> tuple[str, ...]:
    """The settings with which a program makes a promise that `failure` may show broken: as written, and what for.

    Where no value is recorded, those that its texts name; empty where these name none either.
    """
    promises = {**_broken_by(failure), FREEZING: False}
    made = dict([*_recorded(own, promises)] or _named_in(own.texts, promises))
    return tuple(f"{written}: {PROMISED[name]}" for written, name in made.items())


def _recorded(own: OwnSettings, promises: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each promise as it is written, and its setting."""
    for name, value in own.config.items():
        if name in promises and value != promises[name]:
            yield assigned(name, value), name
    for option, value in own.options.items():
        name = f"inductor.{option.replace('-', '_')}"
        if name in promises and value != promises[name]:
            yield f"options={{{option!r}: {value!r}}}", name
    for variable, value in own.variables.items():
        for name in _set_by(variable, promises):
            if (value == "1") is not promises[name]:
                yield f"{variable}={value}", name


def _named_in(texts: Sequence[str], promises: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The variables and the settings that `texts` name, each with its setting."""
    for word in (found[0] for text in texts for found in _WORD.finditer(text)):
        yield from ((word, name) for name in _set_by(word, promises))
        yield from ((qualified(name), name) for name in promises if word == _last(name))


def _set_by(variable: str, promises: Iterable[str]) -> list[str]:
    """The settings that a variable sets: `TORCHINDUCTOR_FREEZING`."""
    ending = f"_{variable.lower()}" if variable.isupper() else ""
    return [name for name in promises if ending.endswith(f"_{_last(name).lstrip('_')}")]


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def marks_in(texts: Sequence[str]) -> tuple[str, ...]:
    """The marks for Dynamo that `texts` name, as they are written."""
    found = {match[0] for text in texts for match in _MARK.finditer(text)}
    return tuple(written for name, written in MARKS.items() if name in found)
