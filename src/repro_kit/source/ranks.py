"""The script of several ranks as one for a single process: alone in torch's fake group, or started from outside.

Under the fake group, collectives end at once, and make up what the other ranks would have sent.
"""

from __future__ import annotations

import ast
import copy
import re

from repro_kit.source.rank_processes import OneTurn, starts_processes
from repro_kit.source.tree import SourceProgram

#: Functions of torch.multiprocessing that start processes, and pass each one its rank.
_STARTS = ("spawn", "start_processes")
_JOINS = "init_process_group"
_MAKE_GROUPS = (_JOINS, "init_device_mesh", "DeviceMesh", "Accelerator")
#: What wraps models into DistributedDataParallel.
_WRAPS = re.compile(r"\bDistributedDataParallel\b|\bDDP\b|\bAccelerator\b|\bTrainer\b|\bFabric\b")
#: DDP reads the sum of the gradients from the work of an all-reduce, which is None in a fake group.
_OWN_GRADIENTS = """
from torch.nn.parallel import DistributedDataParallel
own_gradients = lambda state, bucket: (future := torch.futures.Future()).set_result(bucket.buffer()) or future
wrap = DistributedDataParallel.__init__
DistributedDataParallel.__init__ = lambda self, *args, **kwargs: wrap(self, *args, **kwargs) or self.register_comm_hook(
    None, own_gradients
)
"""
_MEETING_PLACE = ("MASTER_ADDR", "MASTER_PORT")  # the variables that say where ranks meet
_RANK_OF_ENVIRONMENT = "int(os.environ['RANK'])"


def alone(program: SourceProgram, rank: int, size: int) -> SourceProgram:
    """`program` as rank `rank` of `size`, in one process. It may fail if it needs what other ranks send."""
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    prologue = f"""
import os
import torch.distributed
from torch.testing._internal.distributed.fake_pg import FakeStore
os.environ.update({ {name: str(value) for name, value in variables.items()} })
torch.distributed.init_process_group('fake', store=FakeStore(), rank={rank}, world_size={size})
"""
    return _rewritten(program, _Alone(str(rank)), prologue + (_OWN_GRADIENTS if _WRAPS.search(program.text) else ""))


def started_outside(program: SourceProgram) -> SourceProgram:
    """`program` for a process that is a rank already, as torchrun starts it; unchanged if it starts no processes."""
    if not any(_function_of_ranks(node) for node in ast.walk(program.tree)) and not starts_processes(program.tree):
        return program
    return _rewritten(program, _StartedOutside(_RANK_OF_ENVIRONMENT), "import os\n")


def joins_group(program: SourceProgram) -> bool:
    """Whether `program` joins a process group."""
    return any(isinstance(node, ast.Call) and _name(node) in _MAKE_GROUPS for node in ast.walk(program.tree))


def _rewritten(program: SourceProgram, change: _StartedOutside, prologue: str) -> SourceProgram:
    tree = copy.deepcopy(program.tree)
    if starts_processes(tree):
        tree = OneTurn(tree, change.rank).visit(tree)
    tree = change.visit(tree)
    later = next((at for at, statement in enumerate(tree.body) if not _is_future(statement)), len(tree.body))
    tree.body[later:later] = ast.parse(prologue).body
    return SourceProgram.of(tree)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


class _StartedOutside(ast.NodeTransformer):
    """Calls the function of a rank in place of starting a process for it."""

    def __init__(self, rank: str) -> None:
        """`rank`: the expression of the rank."""
        self.rank = rank

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """An assignment, perhaps of the place where the ranks meet, which the environment says."""
        self.generic_visit(node)
        match node:
            case ast.Assign([ast.Tuple(elts=targets) | ast.List(elts=targets)], ast.Tuple(elts=values)) if len(
                targets
            ) == len(values) and not any(isinstance(each, ast.Starred) for each in (*targets, *values)):
                pairs = list(zip(targets, values, strict=True))
                kept = [pair for pair in pairs if not _is_meeting_place(pair[0])]
                return node if len(kept) == len(pairs) else _assigned(kept)
        return ast.Pass() if all(map(_is_meeting_place, node.targets)) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """A change of a variable, perhaps of the environment by a dict."""
        self.generic_visit(node)
        if ast.unparse(node.target).endswith("environ") and isinstance(node.value, ast.Dict):
            node.value = _elsewhere(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call, perhaps one that starts the ranks, or says where they meet."""
        self.generic_visit(node)
        if _name(node) == _JOINS:  # they meet where the environment says
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "init_method"]
            if len(node.args) > 1 and not isinstance(node.args[1], ast.Starred):
                node.args[1] = ast.Constant(None)
        if ast.unparse(node.func).endswith("environ.update"):
            node.args = [_elsewhere(value) if isinstance(value, ast.Dict) else value for value in node.args]
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in _MEETING_PLACE]
        function = _function_of_ranks(node)
        if function is None:
            return node
        arguments = _argument(node, "args", 1) or ast.Tuple([], ast.Load())
        passed = arguments.elts if isinstance(arguments, ast.Tuple) else [ast.Starred(arguments, ast.Load())]
        return ast.Call(function, [ast.parse(self.rank, mode="eval").body, *passed], [])


class _Alone(_StartedOutside):
    """Joins no process group either."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """A statement, perhaps one that joins the process group."""
        if isinstance(node.value, ast.Call) and _name(node.value) == _JOINS:
            return ast.Pass()
        return self.generic_visit(node)


def _is_meeting_place(target: ast.expr) -> bool:
    """Whether `target` is an item such as ``os.environ['MASTER_PORT']``."""
    match target:
        case ast.Subscript(value=mapping, slice=ast.Constant(value=name)):
            return name in _MEETING_PLACE and ast.unparse(mapping).endswith("environ")
    return False


def _assigned(pairs: list[tuple[ast.expr, ast.expr]]) -> ast.stmt:
    """The assignment of each value of `pairs` to its target."""
    if not pairs:
        return ast.Pass()
    targets, values = [target for target, _ in pairs], [value for _, value in pairs]
    if len(pairs) == 1:
        return ast.Assign(targets, values[0])
    return ast.Assign([ast.Tuple(targets, ast.Store())], ast.Tuple(values, ast.Load()))


def _elsewhere(variables: ast.Dict) -> ast.Dict:
    """The dict without the variables that say where the ranks meet."""
    pairs = [
        (key, value)
        for key, value in zip(variables.keys, variables.values, strict=True)
        if not (isinstance(key, ast.Constant) and key.value in _MEETING_PLACE)
    ]
    return ast.Dict([key for key, _ in pairs], [value for _, value in pairs])


def _function_of_ranks(node: ast.AST) -> ast.expr | None:
    """The function that each rank runs, if `node` is the call that starts the ranks."""
    if not isinstance(node, ast.Call) or _name(node) not in _STARTS or _argument(node, "nprocs", 2) is None:
        return None
    return _argument(node, "fn", 0)


def _argument(call: ast.Call, name: str, place: int) -> ast.expr | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return named or (call.args[place] if len(call.args) > place else None)


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]
