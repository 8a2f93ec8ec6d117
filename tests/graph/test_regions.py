"""A graph as people write it: private calls that open and close a region as `with` blocks, slices with colons."""

import pytest

from repro_kit.artefact.public_forms import public, with_regions
from repro_kit.graph import parse

HEAD = "# repro-kit program 1\nimport torch\n\nRECIPE = {}\n\n\n"
ENTER, EXIT = "torch.amp.autocast_mode._enter_autocast", "torch.amp.autocast_mode._exit_autocast"
GRAD = "torch._C._set_grad_enabled"


def graph(*lines, returns="(x,)"):
    body = "".join(f"    {line}\n" for line in lines)
    text = f"{HEAD}def graph(x):\n{body}    return {returns}\n\n\ndef calls():\n    return [(1,)]\n"
    return parse(text).graph


def body(*lines):
    return with_regions(graph(*lines)).splitlines()[1:-1]


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("    y = x[slice(None, None, None), i]", "    y = x[:, i]"),
        ("y = x[slice(1, None, 2)]", "y = x[1::2]"),
        ("y = x[slice(None, 3), None, Ellipsis]", "y = x[:3, None, ...]"),
        ("x[slice(None, n, None)] = f(slice(2))", "x[:n] = f(slice(2))"),
        ("s = slice(None, 2)", "s = slice(None, 2)"),
        ('y = f("a[slice(1, 2)]")', 'y = f("a[slice(1, 2)]")'),
    ],
)
def test_an_index_has_its_slices_with_colons(line, written):
    assert public(f"import torch\n{line}\n") == f"import torch\n{written}\n"


def test_autocast_with_what_is_not_at_its_default():
    entered = f"a = {ENTER}('cpu', torch.bfloat16, False, None)"
    assert body("w = x + 1", entered, "y = x @ x", f"b = {EXIT}(a)", "z = y * 2") == [
        "    w = x + 1",
        '    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):',
        "        y = x @ x",
        "    z = y * 2",
    ]
    assert body(f"a = {ENTER}('cpu', None, True)", f"b = {EXIT}(a)") == [
        '    with torch.autocast("cpu"):',
        "        pass",
    ]


def test_regions_within_regions():
    lines = (f"a = {ENTER}('cpu')", f"g = {GRAD}(False)", "y = x @ x", f"h = {GRAD}(True)", f"b = {EXIT}(a)")
    assert body(*lines) == [
        '    with torch.autocast("cpu"):',
        "        with torch.no_grad():",
        "            y = x @ x",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        (f"a = {ENTER}('cpu')", "y = x @ x"),
        (f"g = {GRAD}(True)", f"h = {GRAD}(False)"),
        (f"a = {ENTER}('cpu')", f"g = {GRAD}(False)", f"b = {EXIT}(a)", f"h = {GRAD}(True)"),
        (f"a = {ENTER}('cpu')", "y = torch.keep(a)", f"b = {EXIT}(a)"),
        (f"a = {ENTER}(device_type='cpu')", f"b = {EXIT}(a)"),
        (f"g = {GRAD}(x)", f"h = {GRAD}(True)"),
    ],
    ids=["open", "only on", "crossed", "read elsewhere", "by keyword", "unknown"],
)
def test_what_is_not_sure_stays_as_it_is(lines):
    function = graph(*lines)
    assert with_regions(function).splitlines()[1:-1] == [f"    {line}" for line in lines]


def test_a_value_of_the_last_region_that_alone_is_returned_is_returned_there():
    statements = (f"a = {ENTER}('cpu', torch.bfloat16, True, None)", "y = x @ x", f"b = {EXIT}(a)")
    inside = ['    with torch.autocast("cpu", dtype=torch.bfloat16):', "        return (x @ x,)"]
    assert with_regions(graph(*statements, returns="(y,)")).splitlines()[1:] == inside
    both = with_regions(graph(*statements, returns="(x, y)")).splitlines()
    assert both[-2:] == ["        y = x @ x", "    return (x, y)"]
