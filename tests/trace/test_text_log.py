"""What is read out of TORCH_LOGS text: today's (scripts/record_traces.py records it), and older forms as in issues."""

from pathlib import Path

import pytest

from repro_kit.trace.insights import gather

FIXTURES = Path(__file__).parent / "fixtures" / "insights"


def of(tmp_path, text):
    (tmp_path / "log.txt").write_text(text)
    return gather(tmp_path / "log.txt")


def reasons(insights):
    return [
        (reason.guard.kind, reason.guard.source, reason.guard.text, reason.count)
        for recompile in insights.recompiles
        for reason in recompile.reasons
    ]


@pytest.mark.parametrize("case", [path.stem for path in FIXTURES.glob("*.txt")])
def test_text_tells_what_the_trace_of_the_same_program_tells(case):
    text, trace = gather(FIXTURES / f"{case}.txt"), gather(FIXTURES / f"{case}.log")
    assert text.text and not trace.text
    assert reasons(text) == reasons(trace)
    assert [(recompile.name, recompile.count, recompile.hit, recompile.limit) for recompile in text.recompiles] == [
        (recompile.name, recompile.count, recompile.hit, recompile.limit) for recompile in trace.recompiles
    ]
    if case != "duck_shaped":  # the size that took the other's symbol is not logged
        assert [[row.values for row in recompile.values.rows] for recompile in text.recompiles] == [
            [row.values for row in recompile.values.rows] for recompile in trace.recompiles
        ]
    assert [(one.kind, one.code, one.where, one.hints) for one in text.breaks] == [
        (one.kind, one.code, one.where, one.hints) for one in trace.breaks
    ]
    assert {shape.text for shape in text.guards.shapes} == {shape.text for shape in trace.guards.shapes}
    assert text.guards.total == trace.guards.total and text.guards.costly[0].latency_us > 0
    assert {(symbol.source, symbol.range, symbol.hints) for symbol in text.shapes.symbols} == {
        (symbol.source, symbol.range, symbol.hints) for symbol in trace.shapes.symbols
    }
    assert {
        (specialization.cause, specialization.sources, specialization.value) for specialization in text.specializations
    } == {
        (specialization.cause, specialization.sources, specialization.value) for specialization in trace.specializations
    }


def test_recompiles_of_torch_2_2(tmp_path):
    head = "[2023-11-06 14:54:45,922] torch._dynamo.guards.__recompiles: [DEBUG]"
    insights = of(
        tmp_path,
        f"""{head} Recompiling function forward in /data/resnet.py:266
{head}     triggered by the following guard failure(s):
{head}     - tensor 'L['x']' size mismatch at index 0. expected 24, actual 25
{head.replace("45,922", "54,691")} Recompiling function forward in /data/resnet.py:266
{head.replace("45,922", "54,691")}     triggered by the following guard failure(s):
{head.replace("45,922", "54,691")}     - tensor 'L['x']' size mismatch at index 0. expected 25, actual 26
{head.replace("45,922", "54,691")}     - tensor 'L['x']' size mismatch at index 0. expected 24, actual 26
""",
    )
    (one,) = insights.recompiles
    assert (one.name, one.code.file, one.code.line, one.count) == ("forward", "/data/resnet.py", 266, 2)
    assert [(reason.guard.source, reason.count) for reason in one.reasons] == [
        ("L['x'].size()[0]", 2)
    ] and one.size_related


def test_recompiles_of_a_rank_with_ids(tmp_path):
    head = "[rank3]:V0606 12:51:18.544000 133019546625856 torch/_dynamo/guards.py:2610] [1/1] [__recompiles]"
    insights = of(
        tmp_path,
        f"""{head} Recompiling function forward in /workspace/transformer.py:753
{head}     triggered by the following guard failure(s):
{head}     - tensor 'L['tgt']' dtype mismatch. expected Half, actual Float
""",
    )
    (one,) = insights.recompiles
    (reason,) = one.reasons
    assert (reason.guard.kind, reason.guard.source) == ("dtype", "L['tgt']")
    assert (reason.guard.expected, reason.guard.actual, one.compiles[0].rank) == ("Half", "Float", 3)
    assert one.compiles[0].compile_id == "1/1" and not one.size_related


