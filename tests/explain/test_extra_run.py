"""The further run about the first specialization: which one, and what is kept of torch's log."""

from repro_kit.explain.extra_run import first_specialization, log_about, variables
from repro_kit.failure.failure import Frame
from repro_kit.trace.dynamo_text import parse_guard
from repro_kit.trace.insights import Insights
from repro_kit.trace.insights.recompiles import Reason, Recompiled
from repro_kit.trace.insights.specializations import Cause, Specialization
from repro_kit.trace.places import CompileRef

CODE = Frame("/x.py", 3, "f")
ONE = Specialization(Cause.CODE, ("L['x'].size()[0]",), "10", "s7", where=CODE, code=CODE)
GUARD = parse_guard("tensor 'x' size mismatch at index 0. expected 10, actual 12")
AGAIN = Recompiled("f", CODE, 1, reasons=(Reason(GUARD, True, 1, (CompileRef("0/1"),)),))

PREFIX = "I1121 19:00:00.000001 7 torch/fx/experimental/symbolic_shapes.py:8081] [0/0] "
LOG = f"""\
{PREFIX.replace("000001", "000000")}create_env
{PREFIX}eval Eq(s7, 10) [guard added] if x.shape[0] == 10:  # x.py:4 in f
{PREFIX}Stack (most recent call last):
{PREFIX}  File "/x.py", line 4, in f
{PREFIX}    if x.shape[0] == 10:
{PREFIX}  File "/lib/site-packages/torch/_dynamo/a.py", line 1, in one
{PREFIX}  File "/lib/site-packages/torch/_dynamo/a.py", line 2, in two
{PREFIX}  File "/lib/site-packages/torch/_dynamo/a.py", line 3, in three
{PREFIX}  File "/lib/site-packages/torch/_dynamo/a.py", line 4, in four
{PREFIX.replace("000001", "000002")}eval Ne(s9, 1) [guard added]
"""


def test_the_first_one_that_cost_something() -> None:
    assert first_specialization(Insights(specializations=(ONE,))) is None
    assert first_specialization(Insights(specializations=(ONE,), recompiles=(AGAIN,))) is ONE


def test_what_is_asked_keeps_the_users_logs() -> None:
    asked = variables(ONE, {"TORCH_LOGS": "recompiles"}, "/log")
    assert asked["TORCHDYNAMO_EXTENDED_DEBUG_GUARD_ADDED"] == "Eq(s7, 10)"
    assert asked["TORCH_LOGS"] == "recompiles,dynamic" and asked["TORCH_LOGS_OUT"] == "/log"


def test_the_users_frames_are_kept_and_few_of_torchs() -> None:
    lines = log_about(LOG, ONE).splitlines()
    assert lines[0].startswith("eval Eq(s7, 10) [guard added]")
    assert '  File "/x.py", line 4, in f' in lines and "    if x.shape[0] == 10:" in lines
    assert "  … 1 of torch's" in lines and not any("in one" in line for line in lines)
    assert '  File "torch/_dynamo/a.py", line 4, in four' in lines
    assert not any("s9" in line or "create_env" in line for line in lines)
