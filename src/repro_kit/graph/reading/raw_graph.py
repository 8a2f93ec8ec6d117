"""A recorded graph's code in a form that can be traced again: public operators, launches of kernels, names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence

from repro_kit.errors import StageError
from repro_kit.graph.reading.graph_record import KernelRecord, LaunchRecord

_PREFIX = "torch.ops.higher_order."

#: Definitions that undo what Dynamo took apart: {name that desugared code calls: its definition}.
#: Sources: torch/_functorch/autograd_function.py (`AutogradFunctionApply`), torch/_higher_order_ops/scan.py,
#: torch/nn/attention/flex_attention.py (`BlockMask.as_tuple`; the raw operator's logsumexp is in base 2).
HELPERS = {
    "AutogradFunction": """class AutogradFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, forward, backward, *args):
        outputs, saved = forward(*args)
        ctx.save_for_backward(*saved)
        ctx.body = backward
        return outputs

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *ctx.body(*grads, *ctx.saved_tensors)""",
    "flat_scan": """def flat_scan(body, init, xs, additional):
    def step(carry, x):
        flat = body(*carry, *x, *additional)
        return list(flat[: len(init)]), list(flat[len(init) :])

    carry, outputs = torch._higher_order_ops.scan(step, list(init), list(xs))
    return [*carry, *outputs]""",
    "flat_flex": """def flat_flex(query, key, value, score_mod, mask, scale, options, buffers, others):
    from torch.nn.attention.flex_attention import BlockMask, flex_attention

    def score(score, b, h, q_idx, kv_idx):
        return score_mod(score, b, h, q_idx, kv_idx, *buffers)

    def mask_mod(b, h, q_idx, kv_idx):
        return mask[-1](b, h, q_idx, kv_idx, *others)

    block_mask = mask and BlockMask(mask[:2], *mask[2:10], mask[-3:-1], mask_mod)
    lse = options.get("OUTPUT_LOGSUMEXP", False)
    options = {name: value for name, value in options.items() if not name.startswith("OUTPUT_")}
    gqa = query.shape[1] != key.shape[1]
    result = flex_attention(query, key, value, score, block_mask, scale, gqa, lse, options)
    return (result[0], result[1] / 0.6931471805599453) if lse else (result,)""",
}


def desugar(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """`statements` with what Dynamo cannot trace again in public form. Other statements stay unchanged."""
    rewrite = _PublicForms()
    return [ast.fix_missing_locations(rewrite.visit(statement)) for statement in statements]


def helpers(code: str) -> str:
    """The definitions that desugared `code` needs."""
    return "\n\n\n".join(text for name, text in HELPERS.items() if f"{name}(" in code or f"{name}.apply(" in code)


def regions(statements: Iterable[ast.stmt]) -> set[str]:
    """Names of the bodies that raw `statements` call by `invoke_subgraph`; a program marks them with a decorator."""
    calls = [part for statement in statements for part in ast.walk(statement) if isinstance(part, ast.Call)]
    return {ast.unparse(call.args[0]) for call in calls if ast.unparse(call.func) == _PREFIX + "invoke_subgraph"}


class _PublicForms(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name == "torch._C._autograd._get_data_attr":  # torch/_dynamo/variables/tensor.py: of `x.data`
            return ast.Attribute(node.args[0], "data", ast.Load())
        rule = _RULES.get(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
        return rule(node) if rule is not None else node


def _checkpoint(node: ast.Call) -> ast.AST:
    # torch/_higher_order_ops/wrap.py: tag_activation_checkpoint(body, *arguments, **checkpoint's keywords)
    allowed = {"use_reentrant", "preserve_rng_state", "determinism_check", "debug"}
    keywords = [keyword for keyword in node.keywords if keyword.arg in allowed]
    if not any(keyword.arg == "use_reentrant" for keyword in keywords):
        keywords.append(ast.keyword(arg="use_reentrant", value=ast.Constant(value=False)))
    return ast.Call(func=_dotted("torch.utils.checkpoint.checkpoint"), args=node.args, keywords=keywords)


def _invoke_subgraph(node: ast.Call) -> ast.AST:
    # torch/_higher_order_ops/invoke_subgraph.py: invoke_subgraph(body, identifier, *operands)
    return ast.Call(func=node.args[0], args=node.args[2:], keywords=[])


def _wrap(node: ast.Call) -> ast.AST:
    # torch/_higher_order_ops/wrap.py: wrap(body, *arguments) only calls the body.
    return ast.Call(func=node.args[0], args=node.args[1:], keywords=node.keywords)


def _autograd_function(node: ast.Call) -> ast.AST:
    # autograd_function_apply(forward body, backward body, *arguments, indices of special outputs)
    special = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
    if special.get("non_differentiable_idx") or special.get("dirty_idx"):
        return node
    return ast.Call(func=_dotted("AutogradFunction.apply"), args=node.args, keywords=[])


def _while_loop(node: ast.Call) -> ast.AST:
    # Dynamo adds `mutated_arg_indices`, and takes no keywords (torch/_dynamo/variables/higher_order_ops.py).
    return ast.Call(func=node.func, args=node.args, keywords=[])


def _calls(name: str) -> Callable[[ast.Call], ast.AST]:
    """A rule that replaces the operator by the helper `name`, with the same arguments."""
    return lambda node: ast.Call(func=_dotted(name), args=node.args, keywords=node.keywords)


_RULES: dict[str, Callable[[ast.Call], ast.AST]] = {
    "tag_activation_checkpoint": _checkpoint,
    "autograd_function_apply": _autograd_function,
    "invoke_subgraph": _invoke_subgraph,
    "wrap": _wrap,
    "while_loop": _while_loop,
    "scan": _calls("flat_scan"),
    "flex_attention": _calls("flat_flex"),
}


def _dotted(name: str) -> ast.expr:
    return ast.parse(name, mode="eval").body


_OPERATOR = "torch.ops.higher_order.triton_kernel_wrapper_mutation"


def with_launches(statements: Iterable[ast.stmt], launches: Mapping[str, LaunchRecord]) -> list[ast.stmt]:
    """`statements` with launches in place of the operator. Raises StageError for what a launch cannot say."""
    return [_launched(statement, launches) for statement in statements]


def kernel_names(launches: Mapping[str, LaunchRecord]) -> set[str]:
    """The names of the kernels."""
    return {launch.kernel.name or "" for launch in launches.values()}


def _launched(statement: ast.stmt, launches: Mapping[str, LaunchRecord]) -> ast.stmt:
    if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
        return statement
    call = statement.value
    if ast.unparse(call.func) != _OPERATOR:
        return statement
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    launch = launches.get(f"{ast.unparse(given['kernel_idx'])}/{ast.unparse(given['constant_args_idx'])}")
    if launch is None or not launch.kernel.name:
        raise StageError("The graph launches a Triton kernel that was not recorded.")
    name = launch.kernel.name
    if "." in name:
        raise StageError(f"The Triton kernel {name} is not defined at the top level of its file.")
    unknown = [argument for argument, text in launch.constants.items() if text is None]
    descriptors = given.get("tma_descriptor_metadata")
    if unknown or (isinstance(descriptors, ast.Dict) and descriptors.keys):
        what = f"argument {unknown[0]}" if unknown else "a tensor descriptor"
        raise StageError(f"The graph launches the Triton kernel {name} with {what}, which a program cannot hold.")
    constants = [ast.keyword(key, ast.parse(text or "", mode="eval").body) for key, text in launch.constants.items()]
    kernel = ast.Subscript(ast.Name(name, ast.Load()), _grid(given["grid"], launch.kernel), ast.Load())
    launched = ast.Expr(ast.Call(kernel, [], [*_keywords(given["kwargs"]), *constants]))
    return ast.fix_missing_locations(ast.copy_location(launched, statement))


def _keywords(arguments: ast.expr) -> list[ast.keyword]:
    assert isinstance(arguments, ast.Dict)
    return [
        ast.keyword(ast.literal_eval(key), value)
        for key, value in zip(arguments.keys, arguments.values, strict=True)
        if key
    ]


def _grid(grids: ast.expr, kernel: KernelRecord) -> ast.expr:
    """The grid: of each configuration that the kernel tries, where these have different ones."""
    assert isinstance(grids, ast.List)
    texts = list(map(ast.unparse, grids.elts))
    if len(set(texts)) == 1:
        return grids.elts[0]
    keys = _telling(kernel.configs)
    if len(texts) != len(kernel.configs) or not keys:
        raise StageError(f"The Triton kernel {kernel.name} has a grid for each configuration, which are not known.")
    values = ["({})".format(", ".join([*(config[key] for key in keys), ""])) for config in kernel.configs]
    table = ", ".join(f"{value}: {text}" for value, text in zip(values, texts, strict=True))
    chosen = ", ".join([*(f"meta[{key!r}]" for key in keys), ""])
    return ast.parse(f"lambda meta: {{{table}}}[{chosen}]", mode="eval").body


def _telling(configs: Sequence[Mapping[str, str]]) -> list[str]:
    """The arguments that the configurations have in common, and that differ between them."""
    shared = set.intersection(*map(set, configs)) if configs else set()
    return sorted(key for key in shared if len({config[key] for config in configs}) > 1)


def _plain_rename(statement: ast.stmt, inputs: Mapping[str, str]) -> tuple[str, str] | None:
    """(new, old) when the statement only gives an input another name, as Dynamo does on entry; else None."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=new)], value=ast.Name(id=old)) if old in inputs and new not in inputs:
            return new, old
    return None


