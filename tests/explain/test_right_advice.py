"""What `explain` says of traces and texts whose right advice is known."""

from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.explain.advice import suggestions
from repro_kit.explain.sentences import sentences
from repro_kit.explain.suggestion import edit
from repro_kit.explain.trials import measured
from repro_kit.failure.failure import Frame
from repro_kit.session.explained import context_of
from repro_kit.trace.compiles import CompileOutcome, Compiles
from repro_kit.trace.dynamo_text import GraphBreak, parse
from repro_kit.trace.insights import Insights, gather
from repro_kit.trace.insights.overview import CompileInfo, Overview, OverviewNode, OverviewState
from repro_kit.trace.places import CompileRef
from repro_kit.trace.record import Record

HEAD = "V0703 10:34:13.{at:03}000 1403 torch/_dynamo/guards.py:2590] [0/{at}] [__recompiles]"
SIZE = "tensor 'x' size mismatch at index 0. expected {}, actual {}"
GRAD = "tensor 'x' requires_grad mismatch. expected requires_grad=0"


def told(tmp_path, *lines):
    (tmp_path / "log.txt").write_text("\n".join(lines) + "\n")
    return gather(tmp_path / "log.txt")


def recompiled(at, *reasons, tag="__recompiles"):
    head = HEAD.format(at=at).replace("__recompiles", tag)
    yield f"{head} Recompiling function f in /me/b.py:3"
    yield f"{head}     triggered by the following guard failure(s):"
    yield from (f"{head}     {reason}" for reason in reasons)


def said(insights):
    return " ".join(sentence.text for sentence in sentences(context_of(insights, Path("/me")), ()))


def first(insights):
    return suggestions(context_of(insights, Path("/me")))[0]


def test_the_cause_is_what_differs_from_the_nearest_entry_and_not_from_the_oldest(tmp_path):
    # a dictionary that grows; the first entry also has another requires_grad, and is listed last each time
    lines = []
    for at in range(1, 5):
        newer = [
            f"- 0/{entry}: len(cache) == {entry}  # cache[len(cache)] = x  # b.py:4 in f" for entry in range(1, at)
        ]
        lines += recompiled(at, *reversed(newer), f"- 0/0: {GRAD}")
    insights = told(tmp_path, *lines)
    assert "for len(cache) == 1 and 2 other values of it" in said(insights)
    assert first(insights).what.startswith("Keep the keys and the length of `L['cache']`")
    (one,) = insights.recompiles
    assert [(reason.guard.kind, len(reason.compiles)) for reason in one.reasons] == [
        ("presence", 1), ("presence", 1), ("presence", 1), ("requires_grad", 1),
    ]  # fmt: skip


def test_a_guard_of_remote_entries_alone_is_no_cause(tmp_path):
    lines = [
        *recompiled(
            2, f"- 0/1: {SIZE.format(4, 5)}; L['n'] == 3", "", "- 0/0: L['k'] == 'a'", tag="__recompiles_verbose"
        )
    ]
    (one,) = told(tmp_path, *lines).recompiles
    assert [(reason.guard.source, reason.remote) for reason in one.reasons] == [
        ("L['k']", False), ("L['x'].size()[0]", True), ("L['n']", True),
    ]  # fmt: skip


def test_a_stack_in_a_list_of_guards_is_no_guard(tmp_path):
    stack = ["- User stack trace:", '-   File "/me/b.py", line 4, in f', "-     y = x[n]"]
    (one,) = told(tmp_path, *recompiled(1, "- 0/0: n == 3", *stack)).recompiles
    (reason,) = one.reasons
    assert (reason.guard.text, reason.guard.where) == ("n == 3", Frame("/me/b.py", 4, "f", "y = x[n]"))


LIMIT = [
    "torch._dynamo hit config.cache_size_limit (8)",
    "   function: 'f' (/data/a.py:3)",
    "   last reason: tensor 'L['x']' size mismatch at index 0. expected 2, actual 1{}",
]


def test_a_limit_that_every_call_hits_is_counted_and_the_compiles_before_it(tmp_path):
    head = "[2023-11-06 14:54:4{0},922] torch._dynamo.convert_frame: [WARNING] {1}"
    lines = [head.format(call, line.format(call)) for call in range(3) for line in LIMIT]
    insights = told(tmp_path, *lines)
    assert (insights.totals.limit_hits, insights.totals.compiles) == (3, 8)
    (one,) = insights.recompiles
    assert one.setting == "cache_size_limit" and suggestions(context_of(insights, Path("/me")))[-1].change.config == {
        "dynamo.cache_size_limit": 16
    }
    assert "was compiled 8 times" in said(insights) and "or fails under fullgraph=True" in said(insights)


def test_a_limit_that_is_an_error_runs_nothing_in_eager(tmp_path):
    error = "torch._dynamo.exc.FailOnRecompileLimitHit: cache_size_limit reached with fullgraph=True."
    insights = told(tmp_path, *LIMIT, "Traceback (most recent call last):", error)
    assert "torch raises FailOnRecompileLimitHit" in said(insights) and "eager" not in said(insights)
    assert "collect" not in first(insights).what.lower()


