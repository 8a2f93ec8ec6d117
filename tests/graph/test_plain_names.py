"""Short names in a finished program."""

import re

from repro_kit.failure.signature import RunOutcome
from repro_kit.graph import parse, render
from repro_kit.graph.names import plain_names, renamed, renamed_in_words, with_plain_names
from repro_kit.graph.neighbours import DecidingNumber, Neighbours, Removal
from repro_kit.reduce.reduction import Result

TEXT = """import torch

RECIPE = {}


def graph(image, add, constant_self___params___9, lr, arg0_1, bias):
    a_very_long_name_of_a_value = torch.addcmul(image, add, constant_self___params___9, value=lr)
    b = arg0_1 + a_very_long_name_of_a_value
    return (b, add)


def calls():
    image = torch.ones(1)
    add_base = torch.ones(4)
    add = add_base.as_strided((1,), (1,))
    constant_self___params___9 = torch.nn.Parameter(torch.ones(1))
    lr = 0.5
    arg0_1 = torch.ones(1)
    bias = add.clone()
    torch._dynamo.mark_dynamic(arg0_1, 0)
    add_1 = torch.ones(1)
    return [(image, add, constant_self___params___9, lr, arg0_1, bias), (image, add_1, image, lr, image, image)]
"""


def test_inputs_that_a_person_did_not_name_get_letters() -> None:
    program = parse(TEXT)
    names = plain_names(program, known=("image", "constant_self___params___9", "lr", "arg0_1", "bias"))
    assert {old: new for old, new in names.items() if old in program.graph.params} == {
        "add": "x",
        "constant_self___params___9": "w",
        "arg0_1": "y",
    }
    text = render(renamed(program, names))
    assert "def graph(image, x, w, lr, y, bias):" in text
    assert "v = torch.addcmul(image, x, w, value=lr)" in text
    assert "torch._dynamo.mark_dynamic(y, 0)" in text
    assert "bias = x.clone()" in text
    assert "return [(image, x, w, lr, y, bias), (image, x1, image, lr, image, image)]" in text
    assert not re.search(r"\badd\b|__", text)
    assert parse(text) == renamed(program, names)


def test_a_name_that_is_taken_is_no_new_name() -> None:
    text = "import torch\n\nRECIPE = {}\n\n\ndef graph(add):\n    x = y(add)\n    return (x,)\n\n\n"
    program = parse(text + "def calls():\n    add = torch.ones(1)\n    return [(add,)]\n")
    assert plain_names(program, known=()) == {"add": "z"}


def test_good_names_stay() -> None:
    program = parse(TEXT)
    assert "image" not in plain_names(program, known=program.graph.params)


def test_words_are_renamed_in_their_code() -> None:
    assert renamed_in_words("add without `add = f(add_1)`", {"add": "x"}) == "add without `x = f(add_1)`"


def test_what_is_said_of_a_result_has_its_short_names() -> None:
    around = Neighbours(
        removals=(Removal("without `b = arg0_1`", RunOutcome.PASSES),),
        variants=(Removal("torch.float64 for `arg0_1`", RunOutcome.FAILS_ALIKE),),
        number=DecidingNumber("dimension 0 of `arg0_1`", 9, 8),
    )
    result = Result(parse(TEXT), 9, 2, 5, 1, 1.0, "fixpoint", 3, 3, neighbours=around)
    named = with_plain_names(result, known=()).neighbours
    said = [each.what for each in (*named.removals, *named.variants)]
    assert said == ["without `b = z`", "torch.float64 for `z`"]
    assert named.number is not None and named.number.what == "dimension 0 of `z`"
