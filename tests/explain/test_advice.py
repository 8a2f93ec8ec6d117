"""From insights to suggestions, with the user's file changed as a diff."""

from dataclasses import replace

import pytest

from repro_kit.explain.advice import suggestions
from repro_kit.explain.advice.recompile_advice import dynamic_source
from repro_kit.explain.context import Context
from repro_kit.explain.suggestion import Suggestion
from repro_kit.failure.failure import Frame
from repro_kit.trace.dynamo_text import GraphBreak, parse_guard
from repro_kit.trace.insights import Insights
from repro_kit.trace.insights.dynamic_shapes import Block, Blocked, DynamicShapes, Symbol, SymbolOrigin
from repro_kit.trace.insights.overview import CompileInfo, Overview, OverviewNode, OverviewState
from repro_kit.trace.insights.recompiles import Reason, Recompiled, RecompileRow, RecompileTable
from repro_kit.trace.insights.specializations import Cause, Specialization
from repro_kit.trace.places import CompileRef

FILE = "/home/me/train.py"
SOURCE = """\
import torch
def helper(x):
    with open("f") as file:
        return x + len(file.read())
def forward(x):
    y = helper(x)
    if y.sum() > 0:
        y = y.sin()
    else:
        y = y.cos()
    if y.max() > 3:
        y = y.clamp(max=3)
    print(y)
    return y
def main():
    torch._dynamo.mark_dynamic(x, 0)
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    forward(x)
main()
"""
MAIN = (Frame(FILE, 19, "<module>"), Frame(FILE, 18, "main"))
CODE = Frame(FILE, 5, "forward")


def advice(insights: Insights, source: str | None = SOURCE) -> tuple[Suggestion, ...]:
    return suggestions(Context(insights, "/home/me", lambda file: source if file == FILE else None))


def broken(kind: str, line: int, context: str = "", *, inner: Frame | None = None, **more: object) -> GraphBreak:
    frames = (*MAIN, Frame(FILE, line, "forward"), *([inner] if inner else []))
    return GraphBreak(kind, context=context, where=frames[-1], stack=frames, count=1, **more)  # type: ignore[arg-type]


def recompiled(*guards: str, sizes: bool = False, **more: object) -> Recompiled:
    reasons = tuple(Reason(guard, guard.size_related, 1) for guard in map(parse_guard, guards))
    refs = tuple(CompileRef(f"0/{at}") for at in range(3))
    rows = tuple(RecompileRow(ref, (str(at + 3),)) for at, ref in enumerate(refs))
    table = RecompileTable(("L['x'].size()[0]",), rows) if sizes else RecompileTable()
    return Recompiled("forward", CODE, 2, refs, reasons, table, **more)  # type: ignore[arg-type]


SIZES = recompiled("tensor 'x' size mismatch at index 0. expected 3, actual 4", sizes=True)


def test_print_is_moved_by_a_setting() -> None:
    (one,) = advice(Insights(breaks=(broken("Failed to trace builtin operator", 13, "builtin print [] False"),)))
    assert one.change is not None and one.place == "train.py:13"
    assert one.change.functions == {"dynamo.reorderable_logging_functions": ("builtins.print",)}


def test_item_is_captured_by_a_variable() -> None:
    hint = "Set `torch._dynamo.config.capture_scalar_outputs = True`"
    (one,) = advice(Insights(breaks=(broken("Unsupported Tensor.item() call", 7, hints=(hint,)),)))
    assert one.change is not None and one.change.env == {"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"}


def test_a_branch_that_chooses_a_value_becomes_cond() -> None:
    (one,) = advice(Insights(breaks=(broken("Data-dependent branching", 7),)))
    assert one.change is None and one.edit is not None and one.edit.file == "train.py"
    added = [line for line in one.edit.diff.splitlines() if line.startswith("+ ")]
    assert added == ["+    y = torch.cond(y.sum() > 0, lambda: y.sin(), lambda: y.cos())"]


