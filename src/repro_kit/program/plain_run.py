"""The last lines of a plain script: run eager, compile, run, and compare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.model.failure.failure import Difference, Kind
from repro_kit.model.recipe import Recipe
from repro_kit.probe.repro_probe.protocol.failure_data import ARGUMENT, OUTPUT
from repro_kit.program import recipe_code
from repro_kit.program.entry_code import Arguments, compile_lines

_WIDTH = 98  # columns
_RANDOM = re.compile(
    r"rand|dropout|bernoulli|normal|multinomial|poisson|rrelu|exponential_|uniform_|geometric_|cauchy_"
)
_IN_PLACE = re.compile(
    r"\.[a-z]\w*[a-z0-9]_\(|\bout=|_foreach_|\]\s*=[^=]|torch\.ops\.(?!aten|prims|higher_order)|[-+*/|&^]="
)
_ASYNCHRONOUS = re.compile(r"['\"](cuda|xpu)(?::\d+)?['\"]")
_COMPLEX = re.compile(r"complex|\bfft\b|\bcfloat\b|\bcdouble\b")
_BUILTIN_ERRORS = frozenset(
    [
        "ArithmeticError",
        "AssertionError",
        "AttributeError",
        "IndexError",
        "KeyError",
        "NotImplementedError",
        "OverflowError",
        "RuntimeError",
        "TypeError",
        "ValueError",
        "ZeroDivisionError",
    ]
)
_SHORTEST_COMMENT = 10  # characters


@dataclass(frozen=True)
class Wanted:
    """What the script is to show.

    `whole`: results of every kind are compared, each run makes its own inputs, and NaN equals NaN; else only what
    differs is compared, in the fewest lines that may do.
    """

    kind: Kind
    difference: Difference | None = None  # the one that was seen first
    raises: str = ""  # the exception of eager that the compiled program loses
    comment: str = ""  # how the last line fails
    header: str = ""  # the docstring
    whole: bool = True
    rewritten: bool = (
        True  # public names stand for private ones, and `with` blocks for calls that open and close a region
    )

    @property
    def form(self) -> str:
        """The kind of difference; "" where none was seen."""
        return self.difference.kind if self.difference else ""

    @property
    def place(self) -> str:
        """The place of the difference; "" where none was seen."""
        return self.difference.place if self.difference else ""


@dataclass(frozen=True)
class Parts:
    """The texts of a program, as its script has them."""

    recipe: Recipe
    graph: str
    function: str  # its name
    bodies: tuple[str, ...]  # of higher-order operators
    inputs: tuple[str, ...]  # lines
    calls: tuple[tuple[str, ...], ...]  # the names of the arguments of each
    tensors: tuple[str, ...]  # arguments that are tensors
    leaves: tuple[str, ...]  # those that get gradients
    single: bool  # the graph returns one result, and no tuple
    made_by: str  # the expression of all calls, where a function makes them
    code: str  # all of these texts
    entry: Arguments | None  # for torch.export and the like
    defined: frozenset[str]  # names of the preamble
    taken: frozenset[str]  # all names

    def free(self, name: str) -> str:
        """`name`, if the program has no such name; else another one."""
        return name if name not in self.taken else f"repro_{name}"

    @property
    def functions(self) -> str:
        """The text of what runs."""
        return "\n".join([*self.bodies, self.graph])


@dataclass(frozen=True)
class Run:
    """The last lines. `eager_at`, `compiled_at`: how many come before the first that runs in eager, and compiles."""

    lines: tuple[str, ...]
    eager_at: int
    compiled_at: int
    before: tuple[Sequence[str], ...] = ()  # blocks of definitions
    as_class: bool = False  # the graph is the class of a module
    modules: tuple[str, ...] = ()  # of the standard library, that the lines need


def run_of(parts: Parts, wanted: Wanted) -> Run:
    """The lines for `parts`."""
    if wanted.kind.policy.eager_raises:
        return _lost_exception(parts, wanted)
    if wanted.whole or not _shares_inputs(parts, wanted):
        return _with_function(parts, wanted)
    return _at_top_level(parts, wanted)


def indented(lines: Sequence[str]) -> list[str]:
    """The lines one level deeper."""
    return [f"    {line}" if line else line for line in lines]


def _shares_inputs(parts: Parts, wanted: Wanted) -> bool:
    """Whether eager and compiled code can run with the same inputs, without a function around them."""
    recipe = parts.recipe
    unusual = (
        len(parts.calls) > 1
        or recipe.warm_caches
        or recipe.compiled_autograd
        or wanted.form in ("alias", "requires_grad")
        or wanted.place == ARGUMENT
        or bool(_RANDOM.search(parts.functions) or _IN_PLACE.search(parts.functions))
    )
    if recipe.backward != "none":
        around = recipe.contexts or recipe_code.forward_regions(recipe)
        unusual = unusual or bool(around) or recipe.backward != "sum" or not parts.single or not parts.leaves
    return not unusual


def _at_top_level(parts: Parts, wanted: Wanted) -> Run:
    recipe, (arguments,) = parts.recipe, parts.calls
    as_class = parts.entry is not None and not parts.entry.parameters
    eager, compiled, setup = (
        parts.function,
        recipe_code.compile_call(recipe, parts.function, parts.defined),
        list[str](),
    )
    if parts.entry is not None and as_class:
        eager = "model"
        given = Arguments(arguments, (), tuple((_given(parts, name), dims) for name, dims in parts.entry.dynamic))
        setup, compiled = compile_lines(recipe, given, "model")
    elif parts.entry is not None:
        compiled = parts.free("compiled")
    passed = f"({', '.join(arguments)})"
    compares, of_output = _compares(parts, wanted), wanted.place == OUTPUT
    runs = [
        _ran(parts, f"{function}{passed}", gradients=compares and not of_output, only_outputs=compares and of_output)
        for function in (eager, compiled)
    ]
    lines = [f"{eager} = {parts.free('Model')}()"] if as_class else []
    lines.append(f"expected = {runs[0]}" if compares else runs[0])
    at = len(lines)
    lines += [*setup, *_last(runs[1], parts, wanted), *_synchronized(parts, wanted)]
    seed = [f"torch.manual_seed({recipe_code.seed(recipe)})"] if _RANDOM.search("\n".join(parts.inputs)) else []
    head = [*seed, *parts.inputs]
    around = ", ".join(filter(None, [*recipe.contexts, recipe_code.forward_regions(recipe)]))
    if around:
        first = len(head) + 1
        return Run((*head, f"with {around}:", *indented(lines)), first, first + at, as_class=as_class)
    return Run((*head, *lines), len(head), len(head) + at, as_class=as_class)


def _given(parts: Parts, name: str) -> str:
    """The argument that is given for the parameter `name` of the graph."""
    assert parts.entry is not None
    return dict(zip(parts.entry.names, parts.calls[0], strict=True))[name]


def _ran(parts: Parts, call: str, *, gradients: bool, only_outputs: bool) -> str:
    """The expression that runs the graph, and its backward unless only the outputs are compared."""
    if parts.recipe.backward == "none" or only_outputs:
        return call
    summed = f"{call}.abs().sum()" if _COMPLEX.search(parts.code) else f"{call}.sum()"
    if not gradients:
        return f"{summed}.backward()"
    of = parts.leaves[0] if len(parts.leaves) == 1 else f"({', '.join(parts.leaves)})"
    return f"torch.autograd.grad({summed}, {of})"


def _compares(parts: Parts, wanted: Wanted) -> bool:
    """Whether the results are compared."""
    return wanted.kind is Kind.ACCURACY or (parts.recipe.check and wanted.whole and not wanted.kind.policy.eager_raises)


def _last(run: str, parts: Parts, wanted: Wanted) -> list[str]:
    """The line that fails."""
    if not _compares(parts, wanted):
        return [_commented(run, wanted.comment)]
    line = f"torch.testing.assert_close({run}, expected{_tolerances(parts, wanted)})"
    if len(line) <= _WIDTH:
        return [_commented(line, wanted.comment)]
    line = f"torch.testing.assert_close(actual, expected{_tolerances(parts, wanted)})"
    return [f"actual = {run}", _commented(line, wanted.comment)]


def _tolerances(parts: Parts, wanted: Wanted) -> str:
    """Further arguments of `assert_close`."""
    recipe = parts.recipe
    stated = recipe.rtol is not None or recipe.atol is not None
    options = [recipe_code.tolerances(recipe)] if stated or wanted.whole else []
    options += ["check_stride=True"] if wanted.form == "stride" else []
    return "".join(f", {option}" for option in options)


def _commented(line: str, comment: str) -> str:
    """`line` with the comment behind it, as many words as there is room for."""
    words, room, kept = comment.split(), _WIDTH - len(line) - len("  #  …"), ""
    while words and len(kept) + len(words[0]) < room:
        kept = f"{kept} {words.pop(0)}".strip()
    return f"{line}  # {kept}{' …' * bool(words)}" if len(kept) >= _SHORTEST_COMMENT else line


def _synchronized(parts: Parts, wanted: Wanted) -> list[str]:
    """The call that waits for the accelerator's kernels, whose errors are raised there at the latest."""
    may_be_late = wanted.kind is Kind.RUNTIME_ERROR or wanted.kind.policy.ends_process
    device = _ASYNCHRONOUS.search(parts.code) if may_be_late else None
    return [f"torch.{device[1]}.synchronize()"] if device else []


