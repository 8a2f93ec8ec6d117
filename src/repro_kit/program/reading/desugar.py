"""Replace raw higher-order operators by the public functions that Dynamo traced.

In the raw form that stands in a graph, a few higher-order operators cannot be called, or cannot be traced again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

_PREFIX = "torch.ops.higher_order."

#: Definitions that undo what Dynamo took apart: {name that desugared code calls: its definition}.
#: Sources: torch/_functorch/autograd_function.py (`AutogradFunctionApply`), torch/_higher_order_ops/scan.py,
#: torch/nn/attention/flex_attention.py (`BlockMask.as_tuple`; the raw operator's logsumexp is in base 2).
_HELPERS = {
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
    return "\n\n\n".join(text for name, text in _HELPERS.items() if f"{name}(" in code or f"{name}.apply(" in code)


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
