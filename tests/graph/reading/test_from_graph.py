from dataclasses import replace
from typing import Any

import pytest

from repro_kit.errors import ReproKitError
from repro_kit.graph import parse, render
from repro_kit.graph.reading.from_graph import Variant, build_program, tensor_expression
from repro_kit.graph.reading.graph_record import BackendRecord, GraphRecord, InputRecord, NameRecord, ViewRecord
from repro_kit.recipe import Recipe


def tensor(name: str, shape: tuple[int, ...] = (2, 3), **more: Any) -> InputRecord:
    stride = more.pop("stride", (*shape[1:], 1) if shape else ())
    source = more.pop("source", f"L['{name}']")
    return InputRecord("tensor", f"L_{name}_", source, shape=shape, stride=stride, storage=name, **more)


def graph(code: str, inputs: tuple[InputRecord, ...], **more: Any) -> GraphRecord:
    return GraphRecord(0, 1, "0/0", code=code, inputs=inputs, **more)


def canonical(record: GraphRecord, variant: Variant = Variant()) -> str:  # noqa: B008 - frozen
    text = render(parse(build_program(record, Recipe(), variant)))
    assert parse(text) == parse(render(parse(text)))
    return text


PLAIN = (
    "def forward(self, L_x_ : torch.Tensor):\n    l_x_ = L_x_\n    sin = l_x_.sin();  l_x_ = None\n    return (sin,)\n"
)


def test_inputs_get_the_names_of_the_users_variables() -> None:
    text = canonical(graph(PLAIN, (tensor("x", file="v0.pt"),)))
    assert "def graph(x):\n    sin = x.sin()\n    return (sin,)" in text
    assert 'x = load("v0.pt")' in text


def test_a_symbolic_size_is_read_off_the_tensor_that_has_it_and_the_dimension_is_marked() -> None:
    code = (
        "def forward(self, s0 : torch.SymInt, L_x_ : torch.Tensor):\n"
        "    l_x_ = L_x_\n    view = l_x_.view(s0, 3)\n    return (view,)\n"
    )
    size = InputRecord("int", "s0", "L['x'].size()[0]", value=2, symbol="s0", symbolic=True)
    record = graph(code, (size, tensor("x", symbols=("s0", "3"))))
    carried = canonical(record)
    assert "def graph(x):\n    s0 = x.size(0)\n" in carried
    assert "torch._dynamo.mark_dynamic(x, 0)" in carried
    passed = canonical(record, Variant(sizes="arguments"))
    assert "def graph(s0, x):" in passed
    assert "s0 = 2\n" in passed
    assert "mark_dynamic" not in passed


def test_no_dimension_is_marked_when_the_user_chose_dynamic() -> None:
    record = graph(PLAIN, (tensor("x", symbols=("s0", "3")),), backend=BackendRecord("inductor", dynamic=True))
    assert "mark_dynamic" not in canonical(record)


def test_a_float_that_came_as_a_tensor_is_a_float_again() -> None:
    code = (
        "def forward(self, L_x_ : torch.Tensor, L_lr_ : torch.Tensor):\n    l_x_ = L_x_\n    l_lr_ = L_lr_\n"
        "    item = l_lr_.item()\n    mul = l_x_ * item\n    return (mul,)\n"
    )
    rate = tensor("lr", (), dtype="torch.float64", as_tensor=True, value=0.5)
    text = canonical(graph(code, (tensor("x"), rate)))
    assert "lr = 0.5" in text
    assert ".item()" not in text


def test_tensors_that_share_a_storage_are_views_of_one_base() -> None:
    code = (
        "def forward(self, L_x_, L_y_):\n    l_x_ = L_x_\n    l_y_ = L_y_\n"
        "    add_ = l_x_.add_(l_y_)\n    return (add_,)\n"
    )
    first = tensor("x", (4,), file="v0.pt", span=6)
    second = InputRecord(
        "tensor", "L_y_", "L['y']", shape=(4,), stride=(1,), offset=2, storage="x", file="v0.pt", span=6
    )
    text = canonical(graph(code, (first, second)))
    assert 'x_base = load("v0.pt")' in text
    assert "x = x_base.as_strided((4,), (1,), 0)" in text or "x = x_base.as_strided((4,), (1,))" in text
    assert "y = x_base.as_strided((4,), (1,), 2)" in text