def without_renames(statements: Sequence[ast.stmt], renames: dict[str, str]) -> list[ast.stmt]:
    """`statements` without those that only rename an input. Their names are added to `renames`."""
    own = []
    for statement in statements:
        renamed = _plain_rename(statement, renames)
        if renamed is None:
            own.append(statement)
        else:
            renames[renamed[0]] = renames[renamed[1]]
    return own


def body_lines(statements: Sequence[ast.stmt], parameters: Sequence[str]) -> list[str]:
    """`statements` as text, without those that only rename one of `parameters`."""
    renames = {name: name for name in parameters}
    own = without_renames(statements, renames)
    rename = Rename(renames, set())
    return [ast.unparse(rename.visit(statement)) for statement in own]


def is_rename_of_body(statement: ast.stmt) -> bool:
    """Whether this is `cond_true_0 = cond_true_0`, the rest of a sub-module's look-up, or a clean-up (`x = None`)."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=new)], value=ast.Name(id=old)):
            return new == old
        case ast.Assign(value=ast.Constant(value=None)):
            return True
    return False


def dotted_path(node: ast.expr) -> str:
    """``self.blocks.0.weight`` for ``getattr(self.blocks, "0").weight``, as torch.fx writes it; else an empty text."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            pass
        case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name))]):
            pass
        case _:
            return ""
    above = dotted_path(value)
    return above and f"{above}.{name}"


