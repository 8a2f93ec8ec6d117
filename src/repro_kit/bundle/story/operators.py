"""The operators of a graph, and the construct of a script, as maintainers name them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from repro_kit.bundle.story.failing_call import NOWHERE, Spot, calls_at
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


_CUSTOM = "custom operator"


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


def subjects(found: Sequence[Operator]) -> list[Operator]:
    """The operators that a title names: custom ones, a single one with its neighbours; else all, or all but indices."""
    custom = [each for each in found if each.custom]
    if not custom:
        return [each for each in found if each.name != _INDEX] or list(found)
    if len(custom) == 1:
        at = found.index(custom[0])
        return [replace(custom[0], full=custom[0].plain + _beside(found[:at], found[at + 1 :]))]
    names = [f"{_CUSTOM}s {custom[0].custom}", *(each.custom for each in custom[1:])]
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
    for function in program.functions():
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
    custom = custom_operator(statement.callee)
    if custom:
        return Operator(name, f"{_CUSTOM} {custom}", f"{_CUSTOM} {custom}", custom)
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
    return next((short + callee.removeprefix(home) for home, short in _HOMES if callee.startswith(home)), name)


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


_COMPILERS = ("compile", "export", "draft_export", "aoti_compile_and_package", "optimize")
_SETTER = re.compile(r"(?:^|\.)(?:_?(?:set|use|enable|disable|register)_\w+|(?:manual_)?seed(?:_all)?)$")
_OF_TORCH = re.compile(r"(?:torch|F)\.[\w.]+")  # a function of torch by its name, and no method of what one returns
_WRITES = re.compile(r"\.[a-z]\w*(?<!_)_$")  # a method that changes its tensor: `x.t_`
LONGEST_CODE = 200_000  # characters of code that is read for a title; a stranger's may be of any length
_INDEX = "index"  # the name of ``x[i]`` among the operators
_LONGEST_INDEX = 24  # characters of an index that a title writes out
_LONGEST = 44  # characters of a call that is named with its arguments
SUBCLASS, _TENSORS = "a tensor subclass", ("torch.Tensor", "Tensor")
_MAKERS = re.compile("arange|as_tensor|empty|eye|full|linspace|ones|rand|randint|randn|tensor|zeros")
#: A function whose backward the script defines, as a title names it, and its bases.
OWN_FUNCTION, _FUNCTIONS = "a custom autograd.Function", ("torch.autograd.Function", "autograd.Function", "Function")
_DEFINES = ("torch.library.custom_op", "torch.library.triton_op")
_CONDITIONS = ("mode", "dynamic", "fullgraph")
#: Functions of Python that a script has for other reasons than its failure.
_PLUMBING = ("print", "range", "len", "super", "isinstance", "zip", "enumerate")

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Construct:
    """What a script compiles. `calls`: as a title writes them, the likeliest first; `settings`: of the compile call."""

    calls: tuple[str, ...] = ()
    is_setter: bool = False  # the first call sets a state of torch or of Python, and is called for that alone
    settings: tuple[str, ...] = ()
    is_certain: bool = False  # the calls are those of the line that fails, set a state, or are the only one


def construct_of(source: str, spot: Spot = NOWHERE) -> Construct:
    """The construct in `source`, unless that is very long; at `spot`, where the line that fails is known."""
    if len(source) > LONGEST_CODE:
        return Construct()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Construct()
    compiles = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_compiler(node.func)]
    bodies = [*_compiled(tree, compiles)]
    defined = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    calls = [inner for body in bodies for call in _calls(body) for inner in _unfolded(call, defined)]
    marks = [_decorator(call, defined) for call in calls if _decorator(call, defined)]
    at_line = calls_at(spot, calls, source)
    setters = [call for call in calls if _SETTER.search(ast.unparse(call.func))]
    torchs = sorted((call for call in calls if _OF_TORCH.fullmatch(ast.unparse(call.func))), key=_rank)
    applies = _applies(tree)
    owns = [call for call in calls if ast.unparse(call.func) in applies]
    writes = [call for call in calls if _WRITES.search(ast.unparse(call.func))]
    chosen = at_line or setters or owns or torchs or writes or calls
    named = [OWN_FUNCTION if call in owns else _named(call) for call in chosen] or [
        *filter(None, map(_result, bodies))
    ][:1]
    return Construct(
        tuple(dict.fromkeys([*marks, *named])),
        bool(chosen) and not marks and chosen[0] in setters,
        (*_settings(compiles), *[SUBCLASS] * any(map(_is_subclass, ast.walk(tree)))),
        bool(at_line or setters or len(calls) == 1),
    )


def _applies(tree: ast.Module) -> set[str]:
    """``Scale.apply`` of each class that says itself how its result is differentiated."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {f"{each.name}.apply" for each in classes if any(ast.unparse(base) in _FUNCTIONS for base in each.bases)}


def _rank(call: ast.Call) -> int:
    """Where a call of torch stands in a title: custom operators, then what is computed, then its inputs."""
    function = ast.unparse(call.func)
    return 0 if custom_operator(function) else 2 if makes_tensors(function) else 1


def makes_tensors(function: str) -> bool:
    """Whether `function`, by its full name, makes tensors and computes nothing of them."""
    return bool(_MAKERS.fullmatch(function.removeprefix("torch.")))