def test_a_loop_loses_the_keyword_that_dynamo_adds_and_does_not_take() -> None:
    code = (
        "def forward(self, L_n_, L_x_):\n    l_n_ = L_n_\n    l_x_ = L_x_\n    cond_fn_0 = self.cond_fn_0\n"
        "    body_fn_0 = self.body_fn_0\n"
        "    loop = torch.ops.higher_order.while_loop(cond_fn_0, body_fn_0, (l_x_,), (l_n_,),"
        " mutated_arg_indices = '1')\n"
        "    return (loop[0],)\n"
    )
    cond = "def forward(self, x, n):\n    add_ = n.add_(1)\n    lt = add_ < 3\n    return lt\n"
    body = "def forward(self, x, n):\n    mul = x * 2\n    return (mul,)\n"
    text = canonical(graph(code, (tensor("n"), tensor("x")), modules={"cond_fn_0": cond, "body_fn_0": body}))
    assert "while_loop(" in text and "mutated_arg_indices" not in text


def test_bodies_of_higher_order_operators_become_functions_in_public_form() -> None:
    code = (
        "def forward(self, L_x_):\n    l_x_ = L_x_\n    wrap_body_0 = self.wrap_body_0\n"
        "    out = torch.ops.higher_order.tag_activation_checkpoint(wrap_body_0, l_x_, use_reentrant = False)\n"
        "    getitem = out[0]\n    return (getitem,)\n"
    )
    body = "def forward(self, l_x_):\n    relu = torch.relu(l_x_)\n    return (relu,)\n"
    text = canonical(graph(code, (tensor("x"),), modules={"wrap_body_0": body}))
    assert "def body_0(l_x_):\n    relu = torch.relu(l_x_)\n" in text
    assert "torch.utils.checkpoint.checkpoint(body_0, x, use_reentrant=False)" in text


@pytest.mark.torch
def test_a_custom_autograd_function_is_put_together_again() -> None:
    code = (
        "def forward(self, L_x_):\n    l_x_ = L_x_\n"
        "    fwd_body_0 = self.fwd_body_0\n    bwd_body_0 = self.bwd_body_0\n"
        "    out = torch.ops.higher_order.autograd_function_apply(fwd_body_0, bwd_body_0, l_x_,"
        " non_differentiable_idx = [], saved_for_backward_idx = [0])\n"
        "    getitem = out[0]\n    return (getitem,)\n"
    )
    modules = {
        "fwd_body_0": "def forward(self, v):\n    outs = v.clamp(0, 1)\n    return ((outs,), (v,))\n",
        "bwd_body_0": "def forward(self, g, arg):\n    mul = g * arg\n    return (mul,)\n",
    }
    text = canonical(graph(code, (tensor("x"),), modules=modules))
    assert "out = AutogradFunction.apply(body_0, body_1, x)" in text
    assert "class AutogradFunction(torch.autograd.Function):" in text
    import torch

    namespace: dict[str, Any] = {"__file__": __file__, "__name__": "program"}
    exec(text, namespace)
    x = torch.tensor([-1.0, 0.5], requires_grad=True)
    namespace["graph"](x)[0].sum().backward()
    assert x.grad.tolist() == [-1.0, 0.5]


def test_an_autograd_function_with_special_outputs_stays_raw() -> None:
    code = (
        "def forward(self, L_x_):\n    l_x_ = L_x_\n"
        "    fwd_body_0 = self.fwd_body_0\n    bwd_body_0 = self.bwd_body_0\n"
        "    out = torch.ops.higher_order.autograd_function_apply(fwd_body_0, bwd_body_0, l_x_,"
        " non_differentiable_idx = [1], saved_for_backward_idx = [])\n    return (out,)\n"
    )
    body = "def forward(self, v):\n    return ((v, v), ())\n"
    text = canonical(graph(code, (tensor("x"),), modules={"fwd_body_0": body, "bwd_body_0": body}))
    assert "class AutogradFunction" not in text


