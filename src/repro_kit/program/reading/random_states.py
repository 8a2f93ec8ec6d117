"""Graphs that take the states of random generators as arguments: torch passes them to CUDA graphs of a training step.

Sources: torch/_prims/rng_prims.py (``graphsafe_run_with_rng_state``) and torch/_dynamo/debug_utils.py, which wrote no
argument for a generator for some releases, but a comment. Dynamo cannot trace the operator again, the CPU has none, and
a program makes its own random numbers: so the operator that it runs is called by itself.
"""

from __future__ import annotations

import ast
import re

_OPERATOR = "torch.ops.higher_order.graphsafe_run_with_rng_state"
_COMMENT = re.compile(r"^(\s+)# \w+ was unsupported type for dumping: <class 'torch\._C\.Generator'>$", re.MULTILINE)


def with_generators(text: str) -> str:
    """The artifact with a call in ``load_args`` for each generator that only a comment names."""
    return _COMMENT.sub(r"\1reader.generator()", text)


def without_states(forward: ast.FunctionDef) -> ast.FunctionDef:
    """`forward` with each operator called by itself that was run with the state of a generator."""
    plain = _Plain().visit(forward)
    assert isinstance(plain, ast.FunctionDef)
    return plain


class _Plain(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) != _OPERATOR:
            return node
        keywords = [keyword for keyword in node.keywords if keyword.arg != "rng_state"]
        return ast.copy_location(ast.Call(node.args[0], node.args[1:], keywords), node)
