"""The operators of a graph, as maintainers name them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from repro_kit.diagnosis.answers import GeneratedKernel
from repro_kit.graph import Program, TensorInput
from repro_kit.graph.effects import NAMESPACES, effects_of, op_name
from repro_kit.graph.program import Statement
from repro_kit.graph.python_code import with_slices

_MOST_OPTIONS = 2  # of one operator
#: Homes of functions that are named as in code. Those of others are known by their bare name.
_HOMES = (
    ("torch.nn.functional.", "F."),
    ("torch.linalg.", "linalg."),
    ("torch.fft.", "fft."),
    ("torch.special.", "special."),
    ("torch.func.", "torch.func."),
    ("torch.nested.", "torch.nested."),
    ("torch.nn.attention.flex_attention.", ""),
)
#: Parameters of functions whose options stand in a captured graph by position, since their Python signatures are
#: written in C++ (native_functions.yaml). `x.f(…)` has the first one before the dot.
_PARAMETERS = {
    name: tuple(words.split())
    for names, words in {
        "avg_pool1d avg_pool2d avg_pool3d": "input kernel_size stride padding ceil_mode count_include_pad",
        "max_pool1d max_pool2d max_pool3d": "input kernel_size stride padding dilation ceil_mode",
        "max_pool1d_with_indices max_pool2d_with_indices": "input kernel_size stride padding dilation ceil_mode",
        "index_put index_put_": "input indices values accumulate",
        "put put_": "input index source accumulate",
        "std var": "input dim unbiased keepdim",
        "sum mean prod amax amin all any argmax argmin max min median mode logsumexp": "input dim keepdim",
        "norm": "input p dim keepdim",
        "sort argsort": "input dim descending",
        "topk": "input k dim largest sorted",
        "kthvalue": "input k dim keepdim",
        "tril_indices triu_indices": "row col offset",
        "batch_norm": "input weight bias running_mean running_var training momentum eps cudnn_enabled",
        "instance_norm": "input weight bias running_mean running_var use_input_stats momentum eps cudnn_enabled",
        "dropout feature_dropout alpha_dropout": "input p train inplace",
        "upsample_linear1d upsample_bilinear2d upsample_bicubic2d": "input output_size align_corners",
        "upsample_trilinear3d": "input output_size align_corners",
        "_upsample_bilinear2d_aa _upsample_bicubic2d_aa": "input output_size align_corners",
        "embedding": "weight input padding_idx scale_grad_by_freq sparse",
        "embedding_bag": "weight input offsets scale_grad_by_freq mode sparse per_sample_weights include_last_offset",
        "scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal",
        "grid_sampler": "input grid interpolation_mode padding_mode align_corners",
        "pad": "input pad mode value",
        "interpolate upsample": "input size scale_factor mode align_corners",
        "gru lstm": "input hx params has_biases num_layers dropout train bidirectional batch_first",
        "cumsum cumprod softmax log_softmax": "input dim dtype",
        "convolution conv_transpose2d": "input weight bias stride padding dilation transposed",
        "unique_dim": "input dim sorted return_inverse return_counts",
    }.items()
    for name in names.split()
}
#: Options that are on where nothing is said.
_ON = ("count_include_pad", "largest", "sorted", "unbiased", "cudnn_enabled")
#: torch.func's transformations, by what a captured graph has of them.
_TRANSFORMS = (
    ("_vmap_increment_nesting", "vmap"),
    ("_grad_increment_nesting", "grad"),
    ("_jvp_increment_nesting", "jvp"),
)


CUSTOM = "custom operator"
#: A function whose backward the program defines, as a title names it, and how a captured graph calls one.
OWN_FUNCTION, _OWN_APPLY = "a custom autograd.Function", "AutogradFunction.apply"
_INDEX = "index"  # the name of ``x[i]`` among the operators
_LONGEST_INDEX = 24  # characters of an index that a title writes out


@dataclass(frozen=True)
class Operator:
    """An operator of the graph: its bare name, and how a title writes it, with and without its telling options."""

    name: str
    plain: str
    full: str
    custom: str = ""  # "mine::double" of an operator that the program, or a library, registers


def operators(program: Program) -> tuple[Operator, ...]:
    """The operators that the program computes with, each once, in order."""
    computing = list(_computing(program))
    own = [statement for statement in computing if "_functorch" not in statement.callee]  # the rest are transformations
    return tuple(dict.fromkeys(map(operator, own or computing)))


def outermost(program: Program) -> str:
    """The only operator that computes in the graph itself, where it has bodies; "" if there are several."""
    names = dict.fromkeys(operator(each).plain for each in _computing(program.with_(bodies=())))
    return next(iter(names)) if len(names) == 1 and program.bodies else ""


def subjects(found: Sequence[Operator]) -> list[Operator]:
    """The operators that a title names: custom ones, a single one with its neighbours; else all, or all but indices.

    A function whose backward the program defines comes before torch's operators.
    """
    custom = [each for each in found if each.custom]
    own = [each for each in found if each.plain == OWN_FUNCTION]
    if own and not custom:
        return own
    if not custom:
        return [each for each in found if each.name != _INDEX] or list(found)
    if len(custom) == 1:
        at = found.index(custom[0])
        return [replace(custom[0], full=custom[0].plain + _beside(found[:at], found[at + 1 :]))]
    names = [f"{CUSTOM}s {custom[0].custom}", *(each.custom for each in custom[1:])]
    return [Operator(each.name, name, name, each.custom) for each, name in zip(custom, names, strict=True)]


def _beside(before: Sequence[Operator], after: Sequence[Operator]) -> str:
    match [*before], [*after]:
        case [], []:
            return ""
        case [one], [other]:
            return f" between {one.plain} and {other.plain}"
        case [one], []:
            return f" after {one.plain}"
        case [], [other]:
            return f" before {other.plain}"
    return f" with {len(before) + len(after)} other operators"


def are_fused(found: Sequence[Operator], kernel: GeneratedKernel | None) -> bool:
    """Whether the one generated kernel computes all of these operators, as its name tells."""
    _, _, names = (kernel.name if kernel else "").partition("_fused_")
    return len(found) > 1 and all(f"_{each.name.strip('_')}_" in f"_{names}_" for each in found)


def transforms(program: Program) -> tuple[str, ...]:
    """The transformations of torch.func that the graph is under, the outermost first."""
    called = [statement.callee for function in program.functions() for statement in function.statements]
    names = (next((word for name, word in _TRANSFORMS if callee.endswith(name)), "") for callee in called)
    return tuple(name for name in names if name)


def shares_memory(program: Program) -> bool:
    """Whether two arguments of a call are views of one tensor, or one is a view of the other."""
    homes = {line.name: line.base or line.name for line in program.inputs if isinstance(line, TensorInput)}
    calls = [[homes[name] for name in dict.fromkeys(call) if name in homes] for call in program.calls]
    return any(len(set(call)) < len(call) for call in calls)


def _computing(program: Program) -> Iterator[Statement]:
    """The statements of the graph, and then of the bodies that it calls."""
    for function in sorted(program.functions(), key=lambda each: each is not program.graph):
        for statement in function.statements:
            taken = statement.getitem is not None  # a part of a tuple
            if op_name(statement) and not taken and not effects_of(statement).state:
                yield statement


def operator(statement: Statement) -> Operator:
    """The operator of a statement."""
    name = op_name(statement)
    call = statement.expression
    if isinstance(call, ast.Subscript):
        index = with_slices(ast.unparse(call))
        plain = index if len(index) <= _LONGEST_INDEX else "indexing"
        return Operator(_INDEX, plain, plain)
    if not isinstance(call, ast.Call):
        return Operator(name, name, name)
    if statement.callee == _OWN_APPLY:
        return Operator(name, OWN_FUNCTION, OWN_FUNCTION)
    custom = custom_operator(statement.callee)
    if custom:
        return Operator(name, f"{CUSTOM} {custom}", f"{CUSTOM} {custom}", custom)
    plain = _called(statement.callee, name)
    return Operator(name, plain, with_options(plain, name, call))


def custom_operator(callee: str) -> str:
    """``mine::double`` of ``torch.ops.mine.double.default``; "" for what torch itself defines."""
    parts = callee.split(".")
    if parts[:2] != ["torch", "ops"] or len(parts) < 4 or parts[2] in NAMESPACES:
        return ""
    return f"{parts[2]}::{parts[3]}"


def _called(callee: str, name: str) -> str:
    parts = callee.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) >= 4:
        return parts[3] if parts[2] == "higher_order" else f"{parts[2]}.{parts[3]}"
    home, short = next(((home, short) for home, short in _HOMES if callee.startswith(home)), (callee, ""))
    own = callee.removeprefix(home)
    return short + own if own and "." not in own else name  # a dotted rest is a private home


def with_options(plain: str, name: str, call: ast.Call) -> str:
    """`plain` with the options of `call` that tell of a variant: truth values, words and dtypes."""
    options = [text for option, value in _given(name, call) if (text := _option(option, value))]
    return f"{plain}({', '.join(options[:_MOST_OPTIONS])})" if options else plain


def _given(name: str, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """(parameter, value) of the call's arguments; "" for a parameter that is not known."""
    parameters: Sequence[str] = _PARAMETERS.get(name, ())
    dotted = isinstance(call.func, ast.Attribute) and not ast.unparse(call.func).startswith(("torch.", "F."))
    names = parameters[1:] if dotted else parameters
    for at, value in enumerate(call.args):
        yield names[at] if at < len(names) else "", value
    for keyword in call.keywords:
        yield keyword.arg or "", keyword.value


def _option(name: str, value: ast.expr) -> str:
    match value:
        case ast.Constant(value=bool(on)) if name and on != (name in _ON):
            return f"{name}={on}"
        case ast.Constant(value=str(word)):
            return f"{name}={word!r}" if name else repr(word)
        case ast.Attribute() if name == "dtype":
            return f"dtype={ast.unparse(value)}"
    return ""
