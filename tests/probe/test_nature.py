"""What the probe sees of an exception: whether tensors, or a clock, decided that it rose."""

import sys
from pathlib import Path

import pytest

from repro_kit.runner.supervised import PROBE

sys.path.insert(0, str(PROBE))
from repro_probe.record.raised import nature_of, raising_frame


def raised(tmp_path: Path, source: str) -> BaseException:
    path = tmp_path / "script.py"
    path.write_text(source)
    with pytest.raises(Exception) as caught:
        exec(compile(source, str(path), "exec"), {"__name__": "__main__"})
    return caught.value


@pytest.mark.parametrize(
    ("source", "compares", "clock"),
    [
        ("import array\nif 1 > 0:\n    raise ValueError\n", False, False),
        ("import time\nstart = time.time()\nused = time.time() - start\nassert used < 0\n", False, True),
        ("from time import perf_counter\nlimit = 0\nassert perf_counter() < limit\n", False, True),
        ("time = 3\nassert time < 2\n", False, False),
        (
            "import time\ndef took(f):\n    start = time.monotonic_ns()\n    return time.monotonic_ns() - start\n"
            "budget = {'a': took(list)}\nratio = took(dict) / budget['a']\nif ratio != -1:\n    raise ValueError\n",
            False,
            True,
        ),
    ],
)
def test_what_decided(tmp_path: Path, source: str, compares: bool, clock: bool) -> None:
    seen = nature_of(raised(tmp_path, source))
    assert (seen["machine"], seen["compares"], seen["clock"]) == (False, compares, clock)


def test_an_error_of_the_system_behind_another_one(tmp_path: Path) -> None:
    source = "try:\n    open('/nowhere/at/all')\nexcept OSError as error:\n    raise RuntimeError('x') from error\n"
    assert nature_of(raised(tmp_path, source))["machine"]


@pytest.mark.torch
@pytest.mark.slow
def test_tensors_that_decide(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    source = "import torch\na = torch.ones(2)\nsame = torch.equal(a, a + 1)\nif not same:\n    raise ValueError\n"
    assert nature_of(raised(tmp_path, source))["compares"]
    named = "import torch\na, b = torch.ones(2), torch.ones(2)\nassert a.grad_fn is not b.grad_fn\n"
    for place, text, compares in (
        ("names", named, False),
        ("both", named.replace("assert", "assert a[0] > 1 or"), True),
    ):
        (tmp_path / place).mkdir()
        assert nature_of(raised(tmp_path / place, text))["compares"] is compares, "autograd's names are no results"


_CHECK = "def check(ok, what=''):\n    if not ok:\n        raise RuntimeError(what)\n"
_TEST = (
    "import time, unittest, torch\nclass Test(unittest.TestCase):\n    def test_it(self):\n"
    "        a = torch.ones(2)\n        start = time.time()\n        {check}\nTest('test_it').debug()\n"
)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "compares", "clock"),
    [
        (_CHECK + "a = torch.ones(2)\ncheck(torch.equal(a, a + 1), 'values')\n", True, False),
        (_CHECK + "a = torch.ones(2)\nsame = torch.equal(a, a + 1)\ncheck(what='values', ok=same)\n", True, False),
        (_CHECK + "a = torch.ones(2)\ncheck(len([]), a)\n", False, False),
        (_CHECK + "import time\ncheck(time.time() < 0)\n", False, True),
        (_CHECK + "def outer(ok):\n    check(ok)\na = torch.ones(2)\nouter(a.sum() > 3)\n", True, False),
        (_TEST.format(check="self.assertTrue(torch.equal(a, a + 1))"), True, False),
        (_TEST.format(check="self.assertEqual(a.tolist(), [2.0, 2.0], 'values')"), True, False),
        (_TEST.format(check="self.assertLess(time.time() - start, 0)"), False, True),
        (_TEST.format(check="self.assertEqual(len([]), 1)"), False, False),
    ],
)
def test_what_a_function_is_given_decides(tmp_path: Path, source: str, compares: bool, clock: bool) -> None:
    pytest.importorskip("torch")
    seen = nature_of(raised(tmp_path, f"import torch\n{source}"))
    assert (seen["compares"], seen["clock"]) == (compares, clock)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("requires_grad", "compares"),
    [pytest.param(True, False, id="the text names a node"), pytest.param(False, True, id="the text has values alone")],
)
@pytest.mark.parametrize(
    "check",
    [
        "a, b = str(x * 2), repr(x + 2)\nassert a == b\n",
        "a, b = x * 2, x + 2\nassert str(a) == f'{b}'\n",
    ],
)
def test_a_text_that_names_a_node_of_autograd_is_no_result(
    tmp_path: Path, check: str, requires_grad: bool, compares: bool
) -> None:
    pytest.importorskip("torch")
    source = f"import torch\nx = torch.ones(2, requires_grad={requires_grad})\n{check}"
    assert nature_of(raised(tmp_path, source))["compares"] is compares


def test_the_compilers_conditions_are_no_checks_of_results() -> None:
    code = compile("limit = 1\nif limit > 0:\n    raise ValueError\n", "rules.py", "exec")
    frames = {}
    for module in ("torch._dynamo.rules", "torch._dynamometer", "torch.testing"):
        with pytest.raises(ValueError) as caught:
            exec(code, {"__name__": module})
        frame = raising_frame(caught.value.__traceback__)
        frames[module] = None if frame is None else frame[1]
    assert frames == {"torch._dynamo.rules": None, "torch._dynamometer": 3, "torch.testing": 3}
