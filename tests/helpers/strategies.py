"""Programs, by hypothesis: statements of every form, bodies, inputs of every form of the grammar, recipes."""

from __future__ import annotations

import ast
from typing import get_args

from hypothesis import strategies as st

from repro_kit.graph import Data, Function, Program, ScalarInput, Statement, Strided, TensorInput
from repro_kit.graph.inputs import Input, names_of, parse_input
from repro_kit.graph.program import canonical
from repro_kit.probe.repro_probe.protocol.recipe_data import Backward, GradMode
from repro_kit.recipe import Autocast, Recipe

SIZES = st.lists(st.integers(0, 5), max_size=3).map(tuple)
NUMBERS = st.integers(-9, 9) | st.floats(allow_nan=False) | st.booleans()
TENSORS = ["[1.5, -2.0]", "[[1, 2, 3]]", "[]", "[True, False]", "7", "[inf, -inf]"]
SHAPES = [(2,), (1, 3), (0,), (2,), (), (2,)]


@st.composite
def data(draw, tensors=()):
    sized = ["randn", "rand", "zeros", "ones", "empty", "_efficientzerotensor"]
    kinds = [*sized, "full", "randint", "arange", "load", "tensor", "softmax", "tril", "triu", "randperm", "linspace"]
    kind = draw(st.sampled_from([*kinds, *(["view"] if tensors else [])]))
    sizes = draw(SIZES)
    match kind:
        case "full":
            return Data("full", sizes, (draw(NUMBERS),))
        case "randint":
            return Data("randint", sizes, (0, draw(st.integers(1, 9))))
        case "randperm" | "linspace":
            ends = draw(st.sampled_from([(0, 9), (0.5, 2.0)])) if kind == "linspace" else ()
            return Data(kind, (draw(st.integers(0, 5)),), ends)
        case "load":
            return Data("load", None, ("v.pt",))
        case "tensor":
            at = draw(st.integers(0, len(TENSORS) - 1))
            return Data("tensor", SHAPES[at], (TENSORS[at],))
        case "view":
            return Data("view", None, (draw(st.sampled_from(tensors)),))
    return Data(kind, sizes)


@st.composite
def tensors(draw, name, earlier=()):
    values = draw(data(earlier))
    bare = values.kind in ("load", "view")
    return TensorInput(
        name,
        values,
        draw(st.none() | st.builds(Strided, SIZES, SIZES, st.integers(0, 3))),
        None if bare else draw(st.sampled_from([None, "torch.float16", "torch.int64"])),
        None if bare else draw(st.sampled_from([None, "cuda", "cuda:1"])),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from([(), ("conj",), ("neg",), ("conj", "neg")])),
    )


EXPRESSIONS = [
    "torch.relu({a})",
    "{a} + {b}",
    "{a}[0]",
    "{a}",
    "3",
    "{a}[(slice(None, None, 2), None, ...)]",
    "{a}.view(-1, {b}.size(0))",
    "-{a} ** 2",
    "torch.cat([{a}, {b}], dim=-1)",
    "torch.full((2,), inf)",
    "torch.ops.aten.add.Tensor({a}, {b}, alpha=1.5)",
    "torch.split({a}, 2)",
    "'größe {a}'",
    "[it + {a} for it in {b}]",
]
EFFECTS = [
    "{a}[0] = {b}",
    "{a} += {b}",
    "torch._C._set_grad_enabled(False)",
    "torch._C._set_grad_enabled(True)",
    "{a}.add_({b})",
    "torch.mul({a}, 2, out={b})",
]


@st.composite
def functions(draw, name, params):
    names, statements = list(params), []
    for at in range(draw(st.integers(0, 6))):
        template = draw(st.sampled_from(EXPRESSIONS + EFFECTS))
        text = template.format(a=draw(st.sampled_from(names)), b=draw(st.sampled_from(names)))
        node = ast.parse(text).body[0]
        target = None if template in EFFECTS else f"v{at}"
        statements.append(canonical(target, node.value if isinstance(node, ast.Expr) else node))
        names += [target] if target else []
    returned = draw(st.sampled_from(["({a},)", "[{a}, {b}]", "(({a}, None), {b})", "{a}"]))
    text = returned.format(a=draw(st.sampled_from(names)), b=draw(st.sampled_from(names)))
    return Function(name, tuple(params), tuple(statements), canonical(None, ast.parse(text, mode="eval").body))