def test_a_branch_without_else_becomes_where() -> None:
    (one,) = advice(Insights(breaks=(broken("Data-dependent branching", 11),)))
    assert one.edit is not None and "+    y = torch.where(y.max() > 3, y.clamp(max=3), y)" in one.edit.diff


def test_a_file_that_is_gone_leaves_the_words() -> None:
    (one,) = advice(Insights(breaks=(broken("Data-dependent branching", 7),)), source=None)
    assert one.edit is None and "torch.cond" in one.what


def test_a_function_that_cannot_be_traced_is_disabled_where_another_calls_it() -> None:
    inner = Frame(FILE, 3, "helper")
    (one,) = advice(Insights(breaks=(broken("Unsupported context manager", 6, inner=inner),)))
    assert one.edit is not None and "+@torch.compiler.disable\n def helper(x):" in one.edit.diff


def test_a_context_manager_is_moved_and_no_operator_is_made_of_it() -> None:
    (one,) = advice(Insights(breaks=(broken("Unsupported context manager", 3),)))
    assert one.what == 'Move `with open("f") as file:` out of the compiled function'


@pytest.mark.parametrize(("code", "is_disabled"), [(Frame(FILE, 2, "helper"), False), (CODE, True)])
def test_a_function_is_disabled_only_where_it_is_called_by_the_compiled_one(code: Frame, is_disabled: bool) -> None:
    context = "module: <unknown module>, qualname: Random.random, skip reason: x"
    ref = CompileRef("0/0")
    found = broken("Attempted to call function marked as skipped", 6, context, inner=Frame(FILE, 3, "helper"))
    info = CompileInfo(ref, OverviewState.BROKEN, code)
    (one,) = advice(Insights(breaks=(replace(found, compiles=(ref,)),), overview=Overview(compiles=(info,))))
    assert (one.edit is not None) is is_disabled
    assert is_disabled or one.what.startswith("Call `Random.random` outside of the compiled function")


def test_logging_is_left_out_by_its_method() -> None:
    context = "module: logging, qualname: Logger.warning, skip reason: x"
    (one,) = advice(Insights(breaks=(broken("Attempted to call function marked as skipped", 13, context),)))
    assert one.change is not None
    assert one.change.functions == {"dynamo.ignore_logging_functions": ("logging.Logger.warning",)}


def test_two_breaks_of_one_kind_are_one_suggestion() -> None:
    context = "builtin print [] False"
    breaks = tuple(broken("Failed to trace builtin operator", line, context, extra_graphs=1) for line in (12, 13))
    (one,) = advice(Insights(breaks=breaks))
    assert one.weight == 2


@pytest.mark.parametrize(
    ("source", "entry"),
    [
        ("L['x'].size()[1]", "L['x']:1"),
        ("x.size()[0]", "L['x']:0"),
        ("self.n", "L['self'].n"),
        ("L['d']['a, b'].size()[0]", "L['d']['a..b']:0"),
    ],
)
def test_sources_as_the_variable_wants_them(source: str, entry: str) -> None:
    assert dynamic_source(source) == entry


