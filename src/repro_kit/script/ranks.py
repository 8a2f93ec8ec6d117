"""A script of several processes as one for a single process: its ranks, and the workers of its data loaders."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

from repro_kit.script.tree import Script

_PROCESS = "Process"
_ENDS = ("join", "terminate", "kill", "close")


def starts_processes(tree: ast.AST) -> bool:
    """Whether a loop starts a process with a function of the script in each of its turns."""
    return any(any(_is_process(inner) for inner in ast.walk(node)) for node in ast.walk(tree) if _is_loop(node))


class OneTurn(ast.NodeTransformer):
    """Leaves one rank's turn to each loop that starts processes, and calls the function in place of its process."""

    def __init__(self, tree: ast.AST, rank: str) -> None:
        """`rank`: the expression of the rank."""
        self._rank = rank
        self._names = _process_names(tree)

    def visit_For(self, node: ast.For) -> ast.AST:
        """A loop, perhaps over the ranks."""
        if _starts(node):
            node.iter = self._turn(node.iter)
        return self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        """A list, perhaps of processes."""
        if _starts(node):
            node.generators[0].iter = self._turn(node.generators[0].iter)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A process becomes a function without arguments; its start becomes the call."""
        self.generic_visit(node)
        if _is_process(node):
            return _called_later(node)
        method = self._method(node.func)
        if method == "start" and isinstance(node.func, ast.Attribute):
            return ast.Call(node.func.value, [], [])
        return ast.Constant(None) if method in _ENDS else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """The exit code of a process, which is 0 once its function has returned."""
        self.generic_visit(node)
        return ast.Constant(0) if self._method(node) == "exitcode" else node

    def _turn(self, iterated: ast.expr) -> ast.expr:
        counted = isinstance(iterated, ast.Call) and ast.unparse(iterated.func) == "range" and len(iterated.args) == 1
        text = f"[{self._rank}]" if counted else f"[list({ast.unparse(iterated)})[{self._rank}]]"
        return ast.parse(text, mode="eval").body

    def _method(self, node: ast.expr) -> str:
        """The attribute of a process that `node` is; "" for any other expression."""
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in self._names:
                return attribute
        return ""


def _is_loop(node: ast.AST) -> bool:
    return isinstance(node, ast.For | ast.ListComp)


def _starts(loop: ast.AST) -> bool:
    return any(_is_process(inner) for inner in ast.walk(loop))


def _is_process(node: ast.AST) -> bool:
    """Whether `node` makes a process that runs a function: ``mp.Process(target=f, args=…)``."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == _PROCESS
        and any(keyword.arg == "target" for keyword in node.keywords)
    )


def _called_later(process: ast.Call) -> ast.Lambda:
    given = {keyword.arg: keyword.value for keyword in process.keywords}
    args, named = given.get("args", ast.Tuple([], ast.Load())), given.get("kwargs")
    passed: list[ast.expr] = [ast.Starred(args, ast.Load())]
    if isinstance(args, ast.Tuple | ast.List):
        passed = args.elts
    call = ast.Call(given["target"], passed, [ast.keyword(None, named)] if named is not None else [])
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.Lambda(nothing, call)


def _process_names(tree: ast.AST) -> frozenset[str]:
    """The names that hold a process somewhere: where it is made, and through lists and loops over them."""
    names: set[str] = set()
    found = True
    while found:
        more = set(_named_next(tree, names)) - names
        names |= more
        found = bool(more)
    return frozenset(names)


def _named_next(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """The names that are bound to a process, or to a collection of processes, with `names` bound so already."""

    def holds(value: ast.AST) -> bool:
        return any(
            _is_process(inner) or (isinstance(inner, ast.Name) and inner.id in names) for inner in ast.walk(value)
        )

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and holds(node.value):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name) and holds(node.iter):
            yield node.target.id
        elif isinstance(node, ast.Call) and any(map(holds, node.args)):
            match node.func:
                case ast.Attribute(value=ast.Name(id=collection), attr="append"):
                    yield collection


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


def alone(program: Script, rank: int, size: int) -> Script:
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


def started_outside(program: Script) -> Script:
    """`program` for a process that is a rank already, as torchrun starts it; unchanged if it starts no processes."""
    if not any(_function_of_ranks(node) for node in ast.walk(program.tree)) and not starts_processes(program.tree):
        return program
    return _rewritten(program, _StartedOutside(_RANK_OF_ENVIRONMENT), "import os\n")


def joins_group(program: Script) -> bool:
    """Whether `program` joins a process group."""
    return any(isinstance(node, ast.Call) and _name(node) in _MAKE_GROUPS for node in ast.walk(program.tree))


def _rewritten(program: Script, change: _StartedOutside, prologue: str) -> Script:
    tree = copy.deepcopy(program.tree)
    if starts_processes(tree):
        tree = OneTurn(tree, change.rank).visit(tree)
    tree = change.visit(tree)
    later = next((at for at, statement in enumerate(tree.body) if not _is_future(statement)), len(tree.body))
    tree.body[later:later] = ast.parse(prologue).body
    return Script.of(tree)


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


_WORKERS = "num_workers"
#: Arguments of torch.utils.data.DataLoader about workers, with the values that it takes without workers.
_VALUES = {
    _WORKERS: 0, "multiprocessing_context": None, "persistent_workers": False, "prefetch_factor": None, "timeout": 0
}  # fmt: skip


def without_workers(program: Script) -> Script:
    """`program` without the worker processes of its data loaders; unchanged if it has none."""
    if f"{_WORKERS}=" not in program.text:
        return program
    return Script.of(_WithoutWorkers().visit(copy.deepcopy(program.tree)))


class _WithoutWorkers(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call, perhaps of a data loader with workers."""
        self.generic_visit(node)
        if any(keyword.arg == _WORKERS for keyword in node.keywords):
            for keyword in node.keywords:  # a user's function may need the argument
                if keyword.arg in _VALUES:
                    keyword.value = ast.Constant(_VALUES[keyword.arg])
        return node
