"""Short names in a finished program."""

import re

from repro_kit.failure.signature import RunOutcome
from repro_kit.graph import parse, render
from repro_kit.graph.names import plain_names, plainly_named, renamed, renamed_in_words, with_plain_names
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


WITH_BODIES = """import torch

RECIPE = {}


def body_0(unbacked_symint, child, l_self_parameters_matrix__body_fn):
    return unbacked_symint < 1


def body_1(unbacked_symint_0, child_1, l_self_parameters_matrix__body_fn):
    vector = l_self_parameters_matrix__body_fn @ child_1
    return (unbacked_symint_0 + 1, vector)


def graph(start, matrix):
    loop = torch.ops.higher_order.while_loop(body_0, body_1, (0, start), (matrix,))
    return loop[1]


def calls():
    start = torch.ones(1)
    matrix = torch.ones(1, 1)
    return [(start, matrix)]
"""


def test_parameters_of_bodies_that_dynamo_named_get_letters() -> None:
    text = render(plainly_named(parse(WITH_BODIES), ("start", "matrix")))
    assert "def body_0(x, child, y):" in text
    assert "return x < 1" in text
    assert "def body_1(z, a, y):" in text
    assert "vector = y @ a" in text
    assert "return (z + 1, vector)" in text
    assert "while_loop(body_0, body_1, (0, start), (matrix,))" in text


def test_parameters_stay_where_a_lambda_has_parameters_of_its_own() -> None:
    with_lambda = WITH_BODIES.replace("loop[1]", "torch.func.grad(lambda child_1: body_0(0, child_1, matrix))(start)")
    assert "def body_1(unbacked_symint_0, child_1, l_self" in render(plainly_named(parse(with_lambda), ()))
