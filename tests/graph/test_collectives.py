from repro_kit.graph import Program, parse, render, size
from repro_kit.graph.placement import group_of, swapped, with_names, with_peer, with_ranks
from repro_kit.recipe import ProcessGroup, Recipe

REDUCE = "def forward(self, x):\n    y = torch.ops._c10d_functional.all_reduce(x, 'sum', '{}')\n    return (y,)"
GATHER = """# repro-kit program 1
import torch
RECIPE = {'group': {'size': 4, 'rank': 3}}
def graph(x):
    y = torch.ops._c10d_functional.all_gather_into_tensor(x, 4, '0')
    z = torch.ops._c10d_functional.wait_tensor(y)
    w = z + 4
    return (w,)
def calls():
    x = torch.ones(2)
    return [(x,)]
"""


def test_a_graph_without_collectives_needs_no_group() -> None:
    assert group_of(["def forward(self, x):\n    return (x + 1,)"], 2, 0, {"0": [0, 1]}) == (None, {})


def test_the_only_group_that_a_graph_uses_becomes_the_world() -> None:
    group, names = group_of([REDUCE.format("5")], 4, 3, {"0": [0, 1, 2, 3], "5": [1, 3]})
    assert group == ProcessGroup(2, rank=1) and names == {"5": "0"}
    assert "'sum', '0'" in with_names(REDUCE.format("5"), names)


def test_several_groups_are_numbered_as_torch_numbers_them() -> None:
    codes = [REDUCE.format(name) for name in ("0", "7", "9")]
    group, names = group_of(codes, 4, 0, {"0": [0, 1, 2, 3], "7": [0, 1], "9": [0, 2]})
    assert group == ProcessGroup(4, subgroups=((0, 1), (0, 2))) and names == {"0": "0", "7": "1", "9": "2"}


def test_fewer_ranks_change_the_arguments_of_collectives_only() -> None:
    program = with_ranks(parse(GATHER), 2)
    assert program is not None
    assert program.recipe == Recipe(group=ProcessGroup(2, rank=1))
    assert [statement.text for statement in program.graph.statements][::2] == [
        "torch.ops._c10d_functional.all_gather_into_tensor(x, 2, '0')",
        "z + 4",
    ]


def two_codes() -> Program:
    """A program whose ranks 1 and 2, of four, run another graph, with a body."""
    body = "def body(x):\n    sin = torch.sin(x)\n    return (sin,)\ndef graph(x):"
    other = parse(
        GATHER.replace("def graph(x):", body).replace("z + 4", "checkpoint(body, z)").replace("ones", "randn")
    )
    program = parse(GATHER.replace("'rank': 3", "'rank': 3, 'others': [1, 2]"))
    return with_peer(program, other)


def test_a_program_with_a_peer_is_written_and_read() -> None:
    program = two_codes()
    text = render(program)
    assert parse(text) == program
    assert "def peer_body(x):" in text and "checkpoint(peer_body, z)" in text
    assert size(program) == 3 + 4


def test_what_the_other_ranks_run_can_become_the_graph_and_again_the_peer() -> None:
    program = two_codes()
    turned = swapped(program)
    assert turned.recipe.group == ProcessGroup(4, rank=3, others=(0, 3)), "rank 3 is still judged"
    assert turned.graph.statements[-1].text == "checkpoint(peer_body, z)" and turned.peer is not None
    assert turned.peer.graph.statements[-1].text == "z + 4" and parse(render(turned)) == turned
    assert swapped(turned) == program


def test_fewer_ranks_keep_both_codes_and_the_judged_rank() -> None:
    program = swapped(two_codes())
    judged = program.with_(recipe=Recipe(group=ProcessGroup(4, rank=0, others=(1, 2))))
    smaller = with_ranks(judged, 2)
    assert smaller is not None and smaller.peer is not None
    assert smaller.recipe.group == ProcessGroup(2, rank=0, others=(1,))
    assert "(x, 2, '0')" in smaller.peer.graph.statements[0].text
    assert with_ranks(judged, 1) is None and with_ranks(program, 2) is None