def written(text: str) -> Input:
    """The input line that a text means."""
    return parse_input(ast.parse(text).body[0])


@st.composite
def lines(draw, count):
    """Lines of `calls()` that bind at least `count` names: tensors, views of earlier ones, scalars, others, marks."""
    found: list[Input] = []
    while sum(len(names_of(it)) for it in found) < count:
        name = f"i{len(found)}"
        earlier = [it.name for it in found if isinstance(it, TensorInput)]
        kinds = ["tensor", "tensor", "scalar", "opaque", *(["mark"] if earlier else [])]
        match draw(st.sampled_from(kinds)):
            case "tensor":
                found.append(draw(tensors(name, earlier)))
            case "scalar":
                found.append(ScalarInput(name, draw(NUMBERS | st.none() | st.text(max_size=3))))
            case "opaque":
                base = draw(st.sampled_from(earlier)) if earlier else "torch.ones(3)"
                text = draw(st.sampled_from(["{n} = f({b})", "{n}, {n}_1 = torch.split({b}, 2)", "{n}: int = 3"]))
                found.append(written(text.format(n=name, b=base)))
            case "mark":
                found.append(written(f"torch._dynamo.mark_dynamic({draw(st.sampled_from(earlier))}, 0)"))
    return tuple(found)


RECIPES = st.builds(
    Recipe,
    backend=st.sampled_from(["inductor", "eager", "mine"]),
    mode=st.none() | st.just("max-autotune"),
    options=st.dictionaries(st.sampled_from(["a", "b.c"]), NUMBERS),
    dynamic=st.none() | st.booleans(),
    fullgraph=st.booleans(),
    backward=st.sampled_from(get_args(Backward)),
    grad_mode=st.sampled_from(get_args(GradMode)),
    autocast=st.none() | st.just(Autocast(dtype="float16")),
    seed=st.integers(0, 3),
    threads=st.none() | st.just(2),
    default_dtype=st.none() | st.just("float64"),
    graph_caches=st.booleans(),
    fallback_random=st.booleans(),
    config=st.dictionaries(st.sampled_from(["inductor.a", "dynamo.b"]), NUMBERS | st.text()),
    env=st.dictionaries(st.just("A"), st.text(max_size=3)),
    check=st.booleans(),
    rtol=st.none() | st.just(1e-3),
    atol=st.none() | st.floats(0, 1),
)
PREAMBLES = ["", "A = 1", "# note\n@torch.library.custom_op('a::b', mutates_args=())\ndef f(x): ..."]


@st.composite
def programs(draw):
    params = [f"x{at}" for at in range(draw(st.integers(1, 3)))]
    graph = draw(functions("graph", params))
    bodies = draw(st.lists(st.sampled_from(["body_0", "body_1"]), unique=True))
    for name in bodies:
        call = Statement(f"hop_{name}", f"torch.ops.higher_order.cond(True, {name}, {name}, ({params[0]},))")
        graph = graph.with_(statements=(*graph.statements, call))
    inputs = draw(lines(len(params)))
    bound = [name for line in inputs for name in names_of(line)]
    call = st.lists(st.sampled_from(bound), min_size=len(params), max_size=len(params)).map(tuple)
    return Program(
        graph=graph,
        bodies=tuple(draw(functions(name, ["a", "b"])) for name in bodies),
        inputs=inputs,
        calls=tuple(draw(st.lists(call, min_size=1, max_size=3))),
        recipe=draw(RECIPES),
        imports=tuple(draw(st.lists(st.sampled_from(["import math", "from torch import nn"]), unique=True))),
        preamble=draw(st.sampled_from(PREAMBLES)),
        doc=draw(st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"))),
    )