def test_recompiles_pasted_without_prefixes(tmp_path):
    insights = of(
        tmp_path,
        """Some output of the program
Recompiling function fn in /tmp/ipykernel_507/2479206322.py:1
    triggered by the following guard failure(s):
    - 2/1: tensor 'x' size mismatch at index 0. expected 1, actual 2
    - 2/0: c == 0.5                                                      # return x + c  # mp/ipykernel_507/3.py:3 in fn
tensor([2., 2., 2., 2.])
""",
    )
    (one,) = insights.recompiles
    assert one.compiles[-1].compile_id == "2/2" and one.name == "fn"
    size, value = sorted(one.reasons, key=lambda reason: reason.guard.kind)
    assert size.guard.source == "L['x'].size()[0]" and size.against == ("2/1",)
    assert value.guard.source == "L['c']" and value.guard.where.code == "return x + c" and value.guard.where.line == 3


def test_ranks_that_interleave_their_lines(tmp_path):
    heads = [
        f"[rank{rank}]:V0606 12:51:18.544000 7{rank} torch/_dynamo/guards.py:26] [1/1] [__recompiles]"
        for rank in (0, 1)
    ]
    lines = [
        "Recompiling function forward in /workspace/transformer.py:753",
        "    triggered by the following guard failure(s):",
        "    - 1/0: tensor 'L['x']' size mismatch at index 0. expected 4, actual 5",
    ]
    insights = of(tmp_path, "".join(f"{head} {line}\n" for line in lines for head in heads))
    assert sorted(
        (recompile.compiles[-1].rank, recompile.reasons[0].guard.actual) for recompile in insights.recompiles
    ) == [
        (0, "5"),
        (1, "5"),
    ]


def test_limit_of_older_torch(tmp_path):
    head = "[rank6]:W1101 02:43:39.336000 143 site-packages/torch/_dynamo/convert_frame.py:896] [1/64]"
    insights = of(
        tmp_path,
        f"""{head} torch._dynamo hit config.cache_size_limit (64)
{head}    function: 'forward' (/workspace/detail_capture.py:131)
{head}    last reason: 1/0: tensor 'L['images']' size mismatch at index 2. expected 1696, actual 1248
{head} To log all recompilation reasons, use TORCH_LOGS="recompiles".
""",
    )
    (one,) = insights.recompiles
    assert one.hit and one.limit == 64 and one.name == "forward" and one.code.line == 131
    assert one.reasons[0].guard.source == "L['images'].size()[2]"


@pytest.mark.parametrize(
    "text",
    [
        "[2023-10-02 10:00:00,100] [1/0] torch._dynamo.symbolic_convert.__graph_breaks: [DEBUG] Graph break: "
        "call_function BuiltinVariable(print) [ConstantVariable(str)] {} from user code at:\n"
        '  File "/me/a.py", line 5, in f\n'
        '    print("hi")\n',
        "Graph break in user code at /me/a.py:5\nReason: Unsupported: call_function BuiltinVariable(print) "
        '[ConstantVariable(str)] {}\nUser code traceback:\n  File "/me/a.py", line 5, in f\n    print("hi")\n\n'
        "Traceback (most recent call last):\n  File ...\n",
    ],
)
def test_graph_breaks_of_older_torch(tmp_path, text):
    (one,) = of(tmp_path, text).breaks
    assert "BuiltinVariable(print)" in one.kind
    assert (one.where.file, one.where.line, one.where.code) == ("/me/a.py", 5, 'print("hi")')


def test_guards_as_a_list(tmp_path):
    head = "[2023-10-02 10:00:00,100] [0/0] torch._dynamo.guards.__guards: [DEBUG]"
    insights = of(
        tmp_path,
        f"""{head} GUARDS:
{head}   hasattr(L['x'], '_dynamo_dynamic_indices') == False           # return x + 1  # a.py:3 in f
{head}   ___check_type_id(L['n'], 7628576)                             # return x + n  # a.py:4 in f
{head}   2 <= L['x'].size()[0]                                         # return x + 1  # a.py:3 in f
""",
    )
    assert insights.guards.total == 3
    assert {(group.kind, group.source) for group in insights.guards.groups} == {
        ("dynamic marking", "L['x']"),
        ("type", "L['n']"),
    }
    assert [shape.text for shape in insights.guards.shapes] == ["2 <= L['x'].size()[0]"]


def test_text_that_tells_nothing_is_no_insight(tmp_path):
    insights = of(tmp_path, "hello\nworld\n")
    assert not insights.breaks and not insights.recompiles and not insights.events
