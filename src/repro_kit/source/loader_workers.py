"""A script whose data loaders work in its own process: a candidate may not start another one."""

from __future__ import annotations

import ast
import copy

from repro_kit.source.tree import SourceProgram

_WORKERS = "num_workers"
#: Arguments of torch.utils.data.DataLoader about workers, with the values that it takes without workers.
_VALUES = {
    _WORKERS: 0, "multiprocessing_context": None, "persistent_workers": False, "prefetch_factor": None, "timeout": 0
}  # fmt: skip


def without_workers(program: SourceProgram) -> SourceProgram:
    """`program` without the worker processes of its data loaders; unchanged if it has none."""
    if f"{_WORKERS}=" not in program.text:
        return program
    return SourceProgram.of(_WithoutWorkers().visit(copy.deepcopy(program.tree)))


class _WithoutWorkers(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call, perhaps of a data loader with workers."""
        self.generic_visit(node)
        if any(keyword.arg == _WORKERS for keyword in node.keywords):
            for keyword in node.keywords:  # a user's function may need the argument
                if keyword.arg in _VALUES:
                    keyword.value = ast.Constant(_VALUES[keyword.arg])
        return node