def test_several_calls_share_what_is_the_same_tensor() -> None:
    code = (
        "def forward(self, L_x_, L_w_):\n    l_x_ = L_x_\n    l_w_ = L_w_\n    mul = l_x_ * l_w_\n    return (mul,)\n"
    )
    weight = tensor("w", (3,), file="w.pt", requires_grad=True, parameter=True)
    calls = ((tensor("x", file="a.pt"), weight), (tensor("x", (5, 3), file="b.pt"), weight))
    text = canonical(graph(code, calls[0]), Variant(calls=calls))
    assert "return [(x, w), (x_1, w)]" in text
    assert text.count('load("w.pt")') == 1


def test_views_are_made_from_their_base_and_results_from_a_leaf() -> None:
    code = (
        "def forward(self, L_x_, L_y_):\n    l_x_ = L_x_\n    l_y_ = L_y_\n"
        "    data = torch._C._autograd._get_data_attr(l_x_)\n    add_ = data.add_(l_y_)\n    return (add_,)\n"
    )
    base = tensor("base", (4, 3), file="b.pt", own="1", requires_grad=True, leaf=False)
    view = ViewRecord(base, "multi_output_node", 3)
    x = tensor("x", (3,), own="2", requires_grad=True, leaf=False, view=view)
    text = canonical(graph(code, (x, tensor("y", (3,)))), Variant(related=True))
    assert 'x_base_start = load("b.pt").as_strided((4, 3), (3, 1)).requires_grad_()' in text
    assert "x_base = x_base_start.clone()" in text
    assert "x = x_base.as_strided((1, 3), (1, 1), 3).unbind(0)[0]" in text
    assert "data = x.data" in text


def test_operators_that_only_an_import_registers_come_with_it() -> None:
    code = PLAIN.replace("l_x_.sin()", "torch.ops.prims.fma.default(l_x_, l_x_, l_x_)")
    assert "import torch._inductor.inductor_prims" in canonical(graph(code, (tensor("x"),)))
    assert "inductor_prims" not in canonical(graph(PLAIN, (tensor("x"),)))


def test_a_constant_of_a_numbered_submodule_is_read_by_its_path() -> None:
    code = (
        'def forward(self, L_x_):\n    weight = getattr(getattr(self.blocks, "0"), "1").weight\n'
        "    out = torch.mm(L_x_, weight)\n    return (out,)\n"
    )
    constant = InputRecord("tensor", "weight", "", shape=(3, 3), stride=(3, 1), storage="w")
    text = canonical(graph(code, (tensor("x"),), constants={"blocks.0.1.weight": constant}))
    assert "def graph(x, constant_blocks_0_1_weight):" in text and "getattr" not in text
    exported = graph(code, (tensor("x"),), constants={"blocks.0.1.weight": constant}, backend=BackendRecord("export"))
    assert "constant_blocks_0_1_weight = torch.nn.Buffer(torch.randn(3, 3))" in canonical(exported)
    trained = replace(constant, requires_grad=True, parameter=True)
    exported = replace(exported, constants={"blocks.0.1.weight": trained})
    assert "Buffer" not in canonical(exported)


def test_what_cannot_be_carried_is_named() -> None:
    code = "def forward(self, L_x_):\n    l_x_ = L_x_\n    out = helper(l_x_)\n    return (out,)\n"
    record = graph(code, (tensor("x"),), names={"helper": NameRecord("__main__", "helper", "/u/train.py")})
    with pytest.raises(ReproKitError, match="helper"):
        build_program(record, Recipe(), Variant())
    other = graph(PLAIN, (InputRecord("other", "L_x_", "L['x']", value="<object>"),))
    with pytest.raises(ReproKitError, match="<object>"):
        build_program(other, Recipe(), Variant())


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (tensor("x", dtype="torch.int64", low=0, high=9), "torch.randint(0, 10, (2, 3), dtype=torch.int64)"),
        (tensor("x", dtype="torch.bool", low=0, high=1), "torch.ones((2, 3), dtype=torch.bool)"),
        (tensor("x", requires_grad=True), "torch.randn((2, 3)).requires_grad_()"),
        (tensor("x", requires_grad=True, parameter=True), "torch.nn.Parameter(torch.randn((2, 3)))"),
        (tensor("x", stride=(1, 2), span=6), "torch.randn((6,)).as_strided((2, 3), (1, 2))"),
    ],
)
def test_a_tensor_without_values_is_generated_within_its_range(record: InputRecord, text: str) -> None:
    assert tensor_expression(record) == text
