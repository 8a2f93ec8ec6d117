"""A script whose data loaders work in its own process: a candidate may start no other."""

from __future__ import annotations

import ast
import copy

from repro_kit.source.tree import SourceProgram

_WORKERS = "num_workers"
#: Arguments that torch.utils.data.DataLoader takes only with workers.
_OF_WORKERS = (_WORKERS, "multiprocessing_context", "persistent_workers", "prefetch_factor", "timeout")


def without_workers(program: SourceProgram) -> SourceProgram:
    """`program` without the worker processes of its data loaders; unchanged where it has none."""
    if f"{_WORKERS}=" not in program.text:
        return program
    return SourceProgram.of(_WithoutWorkers().visit(copy.deepcopy(program.tree)))


class _WithoutWorkers(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call, perhaps of a data loader with workers."""
        self.generic_visit(node)
        if any(keyword.arg == _WORKERS for keyword in node.keywords):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in _OF_WORKERS]
        return node