def test_sizes_become_dynamic_from_outside() -> None:
    first, second = advice(Insights(recompiles=(SIZES,)))
    assert first.change is not None and first.change.env == {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['x']:0"}
    assert "maybe_mark_dynamic(x, 0)" in first.note
    assert second.change is not None and second.change.arguments == {"dynamic": True}


def test_what_is_a_symbol_already_is_not_to_be_marked() -> None:
    symbol = Symbol("s0", "L['x'].size()[0]", SymbolOrigin.DYNAMIC, code=CODE)
    where = Frame(FILE, 7, "forward", "if x.shape[0] == 3:")
    special = Specialization(Cause.CODE, ("L['x'].size()[0]",), "3", where=where, code=CODE)
    shapes = DynamicShapes((symbol,))
    (one,) = advice(Insights(recompiles=(SIZES,), shapes=shapes, specializations=(special,)))
    assert "if x.shape[0] == 3:" in one.what and one.place == "train.py:7"


def test_a_specialization_that_costs_nothing_is_no_reason_for_advice() -> None:
    special = Specialization(Cause.CODE, ("L['x'].size()[0]",), "3", where=CODE, code=CODE)
    assert advice(Insights(specializations=(special,))) == ()


def test_a_float_is_given_as_a_tensor() -> None:
    (one,) = advice(Insights(recompiles=(recompiled("L['k'] == 0.5"),)))
    assert one.change is None and "torch.tensor(0.5)" in one.what


def test_a_learning_rate_is_changed_where_the_optimizer_is_made() -> None:
    tree = tuple(OverviewNode(frame, depth) for depth, frame in enumerate(MAIN))
    insights = Insights(Overview(tree=tree), recompiles=(recompiled("self.param_groups[0]['lr'] == 0.09"),))
    (one,) = advice(insights)
    assert (
        one.edit is not None and "+    optimizer = torch.optim.Adam(parameters, lr=torch.tensor(0.1))" in one.edit.diff
    )


def test_a_number_that_a_graph_break_hands_over_is_no_float_of_the_users() -> None:
    assert advice(Insights(recompiles=(recompiled("___stack0 == 3.5"),))) == ()


def test_the_limit_comes_last() -> None:
    found = advice(Insights(recompiles=(replace(SIZES, hit=True, limit=8),)))
    assert found[-1].change is not None and found[-1].change.config == {"dynamo.recompile_limit": 16}
    assert len(found) == 3


def test_a_torch_that_calls_the_limit_otherwise_has_no_variable_for_dynamic_sizes() -> None:
    older = replace(SIZES, hit=True, limit=8, setting="cache_size_limit")
    first, *_, last = advice(Insights(recompiles=(older,)))
    assert first.change is None and first.note == "in code, before the call: torch._dynamo.maybe_mark_dynamic(x, 0)"
    assert last.change is not None and last.change.config == {"dynamo.cache_size_limit": 16}
    total = replace(older, limit=256)
    assert advice(Insights(recompiles=(total,)))[-1].what.startswith("Raise accumulated_cache_size_limit to 512")


def test_the_limit_of_all_objects_together_has_a_setting_of_its_own() -> None:
    one = replace(recompiled("L['k'] == 'a'"), hit=True, limit=256)
    assert advice(Insights(recompiles=(one,)))[-1].change.config == {"dynamo.accumulated_recompile_limit": 512}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        ("tensor 'x' dtype mismatch. expected Float, actual Double", "in one dtype"),
        ("tensor 'x' rank mismatch. expected 1, actual 2", "one number of dimensions"),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=1", "one requires_grad"),
        ("GLOBAL_STATE changed: grad_mode", "one state of torch"),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect), actual "
            "DispatchKeySet(CPU, BackendSelect, ADInplaceOrView)",
            "outside of torch.inference_mode()",
        ),
        ("L['mode'] == 'train'", "same between calls"),
        ("2 <= L['x'].size()[0] <= 9  # if x.shape[0] < 10:  # train.py:7 in forward", "Do not let"),
    ],
)
def test_a_guard_of_another_kind_says_what_to_keep(guard: str, words: str) -> None:
    (one,) = advice(Insights(recompiles=(recompiled(guard),)))
    assert words in one.what and one.change is None


def test_a_setting_that_keeps_something_constant_is_flipped() -> None:
    blocked = Blocked("L['self'].n", Block.INTEGER, ("1", "2", "3"))
    (one,) = advice(Insights(shapes=DynamicShapes(blocked=(blocked,))))
    assert one.change is not None and one.change.config == {"dynamo.allow_unspec_int_on_nn_module": True}


def test_0_and_1_are_sizes_like_others_when_unbacked() -> None:
    special = Specialization(Cause.ZERO_ONE, ("L['x'].size()[0]",), "1", code=CODE)
    one, two = advice(Insights(specializations=(special,)))
    assert one.change is not None and one.change.env == {"TORCH_COMPILE_UNBACKED_SOURCES": "L['x']:0"}
    assert two.change is not None and two.change.config == {"shapes.backed_size_oblivious": True}


