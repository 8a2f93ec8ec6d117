"""`test_repro.py`: the form that PyTorch's own suite has, and that it fails and passes as it should."""

import ast
import subprocess
import sys

import pytest

from programs import FAILING
from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.program_repro import render_test
from repro_kit.case.stage_results import Environment
from repro_kit.diagnosis.cell import Ablation
from repro_kit.failure.failure import Layer
from repro_kit.graph import parse
from repro_kit.recipe import Recipe

ENV = Environment("3.11.7", "/usr/bin/python3", "Linux", "2.13.0")

#: What PyTorch's suite has, without expecttest and numpy, which it needs.
SUITE = """
import sys, types, unittest
import torch

class TestCase(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def assertEqual(self, actual, expected, **tolerances):
        torch.testing.assert_close(actual, expected, **tolerances)

for name in ("torch._dynamo.test_case", "torch._inductor.test_case"):
    module = sys.modules[name] = types.ModuleType(name)
    module.TestCase, module.run_tests = TestCase, unittest.main
"""


def text_of(name, layer=None, recipe=None):
    failing = next(it for it in FAILING if it.name == name)
    program = parse(failing.text)
    program = program.with_(recipe=recipe) if recipe else program
    return render_test(program, Facts(failing.signature, None, ENV, Ablation("program", (), layer)), "test_it")


@pytest.mark.parametrize("failing", FAILING, ids=lambda it: it.name)
def test_the_form_is_that_of_the_suite(failing):
    tree = ast.parse(text_of(failing.name))
    (suite,) = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and ast.unparse(node.bases[0]) == "TestCase"
    ]
    assert [node.name for node in suite.body] == ["test_it"]
    assert ast.unparse(tree.body[-1]) == "if __name__ == '__main__':\n    run_tests()"


@pytest.mark.parametrize(
    ("layer", "owner", "suite"),
    [
        (Layer.INDUCTOR, "module: inductor", "_inductor"),
        (Layer.DYNAMO, "module: dynamo", "_dynamo"),
        (Layer.AOT, "oncall: pt2", "_dynamo"),
        (None, "oncall: pt2", "_dynamo"),
    ],
)
def test_the_owner_is_the_layers(layer, owner, suite):
    text = text_of("accuracy", layer)
    assert text.startswith(f'# Owner(s): ["{owner}"]\n')
    assert f"from torch.{suite}.test_case import run_tests, TestCase\n" in text


def test_settings_hold_for_the_test_alone():
    recipe = Recipe(config={"inductor.cpp.simdlen": 1, "dynamo.x": "a"}, env={"A": "b"}, rtol=0.5, warm_caches=True)
    text = text_of("accuracy", recipe=recipe)
    assert (
        '    @torch._inductor.config.patch({"cpp.simdlen": 1})\n    @torch._dynamo.config.patch({"x": "a"})\n' in text
    )
    assert text.index('os.environ["A"] = "b"') < text.index("import torch\n")
    assert "        self.assertEqual(run(torch.compile(f)), expected, rtol=0.5, atol=0.0)\n" in text
    assert "        run(torch.compile(f))  # fills the caches\n        torch._dynamo.reset()\n" in text


@pytest.mark.torch
@pytest.mark.slow
def test_it_fails_while_the_bug_is_there_and_passes_when_it_is_not(tmp_path):
    names = ("backend_error", "backward_accuracy", "several_calls", "dynamic_only")
    for name in names:
        (tmp_path / f"test_{name}.py").write_text(text_of(name))
    fixed = text_of("several_calls").replace("seen.setdefault", "{}.setdefault")
    (tmp_path / "test_fixed.py").write_text(fixed)
    (tmp_path / "conftest.py").write_text(SUITE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfp", str(tmp_path)],
        capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert "4 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "PASSED test_fixed.py::ReproTests::test_it" in done.stdout
