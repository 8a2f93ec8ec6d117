"""Labels: only those that PyTorch has, and those that fit."""

import itertools
from dataclasses import replace

import pytest

from repro_kit.bundle.story.issue_form import EXISTING, labels_of
from repro_kit.bundle.story.story import Aspect
from repro_kit.diagnosis.answers import Answers, TriedVariant
from repro_kit.failure.failure import Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.recipe import Recipe
from stories import story_of

CODE = """
import torch
import torch.distributed as dist
from torch.nn.attention.flex_attention import flex_attention
class F(torch.autograd.Function): ...
@torch.library.custom_op("a::b", mutates_args=())
def b(x): ...
y = torch.func.vmap(b)(torch.nested.nested_tensor([]))
dist.init_process_group()
"""
REGRESSION = Answers(builds=(TriedVariant("torch 2.12", "passes"), TriedVariant("torch 2.13", "fails")))
FIXED = Answers(builds=(TriedVariant("torch 2.12", "fails"), TriedVariant("torch 2.13", "passes")))


def test_no_other_label_is_ever_given() -> None:
    aspects = (Aspect("Dynamic shapes", "x", "x"), Aspect("Tensor subclasses", "x", "x"))
    recipe = Recipe(compiled_autograd=True, mode="reduce-overhead")
    for kind, layer, accelerator in itertools.product(Kind, (None, *Layer), (None, "cuda")):
        story = story_of(
            "accuracy", signature=Signature(kind, rounding=kind is Kind.ACCURACY), layer=layer,
            aspects=aspects, repro=CODE, answers=REGRESSION, recipe=recipe,
        )  # fmt: skip
        labels = labels_of(replace(story, environment=replace(story.environment, accelerator=accelerator)))
        assert set(labels) <= EXISTING and len(set(labels)) == len(labels)
        assert labels[0] == "oncall: pt2"
        assert {"module: regression", "module: flex attention"} <= set(labels)
        traces_transforms = layer in (None, Layer.DYNAMO, Layer.AOT)
        assert ("dynamo-functorch" in labels) is ("module: functorch" in labels) is traces_transforms


def test_the_labels_that_do_not_exist_are_not_in_the_list() -> None:
    assert not EXISTING & {"module: cpu inductor", "module: startup-tracing-compile"}


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({"layer": Layer.INDUCTOR}, "module: inductor, oncall: cpu inductor, module: correctness (silent)"),
        ({"layer": Layer.AOT}, "module: aotdispatch, module: pt2-dispatcher, module: correctness (silent)"),
        ({"layer": None, "signature": Signature(Kind.OOM)}, "module: memory usage"),
        ({"layer": None, "signature": Signature(Kind.COMPILE_TIME)}, "module: compile-time"),
        ({"layer": None, "signature": Signature(Kind.DEADLOCK)}, "module: deadlock"),
        ({"layer": None, "signature": Signature(Kind.TIMEOUT)}, ""),
        ({"layer": None, "answers": REGRESSION}, "module: correctness (silent), module: regression"),
        ({"layer": None, "answers": FIXED}, "module: correctness (silent)"),
        (
            {"layer": None, "aspects": (Aspect("Dynamic shapes", "dynamic=True", "dynamic=True"),)},
            "module: correctness (silent), module: dynamic shapes",
        ),
        ({"layer": None, "aspects": (Aspect("Dynamic shapes", "dynamic=True"),)}, "module: correctness (silent)"),
    ],
)
def test_which_labels_fit(changes, labels) -> None:
    assert labels_of(story_of("accuracy", **changes)) == ("oncall: pt2", *filter(None, labels.split(", ")))


def test_what_was_not_reduced_has_no_labels_by_its_code() -> None:
    own = {"level": "script", "named": ("files/train.py",), "sources": (("files/train.py", CODE),), "program": ""}
    assert "module: flex attention" not in labels_of(story_of("accuracy", **own))


def test_a_script_that_needs_dynamic_sizes_has_their_label() -> None:
    code = "import torch\ntorch.compile(lambda x: [0].pop(x.shape[0]), dynamic=True)(torch.randn(2))\n"
    script = {"level": "script", "program": "", "ops": (), "named": ("files/reduced.py",), "sources": (), "aspects": ()}
    assert "module: dynamic shapes" in labels_of(story_of("accuracy", **script, repro=code))
    assert "module: dynamic shapes" not in labels_of(
        story_of("accuracy", **script, repro=code.replace(", dynamic=True", ""))
    )
