"""What PyTorch asks a reporter to check, read off the programs: aspects of the failure, the kind of reproducer."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from repro_kit.bundle.repro.program_repro import SMALL
from repro_kit.bundle.story.operators import transforms
from repro_kit.bundle.story.story import Aspect, ReproducerKind
from repro_kit.graph import DynamicMark, Program, TensorInput
from repro_kit.graph.effects import CUSTOM_OPERATOR, effects_of, op_name
from repro_kit.recipe import LADDER, Recipe

_JAGGED = re.compile(r"\bnested_tensor(?:_from_jagged)?\b|torch\.jagged|_nested_view_from_jagged|\bNestedTensor\b")
_FORWARD_MODE = re.compile(r"_jvp_|_make_dual|\bforward_ad\b|\bjacfwd\b|\bjvp\b")
_TRANSFORMED = re.compile(r"_grad_increment_nesting|\bjacrev\b|torch\.func\.(?:grad|vjp|hessian)")
_SUBCLASS = re.compile(r"^class \w+\([^)]*\bTensor\b|_make_(?:wrapper_)?subclass", re.MULTILINE)
_MOST_SETTINGS = 3
#: Dtypes that tell nothing of a failure: the default one, and those of indices and of masks.
_USUAL, _OF_INDICES = "torch.float32", {"torch.int64", "torch.bool"}
_WHOLE = ("randint", "randperm", "arange")  # sources of integers
_INTEGERS, _TRUTH = re.compile(r"[\d\s,()\[\]-]+"), re.compile(r"\b(?:True|False)\b")
#: A setting of torch that what a program carries changes.
_SETTING = re.compile(r"\b(config(?:\.\w+)+)(?:\s*=[^=]|\()")
_OTHER_NAME = re.compile(r"^\s*(?:import torch\.\w+\.config|from torch\.\w+ import config) as (\w+)", re.MULTILINE)


def aspects(captured: Program, kept: Program) -> tuple[Aspect, ...]:
    """The aspects of the captured program, and which of them the reproducer still has.

    Whether a graph is compiled whole, and by how many threads, is the capture's choice and not the user's.
    """
    ours = {"fullgraph": kept.recipe.fullgraph, "threads": kept.recipe.threads}
    captured = captured.with_(recipe=captured.recipe.with_(**ours))
    before, after = dict(_aspects(captured)), dict(_aspects(kept))
    return tuple(Aspect(name, before[name], after[name]) for name in before)


def _aspects(program: Program) -> Iterator[tuple[str, str]]:
    recipe = program.recipe
    statements = [statement.text for function in program.functions() for statement in function.statements]
    text = "\n".join([program.preamble, *statements, *(input_.line for input_ in program.inputs)])
    yield "Autograd", ", ".join(filter(None, [_autograd(program), *_transforms(text)]))
    yield "Dynamic shapes", ", ".join(filter(None, [_dynamic(program), *_jagged_sizes(text)]))
    yield "Custom operators", ", ".join(dict.fromkeys(CUSTOM_OPERATOR.findall(text)))
    settings = list(_configuration(recipe))
    yield "Configuration", _first([*settings, *_carried(program.preamble, settings)])
    yield "Context managers", ", ".join(_contexts(recipe))
    defined = "a subclass is defined" if _SUBCLASS.search(program.preamble) else ""
    yield "Tensor subclasses", ", ".join(filter(None, [defined, "a nested tensor" if _JAGGED.search(text) else ""]))


def _first(settings: Sequence[str]) -> str:
    """The settings, or the first ones of many."""
    more = len(settings) - _MOST_SETTINGS
    return f"{', '.join(settings[:_MOST_SETTINGS])} and {more} more" if more > 1 else ", ".join(settings)


def _transforms(text: str) -> Iterator[str]:
    """How the graph differentiates without a backward()."""
    if _FORWARD_MODE.search(text):
        yield "forward-mode"
    if _TRANSFORMED.search(text):
        yield "gradients inside the graph"


def _jagged_sizes(text: str) -> Iterator[str]:
    if _JAGGED.search(text):
        yield "the sizes of a nested tensor are symbolic"


def _autograd(program: Program) -> str:
    if program.recipe.backward != "none":
        return "a backward runs"
    asks = any(
        isinstance(input_, TensorInput) and ("requires_grad" in input_.line or "Parameter" in input_.line)
        for input_ in program.inputs
    )
    return "inputs require gradients, no backward runs" if asks else ""


def _dynamic(program: Program) -> str:
    words = [] if program.recipe.dynamic is None else [f"dynamic={program.recipe.dynamic}"]
    if any(isinstance(input_, DynamicMark) for input_ in program.inputs):
        words.append("dimensions are marked")
    if len(program.calls) > 1:
        words.append(f"{len(program.calls)} calls")
    return ", ".join(words)


def _configuration(recipe: Recipe) -> Iterator[str]:
    if recipe.backend not in LADDER:  # which of torch's fails first stands with the layer
        yield f"backend={recipe.backend!r}"
    if recipe.mode is not None:
        yield f"mode={recipe.mode!r}"
    if recipe.fullgraph:
        yield "fullgraph=True"
    yield from (f"options[{name!r}]={value!r}" for name, value in recipe.options.items())
    yield from (f"{name}={value!r}" for name, value in recipe.config.items())
    yield from (f"{name}={value}" for name, value in recipe.env.items())
    if recipe.threads is not None:
        yield f"{recipe.threads} thread{'s' * (recipe.threads != 1)}"
    if recipe.default_dtype is not None:
        yield f"default dtype {recipe.default_dtype}"
    if not recipe.graph_caches:
        yield "graph caches off"
    if recipe.warm_caches:
        yield "compiled from warm caches"


def _carried(code: str, told: Sequence[str]) -> Iterator[str]:
    """The settings that the code of a program changes, by whatever name of their module; without those `told`."""
    for name in _OTHER_NAME.findall(code):
        code = re.sub(rf"(?<![\w.]){name}\.", "config.", code)
    for setting in dict.fromkeys(_SETTING.findall(code)):
        if not any(f"{setting.removeprefix('config')}=" in each for each in told):
            yield setting


def _contexts(recipe: Recipe) -> Iterator[str]:
    if recipe.grad_mode != "enabled":
        yield recipe.grad_mode
    if recipe.autocast is not None:
        yield f"autocast({recipe.autocast.device}, {recipe.autocast.dtype})"
    if recipe.compiled_autograd:
        yield "compiled autograd"
    yield from recipe.contexts


def compiled_with(program: Program) -> Iterator[str]:
    """How the program is compiled, where that is not as usual: ``with dynamic=True``."""
    recipe = program.recipe
    if recipe.dynamic is not None:
        yield f"with dynamic={recipe.dynamic}"
    elif any(isinstance(input_, DynamicMark) for input_ in program.inputs):
        yield "with mark_dynamic"
    if recipe.mode is not None:
        yield f"with mode={recipe.mode!r}"
    settings = {**recipe.options, **recipe.config}
    for name, value in list(settings.items())[:1]:
        yield f"with {name}={value!r}"
    if recipe.compiled_autograd:
        yield "under compiled autograd"


def run_under(program: Program) -> Iterator[str]:
    """What the program runs under, and in which dtype, where that is not as usual: ``under autocast(bfloat16)``."""
    recipe = program.recipe
    nested = transforms(program)
    if nested:
        yield f"under torch.func.{' of '.join(nested)}"
    if recipe.autocast is not None:
        yield f"under autocast({recipe.autocast.dtype.removeprefix('torch.')})"
    yield from _of_state(recipe)
    dtypes = {dtype_of(input_) for input_ in program.inputs if isinstance(input_, TensorInput) and not input_.base}
    told = dtypes - _OF_INDICES
    if len(told) == 1 and _USUAL not in told:
        yield f"in {told.pop().removeprefix('torch.')}"


def dtype_of(line: TensorInput) -> str:
    """The dtype of an input: ``torch.float16``; the default one of what only a file or a base tells."""
    text = str(line.data.args[0]) if line.data.kind in ("full", "tensor") else ""
    if line.dtype is not None:
        return line.dtype
    if line.data.kind in _WHOLE or _INTEGERS.fullmatch(text):
        return "torch.int64"
    return "torch.bool" if _TRUTH.search(text) else "torch.float32"


def _of_state(recipe: Recipe) -> Iterator[str]:
    if recipe.grad_mode != "enabled":
        yield f"under {recipe.grad_mode}"
    if recipe.default_dtype is not None:
        yield f"with default dtype {recipe.default_dtype.removeprefix('torch.')}"


def ops_of(program: Program) -> tuple[str, ...]:
    """The bare names of the program's operators, each once."""
    statements = [statement for function in program.functions() for statement in function.statements]
    names = [op_name(statement) for statement in statements if not effects_of(statement).state]
    return tuple(dict.fromkeys(name for name in names if name and name != "getitem"))