def test_a_violated_mark_becomes_a_wish() -> None:
    special = Specialization(Cause.VIOLATED, ("L['x'].size()[0]",), "3", code=CODE)
    (one,) = advice(Insights(Overview(tree=(OverviewNode(MAIN[0], 0),)), specializations=(special,)))
    assert one.edit is not None and "+    torch._dynamo.maybe_mark_dynamic(x, 0)" in one.edit.diff


def test_an_elif_is_not_replaced_alone() -> None:
    source = SOURCE.replace(
        "    else:\n        y = y.cos()", "    elif y.sum() < -1:\n        y = y.cos()\n    else:\n        y = y.tan()"
    )
    for line in (7, 9):  # the whole of it chooses among three
        (one,) = advice(Insights(breaks=(broken("Data-dependent branching", line),)), source)
        assert "torch.cond" in one.what and one.edit is None


def test_a_form_feed_ends_no_line() -> None:
    (one,) = advice(Insights(breaks=(broken("Data-dependent branching", 7),)), SOURCE.replace("torch\n", "torch \f\n"))
    assert one.edit is not None and "+    y = torch.cond(y.sum() > 0," in one.edit.diff


def test_of_several_marks_the_one_of_that_name_is_changed() -> None:
    special = Specialization(Cause.VIOLATED, ("L['x'].size()[0]",), "3", code=CODE)
    insights = Insights(Overview(tree=(OverviewNode(MAIN[0], 0),)), specializations=(special,))
    mark = "    torch._dynamo.mark_dynamic(x, 0)\n"
    (one,) = advice(insights, SOURCE.replace(mark, mark.replace("(x", "(mask") + mark))
    assert one.edit is not None and "+    torch._dynamo.maybe_mark_dynamic(x, 0)" in one.edit.diff
    assert "+    torch._dynamo.maybe_mark_dynamic(mask" not in one.edit.diff
    (one,) = advice(insights, SOURCE.replace(mark, mark.replace("(x", "(mask") + mark.replace("(x", "(y")))
    assert one.edit is None  # either may be meant


def test_a_hint_of_torch_to_set_something_can_be_tried() -> None:
    hint = "Set torch._dynamo.config.allow_rnn=True to enable experimental support for RNN, GRU, and LSTM in Dynamo"
    (one,) = advice(Insights(breaks=(broken("Attempted to wrap RNN, GRU, or LSTM", 7, hints=(hint,)),)))
    assert one.what == hint and one.change is not None and one.change.config == {"dynamo.allow_rnn": True}


