"""Damaged logs: whatever was done to a real one, it is read to its end, and what was skipped is counted."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repro_kit.serialize import dumps
from repro_kit.trace import read, summarise
from repro_kit.trace.extraction import chrome_trace, extracted
from repro_kit.trace.insights import gather
from repro_kit.trace.trace_diff import difference

FIXTURES = Path(__file__).parent / "fixtures"
LOGS = [
    FIXTURES / "insights" / f"{name}.{suffix}"
    for name, suffix in (
        ("branch_on_size", "log"), ("breaks_on_item", "log"), ("marked_dynamic_violated", "log"),
        ("duck_shaped", "log"), ("hit_limit", "log"), ("higher_order", "log"),
        ("branch_on_size", "txt"), ("breaks_on_item", "txt"),
    )
] + [FIXTURES / "hang.log", FIXTURES / "backward_error.log"]  # fmt: skip
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
ODD = [None, True, -1, 2**70, 0.5, "", "x", [], [[]], ["x"], [None], {}, {"x": []}, {"line": "x"}, "\ud800"]
pytestmark = pytest.mark.slow


@dataclass(repr=False)
class Log:
    """The bytes of a log; a failing one is too long to print."""

    data: bytes


def every_reader(log: Path) -> None:
    """All that reads a trace reads this one."""
    insights = gather(log)
    dumps(insights)
    difference(insights, gather(FIXTURES / "insights" / "branch_on_size.log"))
    summarise(log)
    for one in extracted(read(log)):
        assert not one.info.path.is_absolute() and ".." not in one.info.path.parts
    json.loads(b"".join(chrome_trace(read(log))))


@st.composite
def damaged(draw):
    """The bytes of a log with cuts, repeats, swaps and noise."""
    data = bytearray(draw(st.sampled_from(LOGS)).read_bytes())
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(1, 2000))
        match draw(st.sampled_from(["cut", "end", "repeat", "noise", "flip", "newline"])):
            case "cut":
                del data[at : at + length]
            case "end":
                del data[at:]
            case "repeat":
                data[at:at] = data[at : at + length]
            case "noise":
                data[at:at] = draw(st.binary(max_size=60))
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "newline":
                data[at:at] = b"\n"
    return Log(bytes(data))


@st.composite
def confused(draw):
    """A log in which values of the records' JSON are of types that nobody writes."""
    lines = draw(st.sampled_from([log for log in LOGS if log.suffix == ".log"])).read_text().split("\n")
    heads = [at for at, line in enumerate(lines) if re.match(r"V\d{4} .*\] \{", line)]
    for at in draw(st.lists(st.sampled_from(heads), min_size=1, max_size=12)):
        prefix, _, rest = lines[at].partition("] ")
        data = json.loads(rest)
        keys = [
            (holder, key)
            for holder in _holders(data)
            for key in (holder if isinstance(holder, dict) else range(len(holder)))
        ]
        holder, key = draw(st.sampled_from(keys))
        holder[key] = draw(st.sampled_from(ODD))
        lines[at] = f"{prefix}] {json.dumps(data)}"
    return Log("\n".join(lines).encode())


def _holders(data):
    if isinstance(data, dict | list) and data:
        yield data
        for value in data.values() if isinstance(data, dict) else data:
            yield from _holders(value)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_damaged_logs_are_read(tmp_path_factory, it):
    log = tmp_path_factory.mktemp("fuzz") / "a.log"
    log.write_bytes(it.data)
    every_reader(log)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(confused())
def test_confused_logs_are_read(tmp_path_factory, it):
    log = tmp_path_factory.mktemp("fuzz") / "a.log"
    log.write_bytes(it.data)
    every_reader(log)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_skipped_is_counted(tmp_path, log):
    """Half of the records lose their end: as many are counted."""
    lines = log.read_text().split("\n")
    heads = [at for at, line in enumerate(lines) if line.startswith("V") and "] {" in line]
    for at in heads[::2]:
        lines[at] = lines[at][:-1]
    (tmp_path / "a.log").write_text("\n".join(lines))
    reader = read(tmp_path / "a.log")
    assert sum(1 for _ in reader) <= len(heads) // 2
    assert reader.problems.stray >= len(heads[::2]) or not heads or reader.problems.damaged >= len(heads[::2])