class Attributes(ast.NodeTransformer):
    """Replaces `self.<path>`, and a local name bound to it, by the program's function or input for it."""

    def __init__(self, path: str, bodies: Mapping[str, str], constants: Mapping[str, str]) -> None:
        self.prefix = path + "." if path else ""
        self.bodies = bodies
        self.constants = constants
        self.locals: dict[str, str] = {}

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Replace the local name of a sub-module by the sub-module's own name."""
        node.value = self.visit(node.value)
        match node.targets, node.value:
            case [ast.Name(id=local)], ast.Name(id=name) if name in self.bodies.values():
                self.locals[local] = name
                node.targets = [ast.Name(id=name, ctx=ast.Store())]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace the name of a sub-module."""
        return ast.copy_location(ast.Name(id=self.locals.get(node.id, node.id), ctx=node.ctx), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace a constant or a sub-module by its name in the program."""
        return self._named(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The same for a path with a number in it: ``getattr(self.blocks, "0")``."""
        return self._named(node)

    def _named(self, node: ast.Attribute | ast.Call) -> ast.AST:
        dotted = dotted_path(node)
        if not dotted.startswith("self."):
            return self.generic_visit(node)
        path = self.prefix + dotted.removeprefix("self.")
        name = self.bodies.get(path) or (self.constants.get(path) if not self.prefix else None)
        if name is None:
            raise StageError(f"The graph reads {dotted}, which a program cannot hold.")
        return ast.Name(id=name, ctx=ast.Load())


class Rename(ast.NodeTransformer):
    """Renames inputs, and replaces `x.item()` by `x` for an input that is a plain float."""

    def __init__(self, renames: Mapping[str, str], floats: set[str]) -> None:
        self.renames = renames
        self.floats = floats

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace the name of an input."""
        return ast.copy_location(ast.Name(id=self.renames.get(node.id, node.id), ctx=node.ctx), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace `x.item()` of a float."""
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=ast.Name(id=name), attr="item") if name in self.floats:
                return ast.Name(id=name, ctx=ast.Load())
        return node