def kind_of_program(repro: str, *, stored: bool, included: bool) -> ReproducerKind:
    """The kind of a `repro.py` made of a program.

    `stored`: the script loads tensor values; `included`: the bundle holds them.
    """
    if stored and not included:
        return ReproducerKind(4, "it needs tensor values that are not in the bundle")
    lines = len(repro.splitlines())
    packages = packages_of([repro])
    if packages:
        return ReproducerKind(3, f"it needs {', '.join(packages)}")
    if stored:
        return ReproducerKind(2, f"self-contained with the tensor values of the bundle, {lines} lines")
    if lines >= SMALL:
        return ReproducerKind(2, f"self-contained, {lines} lines: not under {SMALL}")
    return ReproducerKind(1, f"self-contained, needs torch only, {lines} lines")


def kind_of_script(sources: Sequence[str], own: Iterable[str], *, complete: bool) -> ReproducerKind:
    """The kind of the user's files. `own`: names of modules among them; `complete`: no file is missing."""
    if not complete:
        return ReproducerKind(4, "files that it needs could not be included")
    packages = [name for name in packages_of(sources) if name not in set(own)]
    if packages:
        return ReproducerKind(3, f"the user's own files, which need {', '.join(packages)}")
    lines = sum(len(text.splitlines()) for text in sources)
    why = f"the user's own files, {lines} lines, which import torch only"
    return ReproducerKind(1 if lines < SMALL else 2, why)


def packages_of(sources: Iterable[str]) -> list[str]:
    """Top-level modules that Python `sources` import, except torch and the standard library."""
    names: set[str] = set()
    for text in sources:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return sorted(names - set(sys.stdlib_module_names) - {"torch"})