def test_a_stride_that_changed_is_no_dynamic_size_and_one_layout_is_one_suggestion() -> None:
    strides = [f"tensor 'x' stride mismatch at index {at}. expected {at}, actual 9" for at in range(2)]
    told = recompiled("tensor 'x' size mismatch at index 0. expected 3, actual 4", *strides)
    sources = ("L['x'].size()[0]", "L['x'].stride()[0]", "L['x'].stride()[1]")
    rows = tuple(RecompileRow(ref, (str(at), str(at), str(at))) for at, ref in enumerate(told.compiles))
    found = advice(Insights(recompiles=(replace(told, values=RecompileTable(sources, rows)),)))
    changes = [one.change.env for one in found if one.change is not None]
    assert {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['x']:0"} in changes
    assert [one.what for one in found if "memory layout" in one.what] == [
        "Give `x` in one memory layout: .contiguous()"
    ]


def test_an_integer_that_torch_never_makes_dynamic_is_to_stay_the_same() -> None:
    told = recompiled("G['counter'] == 0", "G['counter'] == 1", "L['lr'] == 1")
    rows = tuple(RecompileRow(ref, (str(at),)) for at, ref in enumerate(told.compiles))
    found = advice(Insights(recompiles=(replace(told, values=RecompileTable(("G['counter']",), rows)),)))
    assert [one.what.partition(" the same")[0] for one in found] == ["Keep `G['counter']`"]


def test_the_guards_of_all_cached_compiles_weigh_as_much_as_the_recompiles_that_they_explain() -> None:
    refs = tuple(CompileRef(f"0/{at}") for at in range(1, 4))
    modes = [
        Reason(parse_guard(f"L['mode'] == '{letter}'"), False, 3 - at, refs[at:]) for at, letter in enumerate("abc")
    ]
    told = replace(recompiled(), reasons=tuple(modes), compiles=(CompileRef("0/0"), *refs))
    (one,) = advice(Insights(recompiles=(told,)))
    assert one.weight == 1.5


def test_what_causes_most_recompiles_comes_first() -> None:
    """A counter changes in each call, and the size of the last batch of an epoch once."""
    counter, size = (
        parse_guard("model.updates == 0"),
        parse_guard("tensor 'x' size mismatch at index 0. expected 3, actual 2"),
    )
    refs = tuple(CompileRef(f"0/{at}") for at in range(5))
    reasons = (Reason(size, True, 1, refs[2:3]), Reason(counter, False, 4, refs[1:]))
    rows = tuple(RecompileRow(ref, ("2" if at == 2 else "3",)) for at, ref in enumerate(refs))
    table = RecompileTable(("L['x'].size()[0]",), rows)
    blocked = Blocked("L['model'].updates", Block.INTEGER, ("0", "1", "2"))
    insights = Insights(
        recompiles=(Recompiled("forward", CODE, 4, refs, reasons, table),), shapes=DynamicShapes(blocked=(blocked,))
    )
    first, second, *_ = advice(insights)
    assert "allow_unspec_int_on_nn_module" in first.what
    assert "dynamic from the start" in second.what and "5 times, once because this size changed" in second.why


def test_a_float_that_became_a_constant_is_no_size() -> None:
    constant = Specialization(Cause.CODE, ("L['scale']",), "0.1", "zf3", where=Frame(FILE, 7, "forward"), code=CODE)
    found = advice(Insights(recompiles=(recompiled("scale == 0.1"),), specializations=(constant,)))
    assert [one.what for one in found] == ["Give `scale` of `forward` as a tensor: torch.tensor(0.1)"]


def test_tensors_of_the_code_after_a_graph_break_follow_the_argument_that_changed_in_the_same_way() -> None:
    double = "dtype mismatch. expected Float, actual Double"
    named = "torch_dynamo_resume_in_forward_at_7"
    resumed = replace(recompiled(f"tensor 'y' {double}", f"tensor '___stack0' {double}"), name=named)
    (one,) = advice(Insights(recompiles=(resumed, recompiled(f"tensor 'x' {double}"))))
    assert (one.what, one.place) == ("Give `x` in one dtype", "train.py:5")
    assert "`forward from line 7` was compiled again for tensor 'y'" in one.why
    (alone,) = advice(Insights(recompiles=(resumed,)))  # code between two graphs may have changed it
    assert alone.what == "Give `y` in one dtype"


def test_a_line_that_makes_a_size_a_constant_of_several_values_is_one_suggestion() -> None:
    where = Frame(FILE, 7, "forward", "for k in range(quota):")
    special = [Specialization(Cause.CODE, ("L['quota']",), value, "s0", where=where, code=CODE) for value in "34"]
    found = advice(Insights(recompiles=(recompiled("L['mode'] == 'a'"),), specializations=tuple(special)))
    assert [one.what for one in found if "depend on" in one.what] == [
        "Do not let `for k in range(quota):` depend on L['quota'] (s0) = 3, 4"
    ]


@pytest.mark.parametrize("test", ["not y.sum() > 0", "y.sum() > 0 and flag", "(y > 1).sum()", "0 < y.sum() < 1"])
def test_a_condition_that_is_no_boolean_tensor_is_not_edited(test: str) -> None:
    (one,) = advice(Insights(breaks=(broken("Data-dependent branching", 7),)), SOURCE.replace("y.sum() > 0", test))
    assert one.edit is None