def test_lines_that_were_not_understood_are_counted_and_shown(tmp_path):
    head = HEAD.format(at=2)
    insights = told(
        tmp_path, *recompiled(1, f"- 0/0: {SIZE.format(4, 5)}"), f"{head} Rekompiling f", f"{head} - 0/1: x"
    )
    assert (insights.lines.total, insights.lines.unread) == (5, 2)
    assert "2 of 5 lines of torch were not understood; the first: Rekompiling f" in said(insights)


def test_a_message_that_the_program_logs_once_more_counts_once(tmp_path):
    lines = [*recompiled(1, f"- 0/0: {SIZE.format(4, 5)}")]
    bare = [line.partition("] [__recompiles] ")[2] for line in lines]
    own = [f"[2024-07-03 10:34:13,273][torch._dynamo.guards.__recompiles][DEBUG] - {bare[0]}", *bare[1:], "step 3"]
    insights = told(tmp_path, *lines, *own)
    assert insights.totals.recompiles == 1
    assert told(tmp_path, *own).totals.recompiles == 1


LIBRARY = "/v/lib/python3.11/site-packages/vllm/model.py"
WRAPPED = f"""Graph break in user code at {LIBRARY}:7
Graph Break Reason: Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print` with argument types ['str']
  Hint: Avoid calling builtin `print`.

  Developer debug context: builtin print [] False

User code traceback:
  File "/me/train.py", line 30, in step
    out = model(x)
  File "{LIBRARY}", line 7, in forward
    print("x")
"""


def test_a_break_inside_a_library_names_the_users_own_line():
    graph_break = replace(parse(WRAPPED), count=1)
    assert graph_break.caller == Frame("/me/train.py", 30, "step", "out = model(x)")
    insights = Insights(breaks=(graph_break,))
    suggestion = first(insights)
    assert suggestion.place == "train.py:30" and f"it is in {LIBRARY}:7" in suggestion.why
    assert "(called from train.py:30)" in said(insights)
    assert edit(context_of(insights, Path("/me"), own=True), LIBRARY, 1, 1, ["x"]) is None


def test_what_a_break_opened_in_a_library_gets_no_advice_and_is_no_lost_operator():
    own = GraphBreak("logging.Logger method not supported", where=Frame("/me/a.py", 4, "f"), count=1)
    inside = GraphBreak("time", where=Frame("/u/lib/python3.11/logging/__init__.py", 297, "g"), count=1, opened=True)
    refs = CompileRef("0/0"), CompileRef("1/0")
    codes = Frame("/me/a.py", 3, "f"), Frame("/u/lib/python3.11/logging/__init__.py", 290, "g")
    compiles = tuple(CompileInfo(ref, OverviewState.OK, code, ops=5) for ref, code in zip(refs, codes, strict=True))
    tree = (
        OverviewNode(Frame("/me/a.py", 9, "<module>"), 0),
        OverviewNode(codes[0], 1, refs[:1]),
        OverviewNode(Frame("/me/a.py", 4, "f"), 1),
        OverviewNode(codes[1], 2, refs[1:]),
    )
    insights = Insights(overview=Overview(compiles, tree), breaks=(own, inside))
    assert [one.place for one in suggestions(context_of(insights, Path("/me")))] == ["a.py:4"]
    assert measured(insights, "", 0).ops == 5


def test_a_break_whose_traceback_comes_first():
    head, _, stack = WRAPPED.partition("User code traceback:")
    traceback = (
        'Traceback (most recent call last):\n  File "/t.py", line 3, in run\ntorch._dynamo.exc.Unsupported: x\n\n'
    )
    assert parse(traceback + WRAPPED) == parse(WRAPPED)
    assert head and stack


def test_a_suppressed_stack_leaves_line_and_reason(tmp_path):
    note = "Graph break (user stack suppressed due to duplicate graph break) in user code at /me/a.py:5"
    insights = told(
        tmp_path, note, "Graph Break Reason: Data-dependent branching", "  Explanation: It is so.", "  Hint: Use cond."
    )
    (one,) = insights.breaks
    assert (one.kind, one.where.file, one.where.line, one.hints) == (
        "Data-dependent branching",
        "/me/a.py",
        5,
        ("Use cond.",),
    )


@pytest.mark.parametrize(
    ("metrics", "outcome"),
    [
        ({}, CompileOutcome.OK),
        ({"fail_type": "Unsupported"}, CompileOutcome.EAGER),
        ({"has_guarded_code": False}, CompileOutcome.EAGER),
        ({"has_guarded_code": True}, CompileOutcome.OK),
    ],
)
def test_a_key_that_is_missing_is_not_false(metrics, outcome):
    compiles = Compiles()
    compiles.see(Record("compilation_metrics", metrics, "a.log", "", 1, "0/0"))
    assert [one.outcome for one in compiles.all()] == [outcome]
