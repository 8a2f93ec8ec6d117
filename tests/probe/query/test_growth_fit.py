"""The form and the rate of growing compile times, in the user's interpreter."""

import json
import subprocess
import sys

import pytest

from repro_kit.runner.launch import PROBE

pytestmark = pytest.mark.torch

SCRIPT = """
import json
from repro_probe.query import growth

def noisy(seconds):
    return {count: taken * (1.1 if at % 3 == 1 else 1.0) for at, (count, taken) in enumerate(seconds.items())}

counts = [1, 2, 4, 8, 16, 32, 48]
few = [1, 2, 3, 4, 5, 6, 7]
print(json.dumps({
    "cubic": growth.fit(noisy({n: 0.05 + 0.004 * n + 2e-5 * n**3 for n in counts})),
    "square": growth.fit(noisy({n: 0.05 + 0.004 * n + 1e-3 * n**2 for n in counts})),
    "linear": growth.fit(noisy({n: 0.1 + 0.02 * n for n in counts})),
    "exponential": growth.fit(noisy({n: 0.1 + 0.02 * n + 0.002 * 3**n for n in few})),
    "bound": growth.judge({1: 0.4}, 2, 2.0),
    "near": growth.judge({1: 4.0}, 2, 2.0),
    "none": growth.judge({}, 1, 2.0),
}))
"""


@pytest.fixture(scope="module")
def grown():
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(PROBE)!r})\n{SCRIPT}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


@pytest.mark.parametrize(
    ("times", "form", "rate"), [("cubic", "power", 3), ("square", "power", 2), ("exponential", "factor", 3)]
)
def test_the_rate_is_found_in_noise(grown, times, form, rate) -> None:
    assert grown[times] == [form, pytest.approx(rate, rel=0.1)]


def test_linear_times_do_not_grow(grown) -> None:
    form, rate = grown["linear"]
    assert form == "power" and rate < 1.3


def test_few_measurements_give_a_bound(grown) -> None:
    grows, words = grown["bound"]
    assert grows and "faster than the power 3.3" in words
    assert grown["near"][0] is None, "two times so near to each other say nothing"
    assert grown["none"] == [None, "one compile takes more than 4 CPU seconds"]
