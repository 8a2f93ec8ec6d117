"""The axes of an ablation: how they change a recipe and a script, and which settings of torch to flip."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.probe.repro_probe.protocol.queries import SettingData
from repro_kit.probe.repro_probe.protocol.recipe_data import CONFIG_MODULES, ENTRIES
from repro_kit.recipe import LADDER, Recipe, assigned

if TYPE_CHECKING:
    from repro_kit.diagnosis.cell import CellPlan


#: Fields of a recipe that are axes, each with its default values (none for `backend`: the user names them).
FIELDS: dict[str, tuple[object, ...]] = {
    "backend": (),
    "dynamic": (None, True, False),
    "mode": ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    "fullgraph": (True, False),
    "grad": (True, False),
    "caches": (True, False),
}
_SWITCHES = ("fullgraph", "grad", "caches")


@dataclass(frozen=True)
class Axis:
    """One axis: a name of `FIELDS`, or a setting of torch (``inductor.pattern_matcher``), with the values to try."""

    name: str
    values: tuple[object, ...]

    @property
    def is_setting(self) -> bool:
        """Whether the axis is a setting of torch rather than a field of the recipe."""
        return self.name not in FIELDS


def parse_axis(text: str) -> Axis:
    """The axis that ``NAME=VALUE,VALUE`` (or a name of `FIELDS` alone) describes. Raises ValueError for other text."""
    name, given, values = text.partition("=")
    name = name.strip()
    module, dot, rest = name.partition(".")
    if name not in FIELDS and not (dot and rest and module in CONFIG_MODULES):
        raise ValueError(
            f"{name or text!r} is not an axis: take one of {', '.join(FIELDS)}, or a setting as MODULE.NAME with "
            f"MODULE one of {', '.join(CONFIG_MODULES)}."
        )
    if not given:
        if not FIELDS.get(name):
            raise ValueError(f"Axis {name} needs values: {name}=VALUE,VALUE.")
        return Axis(name, FIELDS[name])
    return Axis(name, tuple(_checked(name, value) for value in _literals(values)))


def _literals(text: str) -> list[object]:
    """`text` as comma-separated Python literals; a part that is no literal is a string. Raises ValueError if empty."""
    try:
        values = ast.literal_eval(f"[{text}]")
    except (SyntaxError, ValueError):
        values = [_literal(part.strip()) for part in text.split(",")]
    if not values or "" in values:
        raise ValueError(f"{text!r} holds no values, or an empty one; give them as VALUE,VALUE.")
    return list(values)


def _literal(text: str) -> object:
    try:
        value: object = ast.literal_eval(text.capitalize() if text in ("true", "false", "none") else text)
    except (SyntaxError, ValueError):
        return text
    return value


def _checked(name: str, value: object) -> object:
    if name == "dynamic" and not (value is None or isinstance(value, bool)):
        raise ValueError(f"Axis dynamic takes None, True and False, not {value!r}.")
    if name in _SWITCHES and not isinstance(value, bool):
        raise ValueError(f"Axis {name} takes True and False, not {value!r}.")
    if name in ("backend", "mode") and not isinstance(value, str):
        raise ValueError(f"Axis {name} takes names, not {value!r}.")
    return value


def varied(recipe: Recipe, name: str, value: Any) -> Recipe:
    """`recipe` with axis `name` at `value`. A change of backend drops `mode` and `options`, which belong to the old."""
    match name:
        case "backend":
            return recipe if value == recipe.backend else recipe.with_(backend=value, mode=None, options={})
        case "mode":
            return recipe.with_(mode=value, options={})
        case "grad":
            without = {} if value else {"grad_mode": "no_grad", "backward": "none"}
            return recipe.with_(**({"grad_mode": "enabled"} | without))
        case "caches":
            return recipe.with_(graph_caches=value)
        case "dynamic" | "fullgraph":
            return recipe.with_(**{name: value})
        case _:
            return recipe.with_(config={**recipe.config, name: value})


def field_of(name: str) -> str:
    """The field of a recipe that axis `name` changes."""
    return {"grad": "grad_mode", "caches": "graph_caches"}.get(name, name if name in FIELDS else "config")


def overrides(plan: CellPlan) -> Override:
    """The changes to a script that the probe is asked for."""
    changed: Override = {}
    arguments: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for name in plan.overridden:
        if name == "grad_mode":
            changed["grad"] = plan.recipe.grad_mode == "enabled"
        elif name == "graph_caches":
            config |= dict.fromkeys(
                ("inductor.fx_graph_cache", "functorch.enable_autograd_cache"), plan.recipe.graph_caches
            )
        elif name == "config":
            config |= plan.recipe.config
        elif name != "env":
            arguments[name] = getattr(plan.recipe, name)
    changed = {**cast(Override, arguments), **changed}
    if config:
        changed["config"] = config
    if plan.setup:
        changed["setup"] = plan.setup
    return changed


def setup_words(plan: CellPlan) -> str:
    """A comment for the command that repeats a cell by hand, when the cell has a setup; "" otherwise."""
    return "  # and with the cell's `setup` after `import torch`" if plan.setup else ""


def repeat_by_hand(command: str, plan: CellPlan, own_backend: str) -> str:
    """The shell command that repeats a cell by hand: `command` with the changes of `plan`.

    `own_backend`: of the subject. An entry takes no backend from the environment.
    """
    changed = overrides(plan)
    if not plan.compiled:
        command = f"TORCH_COMPILE_DISABLE=1 {command}"
    elif plan.overridden == ("backend",) and plan.recipe.backend in LADDER and own_backend not in ENTRIES:
        command = f"TORCH_BISECT_BACKEND={plan.recipe.backend} {command}"
    elif changed.keys() - {"setup"}:
        command += f"  # with {_by_hand(changed)}"
    if "env" in plan.overridden:
        command = " ".join([*(f"{name}={shlex.quote(value)}" for name, value in plan.recipe.env.items()), command])
    return command + setup_words(plan)


def _by_hand(changed: Override) -> str:
    """`changed` (from `overrides`) as the lines a person would write."""
    arguments = [f"{name}={value!r}" for name, value in changed.items() if name not in ("grad", "config", "setup")]
    parts = [f"torch.compile(…, {', '.join(arguments)})"] if arguments else []
    if "grad" in changed:
        parts.append(f"torch.set_grad_enabled({changed['grad']})")
    parts += [assigned(name, value) for name, value in changed.get("config", {}).items()]
    return " and ".join(parts)


def slug(name: str) -> str:
    """`name` as the name of a directory: other characters than word characters, ".", "=" and "-" become "-"."""
    return re.sub(r"[^\w.=-]+", "-", name)


#: Settings that do not change what is compiled, or that nobody would set to keep working.
_NEVER = re.compile(
    r"""TYPE_CHECKING | TESTING | test | inject | fx_wrapper | predispatch | nightly | descriptive_names | real_tensors
    # What is printed and saved.
    | debug | verbose | progress | trace\. | log | profile | report | metrics | record | comment | dump | save_ | warn
    | annotate | visualize | pycode | hook
    # How compiling is done, and long searches (autotuning).
    | cache | pgo | worker | pool | subproc | launch | precompile | pickle | quiesce | gc_after | cubin | lookup_table
    | autotune | benchmark | coordinate_descent | autoheuristic | search_space | choice | tuning | template
    # More checks.
    | (?<!suppress_)error | strict | crossref | crosscheck | validate | verify | raise | fail_on | nan_asserts | lint
    # Promises about the program that may not hold.
    | unsafe | fast_math | assume_(aligned|32bit) | vec_isa_ok | ignore | force_ | freezing | offload | reload
    # Other products than a compiled function; distributed runs.
    | cpp_wrapper | for_aot | aot_compile | wrap_inductor | wrap_top_frame | repro_ | same_two | issue_
    | bucket | reduce_scatter | collective | distributed | fsdp | ddp | micro_pipeline | _tp$ | p2p | ranks | torchrec
    # Settings that compile nothing at all.
    | dynamo\.disable$ | dynamo\.compiled_autograd$ | dont_skip_tracing | non_builtin | use_fp64 | constexpr
    # Settings that need more than their own change.
    | selective_decompose | functionalize_rng
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: Settings of code for an accelerator, or of a compiler other than the default one.
_DEVICES = re.compile(
    r"\.(triton|cuda|cutlass|rocm|xpu|mtia|halide|aot_inductor\w*|tpu|nvgemm)[._]|_backend$|cudagraph"
)
_CPU = re.compile(r"\.cpp\.")