_OWN_FRAME = re.compile(r'^ *File "(?:files/)?(?:repro|reduced)\.py", line \d+, in (\w+)', re.MULTILINE)


def raising_function(log: str) -> str:
    """The function of a reduced script that raised while the compiler called it; "" where the traceback shows none."""
    return next(reversed(_OWN_FRAME.findall(log.partition("\nfrom user code:")[0])), "")


def _unfolded(call: ast.Call, defined: Mapping[str, ast.FunctionDef]) -> list[ast.Call]:
    """The calls of a plain function of the script in place of the call to it."""
    function = defined.get(ast.unparse(call.func))
    plain = function is not None and not function.decorator_list
    return (_calls(function) or [call]) if function is not None and plain else [call]


def _decorator(call: ast.Call, defined: Mapping[str, ast.FunctionDef]) -> str:
    """What torch marks the called function of the script with; "" if there is no mark."""
    function = defined.get(ast.unparse(call.func))
    return next(filter(None, map(_mark, function.decorator_list if function else ())), "")


def _mark(decorator: ast.expr) -> str:
    """What `decorator` makes of a function, if it is torch's: an operator of its own goes by its name."""
    mark = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
    match decorator:
        case ast.Call(args=[ast.Constant(value=str(name)), *_]) if mark in _DEFINES:
            return f"{_CUSTOM} {name}"
    return mark if mark.startswith("torch.") else ""


def _is_compiler(node: ast.expr) -> bool:
    words = ast.unparse(node).split(".")
    return words[-1] in _COMPILERS and words[0] not in ("re", "builtins") and words != ["compile"]


def _compiled(tree: ast.Module, compiles: Sequence[ast.Call]) -> Iterator[_Function]:
    """The functions that are given to the compiler: by name, in place, or by a decorator; methods of their classes."""
    given = [call.args[0] for call in compiles if call.args]
    yield from (node for node in given if isinstance(node, ast.Lambda))
    names = _reached(tree, {ast.unparse(node).partition("(")[0].rpartition(".")[2] for node in given})
    for node in ast.walk(tree):
        is_given = isinstance(node, ast.FunctionDef | ast.ClassDef) and (
            node.name in names or any(_decorates(decorator) for decorator in node.decorator_list)
        )
        if is_given and isinstance(node, ast.ClassDef):
            yield from (part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "forward")
        elif is_given and isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names:
            yield from [node.value] if isinstance(node.value, ast.Lambda) else []


def _reached(tree: ast.Module, names: set[str]) -> set[str]:
    """`names`, and what they are made of: ``step`` of ``torch.vmap(step)``, ``Net`` of ``model = Net()``."""
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    for node in reversed(made):
        if isinstance(node.value, ast.Call) and ast.unparse(node.targets[0]) in names:
            parts = [node.value.func, *node.value.args]
            names = names | {part.id for part in parts if isinstance(part, ast.Name)}
    return names


def _decorates(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("partial") and node.args:
        return _is_compiler(node.args[0])
    return _is_compiler(node.func if isinstance(node, ast.Call) else node)


def _calls(function: _Function) -> list[ast.Call]:
    body = function.body if isinstance(function.body, list) else [function.body]
    calls = [node for part in body for node in ast.walk(part) if isinstance(node, ast.Call)]
    kept = [call for call in calls if ast.unparse(call.func) not in _PLUMBING]
    return sorted(kept, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))


def _result(function: _Function) -> str:
    """The expression that a function without calls computes last, if it is short."""
    last = function.body[-1] if isinstance(function.body, list) else function.body
    value = getattr(last, "value", None) if isinstance(last, ast.stmt) else last
    text = ast.unparse(value) if isinstance(value, ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Compare) else ""
    return text if len(text) <= _LONGEST else ""


def _is_subclass(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base) in _TENSORS for base in node.bases)


def _named(call: ast.Call) -> str:
    function = ast.unparse(call.func)
    if custom := custom_operator(function):
        return f"{_CUSTOM} {custom}"
    if _OF_TORCH.fullmatch(function):
        plain = function if "." in function.removeprefix("torch.") or _SETTER.search(function) else function[6:]
        plain = plain.replace("torch.nn.functional.", "F.")
        return with_options(plain, plain.rpartition(".")[2], call)
    whole = ast.unparse(call)
    if len(whole) <= _LONGEST and "\n" not in whole:
        return whole
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr=before)) as receiver, attr=name):
            chain = f".{_written(before, receiver)}.{_written(name, call)}"
            return chain if len(chain) <= _LONGEST else f".{name}()"
        case ast.Attribute(attr=name):
            return f".{name}()"
    return f"{function}()"


def _written(name: str, call: ast.Call) -> str:
    return ast.unparse(ast.Call(ast.Name(name), call.args, call.keywords))


def _settings(compiles: Sequence[ast.Call]) -> Iterator[str]:
    for keyword in (keyword for call in compiles for keyword in call.keywords if keyword.arg in _CONDITIONS):
        if isinstance(keyword.value, ast.Constant) and keyword.value.value is not None:
            yield f"{keyword.arg}={keyword.value.value!r}"
