"""Rewrite what Dynamo writes for itself into what a user may write.

A few higher-order operators cannot be called, or not traced again, in the raw form that stands in a graph. Each has a
public function that Dynamo turns into it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

_PREFIX = "torch.ops.higher_order."
_APPLY = "AutogradFunction"

#: What Dynamo took apart (torch/_functorch/autograd_function.py, `AutogradFunctionApply`), put together again.
_AUTOGRAD_FUNCTION = f"""class {_APPLY}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, forward, backward, *args):
        outputs, saved = forward(*args)
        ctx.save_for_backward(*saved)
        ctx.body = backward
        return outputs

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *ctx.body(*grads, *ctx.saved_tensors)"""


def desugar(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """`statements` with raw higher-order operators in public form; those without one are left as they are."""
    rewrite = _HigherOrder()
    return [ast.fix_missing_locations(rewrite.visit(statement)) for statement in statements]


def helpers(code: str) -> str:
    """Definitions that desugared `code` needs."""
    return _AUTOGRAD_FUNCTION if f"{_APPLY}.apply(" in code else ""


class _HigherOrder(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        rule = _RULES.get(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
        return rule(node) if rule is not None else node


def _checkpoint(node: ast.Call) -> ast.AST:
    # torch/_higher_order_ops/wrap.py: tag_activation_checkpoint(body, *arguments, **checkpoint's keywords)
    known = {"use_reentrant", "preserve_rng_state", "determinism_check", "debug"}
    keywords = [keyword for keyword in node.keywords if keyword.arg in known]
    if not any(keyword.arg == "use_reentrant" for keyword in keywords):
        keywords.append(ast.keyword(arg="use_reentrant", value=ast.Constant(value=False)))
    return ast.Call(func=_dotted("torch.utils.checkpoint.checkpoint"), args=node.args, keywords=keywords)


def _invoke_subgraph(node: ast.Call) -> ast.AST:
    # torch/_higher_order_ops/invoke_subgraph.py: invoke_subgraph(body, identifier, *operands)
    region = ast.Call(func=_dotted("torch.compiler.nested_compile_region"), args=[node.args[0]], keywords=[])
    return ast.Call(func=region, args=node.args[2:], keywords=[])


def _wrap(node: ast.Call) -> ast.AST:
    # torch/_higher_order_ops/wrap.py: wrap(body, *arguments) only calls the body.
    return ast.Call(func=node.args[0], args=node.args[1:], keywords=node.keywords)


def _autograd_function(node: ast.Call) -> ast.AST:
    # autograd_function_apply(forward body, backward body, *arguments, indices of special outputs)
    special = {it.arg: ast.literal_eval(it.value) for it in node.keywords}
    if special.get("non_differentiable_idx") or special.get("dirty_idx"):
        return node
    return ast.Call(func=_dotted(f"{_APPLY}.apply"), args=node.args, keywords=[])


_RULES: dict[str, Callable[[ast.Call], ast.AST]] = {
    "tag_activation_checkpoint": _checkpoint,
    "autograd_function_apply": _autograd_function,
    "invoke_subgraph": _invoke_subgraph,
    "wrap": _wrap,
}


def _dotted(name: str) -> ast.expr:
    return ast.parse(name, mode="eval").body