def _compiled_function(parts: Parts) -> str:
    """The expression of the compiled function, where it is passed on."""
    if parts.entry is not None:
        return parts.free("compiled")
    return recipe_code.compile_call(parts.recipe, parts.function, parts.defined)


def _with_function(parts: Parts, wanted: Wanted) -> Run:
    run, recipe = parts.free("run"), parts.recipe
    compiled = f"{run}({_compiled_function(parts)})"
    expected = f"{run}({parts.function})"
    lines = [f"expected = {expected}" if _compares(parts, wanted) else expected]
    around = recipe_code.compiled_autograd(recipe, parts.defined)
    if recipe.warm_caches:
        warm = [f"{compiled}  # fills the caches", "torch._dynamo.reset()"]
        lines += [f"with {around}:", *indented(warm[:1]), warm[1]] if around else warm
    if around and _compares(parts, wanted):
        lines += [f"with {around}:", f"    actual = {compiled}", *_last("actual", parts, wanted)]
    elif around:
        lines += [f"with {around}:", f"    {compiled}"]
    else:
        lines += _last(compiled, parts, wanted)
    return Run(tuple(lines), 0, 1, (*_helpers(parts, wanted), _run_function(run, parts, wanted)))


def _lost_exception(parts: Parts, wanted: Wanted) -> Run:
    """Eager raises an exception, and compiled code must raise one, too."""
    recipe = parts.recipe
    shares = not wanted.whole and parts.entry is None and recipe.backward == "none" and _shares_inputs(parts, wanted)
    raised = wanted.raises.rsplit(".", 1)[-1]
    raised = raised if raised in _BUILTIN_ERRORS else "Exception"
    around = recipe_code.compiled_autograd(recipe, parts.defined)
    entered = f"with {around}, raises({raised}):" if around else f"with raises({raised}):"
    run = f"({', '.join(parts.calls[0])})" if shares else parts.free("run")
    calls = [
        f"{function}{run}" if shares else f"{run}({function})"
        for function in (parts.function, _compiled_function(parts))
    ]
    warm = [f"    {calls[1]}  # fills the caches"] if recipe.warm_caches else []
    regions = recipe_code.forward_regions(recipe) if shares else ""
    around = ", ".join(filter(None, [*(recipe.contexts if shares else ()), regions]))
    eager, entered = (f"{head[:-1]}, {around}:" if around else head for head in (f"with raises({raised}):", entered))
    seed = [f"torch.manual_seed({recipe_code.seed(recipe)})"] if _RANDOM.search("\n".join(parts.inputs)) else []
    head = [*seed, *parts.inputs] if shares else []
    lines = (
        *head,
        "raises = unittest.TestCase().assertRaises",
        eager,
        f"    {calls[0]}",
        *([entered, *warm, "torch._dynamo.reset()"] if warm else []),
        entered,
        f"    {_commented(calls[1], wanted.comment)}",
    )
    before = () if shares else (_run_function(run, parts, wanted),)
    return Run(lines, len(head) + 1, len(head) + 3, before, modules=("unittest",))