#: What is lost with a flip that does not fix anything.
_LIMITS = (
    (re.compile(r"dynamo\.suppress_errors$"), "runs in eager what fails to compile"),
    (re.compile(r"inductor\.(fallback_by_default|disable_cpp_codegen)$"), "leaves operators to eager's kernels"),
    (re.compile(r"_asserts?$|assertions?$|^inductor\.assert_"), "turns a check off, which may only hide the failure"),
)

#: The config modules that each backend reads: a failure of Dynamo does not depend on what comes after Dynamo.
_READ_BY = {
    "eager": ("dynamo",),
    "aot_eager": ("dynamo", "functorch"),
    "aot_eager_decomp_partition": ("dynamo", "functorch", "inductor"),
}


@dataclass(frozen=True)
class FlipCandidate:
    """Another value of one setting: `value` in place of `before`."""

    name: str
    value: object
    before: object

    @property
    def limits(self) -> str:
        """What the flip costs besides speed, as far as the setting's name shows; "" otherwise."""
        return next((words for pattern, words in _LIMITS if pattern.search(self.name)), "")


def groups(flips: Sequence[FlipCandidate], size: int) -> list[list[int]]:
    """Indices of `flips`, in groups of up to `size` to flip together.

    A group has one value per setting. A flip with `limits` is alone in its group.
    """
    made: list[list[int]] = []
    for at, flip in enumerate(flips):
        fits = [
            group
            for group in made
            if len(group) < size and not flip.limits and not any(_apart(flip, flips[other]) for other in group)
        ]
        if fits:
            fits[0].append(at)
        else:
            made.append([at])
    return made


def _apart(flip: FlipCandidate, other: FlipCandidate) -> bool:
    return flip.name == other.name or bool(other.limits)


def candidates(settings: Iterable[SettingData], backend: str, accelerator: bool) -> list[FlipCandidate]:
    """The flips to try where `backend` fails; `settings` as `probe/repro_probe/change/subsystems.py` lists them."""
    modules = _READ_BY.get(backend, ("dynamo", "functorch", "inductor"))
    flips = []
    for setting in settings:
        name = setting["name"]
        elsewhere = _CPU if accelerator else _DEVICES
        if name.split(".")[0] in modules and not _NEVER.search(name) and not elsewhere.search(name):
            flips += [FlipCandidate(name, value, setting["value"]) for value in setting["others"]]
    return flips
