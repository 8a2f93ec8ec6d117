"""Counts of recompiles, graph breaks and compile time in real traces (fixtures: scripts/record_traces.py)."""

from pathlib import Path

import pytest

from repro_kit.trace import Record, summarise
from repro_kit.trace.insights import gather
from repro_kit.trace.trace_summary import counts

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize(
    ("case", "recompiles", "breaks"),
    [
        ("graph_break_allowed", 0, 1),
        ("graph_break_skips_frame", 0, 1),
        ("recompile_limit", 1, 0),  # the compile that is given up at the limit is none
        ("recompile_limit_fullgraph", 1, 0),
        ("tensorify_restart", 1, 0),
        ("lowering_error", 0, 0),
    ],
)
def test_real_traces(case, recompiles, breaks):
    told = summarise(FIXTURES / f"{case}.log").counts
    assert (told.recompiles.value, told.graph_breaks.value) == (recompiles, breaks)


def compiled(compile_id: str, start: int, end: int, event: str = "compilation_metrics", **more: object) -> Record:
    data = {
        "compile_id": compile_id,
        "start_time_us": start,
        "end_time_us": end,
        "co_name": "f",
        "co_filename": "/home/me/train.py",
        "co_firstlineno": 3,
        **more,
    }
    return Record(event, data, file="a.log", time="", pid=1, compile_id=compile_id)


def test_time_that_two_compiles_share_counts_once():
    forward = compiled("0/0", 0, 4_000_000)
    within = compiled("0/0", 1_000_000, 3_000_000, "bwd_compilation_metrics")
    later = compiled("1/0", 6_000_000, 7_500_000, co_name="g")
    told = counts([forward, within, later]).compile_time
    assert told.value == 5.5
    assert told.detail == "f at train.py:3 4.0 s, g at train.py:3 1.5 s"


def test_recompiles_say_where_and_why():
    again = [
        compiled(f"0/{n}", n, n + 1, recompile_reason=f"0/0: size mismatch, actual {n}  # x + 1  # t.py:3 in f")
        for n in range(3)
    ]
    told = counts(again).recompiles
    assert (told.value, told.detail) == (2, "f at train.py:3 2× (size mismatch, actual 2)")


def break_(compile_id: str, line: int) -> Record:
    payload = (
        f"Graph break in user code at /home/me/train.py:{line}\nGraph Break Reason: print\n\nUser code traceback:\n"
    )
    payload += f'  File "/home/me/train.py", line {line}, in f\n'
    return Record(
        "artifact",
        {"name": "dynamo_graph_break_reason"},
        file="a.log",
        time="",
        pid=1,
        compile_id=compile_id,
        payload=payload,
    )


def test_a_break_that_every_recompile_meets_again_is_one():
    told = counts([break_("0/0", 7), break_("0/1", 7), break_("0/0", 9)]).graph_breaks
    assert (told.value, told.detail) == (2, "train.py:7, train.py:9")


@pytest.mark.parametrize(
    ("case", "breaks", "detail"),
    [
        ("breaks_in_a_loop", 1, "insight_cases.py:249"),  # met by the loop, which is skipped, and by what it calls
        ("learning_rate", 2, "insight_cases.py:110 2×"),  # one of them within torch's optimizer
        ("breaks_on_print", 1, "insight_cases.py:151"),
    ],
)
def test_breaks_are_at_the_places_that_explain_names(case, breaks, detail):
    log = FIXTURES / "insights" / f"{case}.log"
    told = summarise(log).counts.graph_breaks
    assert (told.value, told.detail) == (breaks, detail)
    places = {f"{Path(one.where.file).name}:{one.where.line}" for one in gather(log).breaks if one.where}
    assert places == {detail.partition(" ")[0]}