def _helpers(parts: Parts, wanted: Wanted) -> list[list[str]]:
    if wanted.form != "alias" or not _compares(parts, wanted):
        return []
    return [
        [
            f"def {parts.free('aliases')}(*values):",
            "    tensors = [value for value in values if isinstance(value, torch.Tensor)]",
            "    storages = [tensor.untyped_storage().data_ptr() for tensor in tensors]",
            "    return [storages.index(storage) for storage in storages]",
        ]
    ]


def _run_function(name: str, parts: Parts, wanted: Wanted) -> list[str]:
    """The function that makes the inputs, runs the function that it gets, and returns what is compared."""
    recipe, function = parts.recipe, parts.free("function")
    seed = [f"torch.manual_seed({recipe_code.seed(recipe)})"] if _RANDOM.search(parts.code) else []
    head = [f"def {name}({function}):", *indented([*seed, *parts.inputs])]
    compares = _compares(parts, wanted)
    if len(parts.calls) == 1 and not parts.made_by:
        body = _one_call(parts, f"{function}({', '.join(parts.calls[0])})", wanted)
        body += [f"return {_results(parts, parts.calls[0], wanted)}"] if compares else []
        if len(body) == 2 and body[0].startswith("outputs = ") and body[1] == "return outputs":
            body = [f"return {body[0].removeprefix('outputs = ')}"]
        return [*head, *indented(body)]
    made = ", ".join(f"({', '.join(call)}{',' * (len(call) == 1)})" for call in parts.calls)
    body = _one_call(parts, f"{function}(*args)", wanted)
    if compares:
        body.append(f"results.append({_results(parts, ('*args',), wanted)})")
    loop = [*(["results = []"] if compares else []), f"for args in {parts.made_by or f'[{made}]'}:", *indented(body)]
    return [*head, *indented([*loop, *(["return results"] if compares else [])])]


