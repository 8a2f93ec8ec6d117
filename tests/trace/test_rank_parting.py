"""Where the graphs of two ranks part, and the value that sends them apart."""

from pathlib import Path

from repro_kit.trace.insights import gather
from repro_kit.trace.insights.ranks import Parting

COMPILE = '"rank": {rank}, "frame_id": 0, "frame_compile_id": 0'
FILE = 'V1123 16:49:25.0 9 torch/_logging/x.py:1] {"str": ["/home/me/pipe.py", 7]}'
START = 'V1123 16:49:26.0 9 torch/_dynamo/x.py:1] {{"dynamo_start": {{"stack": [{code}]}}, ' + COMPILE + "}}"
HEAD = 'V1123 16:49:27.0 9 torch/_dynamo/x.py:1] {{"{event}": {{}}, ' + COMPILE + ', "has_payload": "x"}}'
GRAPH = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[{size}]cpu"):
        # File: /home/me/train.py:14 in step, code: y = x.relu()
        y: "f32[{size}]cpu" = L_x_.relu()
"""
REDUCED = """\

        # File: /home/me/train.py:16 in step, code: y = all_reduce(y)
        y_1: "f32[4]cpu" = torch.ops._c10d_functional.all_reduce(y, 'sum', '0');  y = None
"""
TREE = """\
+- RootGuardManager
| +- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor(key='x')
| | +- TENSOR_MATCH: check_tensor(L['x'], Tensor, size=[{size}], stride=[1])  # y = x.relu()  # me/train.py:14 in step
| +- GuardManager: source=L['self'], accessed_by=FrameLocalsGuardAccessor(key='self')
| | +- ID_MATCH: ___check_obj_id(L['self'], {rank}40437847625616), type=<class 'Model'>
| | +- GuardManager: source=L['self'].rank, accessed_by=DictGetItemGuardAccessor('rank')
| | | +- EQUALS_MATCH: L['self'].rank == {value}  # if self.rank == 0:  # me/train.py:15 in step (HINT: static)
"""


def write(directory: Path, rank: int, graph: str, **values: object) -> None:
    words = {"rank": rank, "size": 4, "value": rank, "code": "", **values}
    lines = [FILE, START.format(**words)]
    for event, payload in (("dynamo_output_graph", graph), ("dynamo_cpp_guards_str", TREE)):
        lines.append(HEAD.format(event=event, **words))
        lines += [f"\t{line}" for line in payload.format(**words).split("\n")]
    (directory / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")


def parted(directory: Path) -> Parting:
    found = gather(directory).parting
    assert found is not None
    return found


def test_a_branch_on_the_rank_is_named_with_its_line_and_its_values(tmp_path: Path) -> None:
    write(tmp_path, 0, GRAPH + REDUCED)
    write(tmp_path, 1, GRAPH + "\n        return (y,)\n")
    assert parted(tmp_path).sentences() == (
        "The graphs part where rank 0 goes on with `y = all_reduce(y)` (train.py:16), and rank 1 ends. "
        "L['self'].rank is 0 on rank 0 and 1 on rank 1 (`if self.rank == 0:`, train.py:15)."
    )


def test_a_line_of_torch_is_not_shown_for_the_users(tmp_path: Path) -> None:
    inside = REDUCED.replace("/home/me/train.py", "/venv/site-packages/torch/distributed/_functional_collectives.py")
    write(tmp_path, 0, GRAPH + inside)
    write(tmp_path, 1, GRAPH)
    words = (
        "The graphs part where rank 0 calls `y_1 = torch.ops._c10d_functional.all_reduce(y, 'sum', '0')`, and rank 1"
    )
    assert parted(tmp_path).sentences().startswith(words)


def test_another_operation_of_one_line_is_shown_as_it_is_in_the_graph(tmp_path: Path) -> None:
    write(tmp_path, 0, GRAPH)
    write(tmp_path, 1, GRAPH.replace(".relu()\n", ".relu_()\n").replace("x.relu_", "x.relu"), value=0)
    (words,) = parted(tmp_path).sentences().split("\n")
    assert "rank 0 calls `y = L_x_.relu()` (train.py:14)" in words and "rank 1 calls `y = L_x_.relu_()`" in words


def test_an_uneven_batch_is_told_by_its_sizes(tmp_path: Path) -> None:
    write(tmp_path, 0, GRAPH, value=0)
    write(tmp_path, 1, GRAPH, size=3, value=0)
    found = parted(tmp_path)
    assert found.statements == (None, None) and [value.sized for value in found.values] == [True]
    assert found.sentences().startswith("L['x'] is a tensor of size [4] on rank 0 and a tensor of size [3] on rank 1")


def test_the_functions_of_a_pipeline_are_not_compared(tmp_path: Path) -> None:
    for rank, line in enumerate((14, 26)):
        code = f'{{"line": {line}, "name": "forward", "filename": 7}}'
        write(tmp_path, rank, GRAPH if rank else GRAPH + REDUCED, code=code)
    found = gather(tmp_path)
    (divergence,) = found.ranks.divergences
    assert divergence.what == "code"
    assert divergence.groups == (("forward (pipe.py:14)", (0,)), ("forward (pipe.py:26)", (1,)))
    assert found.parting is None


def test_another_name_for_an_input_is_no_statement(tmp_path: Path) -> None:
    named = GRAPH.replace("        # File", "        l_x_ = L_x_\n        # File")
    write(tmp_path, 0, named)
    write(tmp_path, 1, named.replace("l_x_ =", "l_y_ ="), value=0)
    assert parted(tmp_path).statements == (None, None)


def test_ranks_that_agree_part_nowhere(tmp_path: Path) -> None:
    write(tmp_path, 0, GRAPH, value=0)
    write(tmp_path, 1, GRAPH, value=0)
    assert gather(tmp_path).parting is None
