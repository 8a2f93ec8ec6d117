"""The last lines of a plain script: run eager, compile, run, and compare."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.artefact import recipe_code
from repro_kit.artefact.recipe_code import Arguments, Parts, Wanted, compile_lines
from repro_kit.failure.kinds import Kind
from repro_kit.probe.repro_probe.protocol.failure_data import AFTER, ARGUMENT, GRADIENT, OUTPUT

_WIDTH = 98  # columns
_RANDOM = re.compile(
    r"rand|dropout|bernoulli|normal|multinomial|poisson|rrelu|exponential_|uniform_|geometric_|cauchy_"
)
_IN_PLACE = re.compile(
    r"\.[a-z]\w*[a-z0-9]_\(|\bout=|_foreach_|\]\s*=[^=]|torch\.ops\.(?!aten|prims|higher_order)|[-+*/|&^]="
)
_ASYNCHRONOUS = re.compile(r"['\"](cuda|xpu)(?::\d+)?['\"]")
_OUTPUTS = re.compile(r"(?<![\w.\"])outputs\b")
_COMPLEX = re.compile(r"complex|\bfft\b|\bcfloat\b|\bcdouble\b")
_BUILTIN_ERRORS = frozenset(
    {
        *("ArithmeticError", "AssertionError", "AttributeError", "IndexError", "KeyError", "NotImplementedError"),
        *("OverflowError", "RuntimeError", "TypeError", "ValueError", "ZeroDivisionError"),
    }
)
#: What of the results is compared, where the difference is in this place.
_ONLY = {OUTPUT: "outputs", GRADIENT: "gradients", ARGUMENT: "inputs"}
_LONGEST_ARGUMENTS = 60  # characters
_SHORTEST_COMMENT = 10  # characters


@dataclass(frozen=True)
class LastLines:
    """The last lines. `eager_at`, `compiled_at`: how many come before the first that runs in eager, and compiles."""

    lines: tuple[str, ...]
    eager_at: int
    compiled_at: int
    before: tuple[Sequence[str], ...] = ()  # blocks of definitions
    as_class: bool = False  # the graph is the class of a module
    modules: tuple[str, ...] = ()  # of the standard library, that the lines need


def run_of(parts: Parts, wanted: Wanted) -> LastLines:
    """The lines for `parts`."""
    if wanted.kind.policy.eager_raises:
        return _lost_exception(parts, wanted)
    shares = not wanted.whole and _shares_inputs(parts, wanted)
    if shares and _is_one_expression(parts, wanted):
        return _at_top_level(parts, wanted)
    return _with_function(parts, wanted, shares=shares and parts.entry is None)


def indented(lines: Sequence[str]) -> list[str]:
    """The lines one level deeper."""
    return [f"    {line}" if line else line for line in lines]


def _shares_inputs(parts: Parts, wanted: Wanted) -> bool:
    """Whether eager and compiled code can run with the same inputs, made once."""
    recipe = parts.recipe
    if len(parts.calls) > 1 or recipe.warm_caches or recipe.compiled_autograd or wanted.place == ARGUMENT:
        return False
    if wanted.form in ("alias", "requires_grad"):
        return False
    decides = _compares(parts, wanted) or wanted.kind.policy.eager_raises  # what the inputs hold, and what is drawn
    if decides and (_RANDOM.search(parts.functions) or _IN_PLACE.search(parts.functions)):
        return False
    if recipe.backward == "none":
        return True
    nested = recipe.contexts and recipe_code.forward_regions(recipe)
    return recipe.backward == "sum" and parts.single and bool(parts.leaves) and not nested


def _is_one_expression(parts: Parts, wanted: Wanted) -> bool:
    """Whether a run is one expression: its backward is in all regions that its forward is in."""
    compares_outputs = _compares(parts, wanted) and wanted.place == OUTPUT
    return parts.recipe.backward == "none" or compares_outputs or not recipe_code.forward_regions(parts.recipe)


def _at_top_level(parts: Parts, wanted: Wanted) -> LastLines:
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
    head = _made(parts)
    around = ", ".join(filter(None, [*recipe.contexts, recipe_code.forward_regions(recipe)]))
    if around:
        first = len(head) + 1
        return LastLines((*head, f"with {around}:", *indented(lines)), first, first + at, as_class=as_class)
    return LastLines((*head, *lines), len(head), len(head) + at, as_class=as_class)


def _made(parts: Parts) -> list[str]:
    """The lines that make the inputs."""
    draws = _RANDOM.search("\n".join([*parts.inputs, parts.functions]))
    return [*([f"torch.manual_seed({recipe_code.seed(parts.recipe)})"] if draws else []), *parts.inputs]


def _given(parts: Parts, name: str) -> str:
    """The argument that is given for the parameter `name` of the graph."""
    assert parts.entry is not None
    return dict(zip(parts.entry.names, parts.calls[0], strict=True))[name]


def _ran(parts: Parts, call: str, *, gradients: bool, only_outputs: bool) -> str:
    """The expression that runs the graph, and its backward unless only the outputs are compared."""
    if parts.recipe.backward == "none" or only_outputs:
        return call
    summed = f"{call}.abs().sum()" if _COMPLEX.search(parts.code) else f"{call}.sum()"
    return _gradients(parts, summed) if gradients else f"{summed}.backward()"


def _gradients(parts: Parts, summed: str) -> str:
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
    stated = (recipe.rtol is not None or recipe.atol is not None) and not _is_exact(parts, wanted)
    # Where a right result has a NaN, eager would else fail against itself.
    options = [recipe_code.tolerances(recipe)] if stated or wanted.whole or wanted.form == "nan" else []
    options += ["check_stride=True"] if wanted.form == "stride" else []
    return "".join(f", {option}" for option in options)


def _is_exact(parts: Parts, wanted: Wanted) -> bool:
    """Whether nothing but one integer or boolean result is compared, to which no tolerance applies."""
    only_output = parts.single and wanted.place == OUTPUT and not wanted.whole
    return only_output and wanted.difference is not None and wanted.difference.exact


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


def _with_function(parts: Parts, wanted: Wanted, *, shares: bool = False) -> LastLines:
    """`shares`: both runs take the same inputs."""
    run, recipe = parts.free("run"), parts.recipe
    head = _made(parts) if shares else []
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
    function = _run_function(run, parts, wanted, shares=shares)
    return LastLines((*head, *lines), len(head), len(head) + 1, (*_helpers(parts, wanted), function))


def _lost_exception(parts: Parts, wanted: Wanted) -> LastLines:
    """Eager raises an exception, and compiled code must raise one, too."""
    recipe = parts.recipe
    shares = not wanted.whole and parts.entry is None and recipe.backward == "none" and _shares_inputs(parts, wanted)
    raised = wanted.raises.rsplit(".", 1)[-1]
    raised = raised if raised in _BUILTIN_ERRORS else "Exception"
    around = recipe_code.compiled_autograd(recipe, parts.defined)
    entered = f"with {around}, raises({raised}):" if around else f"with raises({raised}):"
    given = f"({', '.join(parts.calls[0])})" if shares else _made_in_place(parts, wanted)
    run = parts.free("run")
    calls = [
        f"{function}{given}" if given else f"{run}({function})"
        for function in (parts.function, _compiled_function(parts))
    ]
    warm = [f"    {calls[1]}  # fills the caches"] if recipe.warm_caches else []
    regions = recipe_code.forward_regions(recipe) if shares else ""
    around = ", ".join(filter(None, [*(recipe.contexts if shares else ()), regions]))
    eager, entered = (f"{head[:-1]}, {around}:" if around else head for head in (f"with raises({raised}):", entered))
    head = _made(parts) if shares else []
    lines = (
        *head,
        "raises = unittest.TestCase().assertRaises",
        eager,
        f"    {calls[0]}",
        *([entered, *warm, "torch._dynamo.reset()"] if warm else []),
        entered,
        f"    {_commented(calls[1], wanted.comment)}",
    )
    before = () if given else (_run_function(run, parts, wanted),)
    return LastLines(lines, len(head) + 1, len(head) + 3, before, modules=("unittest",))


def _made_in_place(parts: Parts, wanted: Wanted) -> str:
    """The arguments of a call that makes its inputs itself, each in one short expression; "" where that does not do."""
    plain = len(parts.calls) == 1 and not (parts.made_by or wanted.whole or parts.entry or parts.recipe.contexts)
    if not plain or parts.recipe.backward != "none" or recipe_code.forward_regions(parts.recipe):
        return ""
    made = dict(line.split(" = ", 1) for line in parts.inputs if " = " in line)
    alone = list(made) == list(parts.calls[0]) and len(made) == len(parts.inputs)
    drawn = _RANDOM.search(parts.code) or any(
        re.search(rf"\b{name}\b", text) for name in made for text in made.values()
    )
    arguments = f"({', '.join(made.values())})"
    return arguments if alone and not drawn and len(arguments) <= _LONGEST_ARGUMENTS else ""


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


def _run_function(name: str, parts: Parts, wanted: Wanted, *, shares: bool = False) -> list[str]:
    """The function that runs the function that it gets, and returns what is compared.

    It makes the inputs, unless it `shares` those of the script.
    """
    recipe, function = parts.recipe, parts.free("function")
    seed = [f"torch.manual_seed({recipe_code.seed(recipe)})"] if _RANDOM.search(parts.code) else []
    head = [f"def {name}({function}):", *indented([] if shares else [*seed, *parts.inputs])]
    compares = _compares(parts, wanted)
    if len(parts.calls) == 1 and not parts.made_by:
        body = _one_call(parts, f"{function}({', '.join(parts.calls[0])})", wanted)
        if shares and compares:  # gradients would add up
            *body, backward = body
            body.append(f"return {_gradients(parts, backward.removesuffix('.backward()'))}")
        elif compares:
            body.append(f"return {_results(parts, parts.calls[0], wanted)}")
        return [*head, *indented(_without_idle_outputs(body))]
    made = ", ".join(f"({', '.join(call)}{',' * (len(call) == 1)})" for call in parts.calls)
    body = _one_call(parts, f"{function}(*args)", wanted)
    if compares:
        body.append(f"results.append({_results(parts, ('*args',), wanted)})")
    body = _without_idle_outputs(body)
    loop = [*(["results = []"] if compares else []), f"for args in {parts.made_by or f'[{made}]'}:", *indented(body)]
    return [*head, *indented([*loop, *(["return results"] if compares else [])])]


def _without_idle_outputs(body: Sequence[str]) -> list[str]:
    """`body` without the name `outputs`, where nothing reads it, or only the return after it."""
    if len(body) == 2 and body[0].startswith("outputs = ") and body[1] == "return outputs":
        return [f"return {body[0].removeprefix('outputs = ')}"]
    if sum(len(_OUTPUTS.findall(line)) for line in body) > 1:
        return list(body)
    return [line.replace("outputs = ", "", 1) for line in body]


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
    if parts.single:
        drawn = "torch.randn(outputs.shape, device=outputs.device).to(outputs.dtype)"
        return [f"torch.manual_seed({recipe_code.seed(recipe)})", f"outputs.backward({drawn})"]
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
    only = _ONLY.get(wanted.place) if wanted.form in ("value", "nan") and not (wanted.whole or several) else None
    if _IN_PLACE.search(parts.functions) or wanted.place == ARGUMENT:
        buffers = f"[arg for arg in {given} if not isinstance(arg, torch.nn.Buffer)]"
        written = [wanted.difference.where.removesuffix(AFTER)] if only and wanted.difference else []
        taken = [name for name in parts.tensors if name in arguments]
        tensors_only = ", ".join([name for name in taken if name in written] or taken)
        pairs.append(("inputs", buffers if parts.has_buffers else f"({tensors_only},)" if only else given))
    match wanted.form:
        case "stride":
            pairs.append(("strides", f"[out.stride() {tensors}]"))
        case "requires_grad":
            pairs.append(("requires_grad", f"[out.requires_grad {tensors}]"))
        case "alias":
            pairs.append(("aliases", f"{parts.free('aliases')}(*{given}, *{outputs})"))
    if only in dict(pairs):
        return _alone(dict(pairs)[only])
    if len(pairs) == 1:
        return pairs[0][1]
    return "{" + ", ".join(f'"{name}": {text}' for name, text in pairs) + "}"


def _alone(text: str) -> str:
    """The expression of the only item of a list or tuple; `text` of several."""
    node = ast.parse(text, mode="eval").body
    return ast.unparse(node.elts[0]) if isinstance(node, ast.List | ast.Tuple) and len(node.elts) == 1 else text


def _kept_outputs(parts: Parts, outputs: str) -> str:
    """The outputs of one of several calls; copies, where the next call may write over them."""
    recipe = parts.recipe
    asked = recipe.mode in ("reduce-overhead", "max-autotune") or "cudagraphs" in str(
        {**recipe.options, **recipe.config}
    )
    if not parts.has_buffers and not (asked and "cuda" in parts.code):
        return "outputs"
    return f"[out.clone() if isinstance(out, torch.Tensor) else out for out in {outputs}]"