def _one_call(parts: Parts, call: str, wanted: Wanted) -> list[str]:
    """The lines of one call and its backward."""
    recipe, regions = parts.recipe, recipe_code.forward_regions(parts.recipe)
    forward = f"outputs = {call}"
    lines = [f"with {regions}:", f"    {forward}"] if regions else [forward]
    lines += _backward(parts)
    if recipe.contexts:
        lines = [f"with {', '.join(recipe.contexts)}:", *indented(lines)]
    return [*lines, *_synchronized(parts, wanted)]


def _backward(parts: Parts) -> list[str]:
    recipe = parts.recipe
    if recipe.backward == "none":
        return []
    outputs = "[outputs]" if parts.single else "outputs"
    differentiable = f"for out in {outputs} if isinstance(out, torch.Tensor) and out.requires_grad"
    if recipe.backward == "sum":
        one = ".abs().sum()" if _COMPLEX.search(parts.code) else ".sum()"
        return [f"outputs{one}.backward()" if parts.single else f"sum(out{one} {differentiable}).backward()"]
    return [
        f"torch.manual_seed({recipe_code.seed(recipe)})",
        f"outs = [out {differentiable}]",
        "torch.autograd.backward(outs, [torch.randn(out.shape, device=out.device).to(out.dtype) for out in outs])",
    ]


def _results(parts: Parts, arguments: Sequence[str], wanted: Wanted) -> str:
    """The expression of what is compared: the results, and whatever else was seen to differ."""
    several = arguments == ("*args",)
    given = "args" if several else f"({', '.join(arguments)}{',' * (len(arguments) == 1)})"
    outputs = "[outputs]" if parts.single else "outputs"
    tensors = f"for out in {outputs} if isinstance(out, torch.Tensor)"
    pairs = [("outputs", _kept_outputs(parts, outputs) if several else "outputs")]
    if parts.recipe.backward != "none":
        grads = "[arg.grad for arg in args if isinstance(arg, torch.Tensor) and arg.is_leaf]"
        named = f"[{', '.join(f'{name}.grad' for name in parts.leaves if name in arguments)}]"
        pairs.append(("gradients", grads if several else named))
    if _IN_PLACE.search(parts.functions) or wanted.place == ARGUMENT:
        buffers = "[arg for arg in args if not isinstance(arg, torch.nn.Buffer)]"
        has_buffers = parts.entry is not None and any("torch.nn.Buffer(" in line for line in parts.inputs)
        pairs.append(("inputs", buffers.replace("in args", f"in {given}") if has_buffers else given))
    match wanted.form:
        case "stride":
            pairs.append(("strides", f"[out.stride() {tensors}]"))
        case "requires_grad":
            pairs.append(("requires_grad", f"[out.requires_grad {tensors}]"))
        case "alias":
            pairs.append(("aliases", f"{parts.free('aliases')}(*{given}, *{outputs})"))
    if len(pairs) == 1:
        return pairs[0][1]
    return "{" + ", ".join(f'"{name}": {text}' for name, text in pairs) + "}"


def _kept_outputs(parts: Parts, outputs: str) -> str:
    """The outputs of one of several calls; copies, where the next call may write over them."""
    recipe = parts.recipe
    asked = recipe.mode in ("reduce-overhead", "max-autotune") or "cudagraphs" in str(
        {**recipe.options, **recipe.config}
    )
    buffers = parts.entry is not None and any("torch.nn.Buffer(" in line for line in parts.inputs)
    if not buffers and not (asked and "cuda" in parts.code):
        return "outputs"
    return f"[out.clone() if isinstance(out, torch.Tensor) else out for out in {outputs}]"
