"""What a trial says: results compared honestly, help measured, changes joined."""

from dataclasses import replace

from repro_kit.explain.extra_run import MeasuredCall, MeasuredRun, steady
from repro_kit.explain.suggestion import Aim, AppliedChange, Suggestion
from repro_kit.explain.trials import Ruling, Trial, combined, compare, judge

BEFORE = MeasuredRun("exit status 0", 10.0, compiles=4, recompiles=3, graph_breaks=2, ops=10, compile_seconds=5.0)
RECOMPILES = Suggestion("Make it dynamic", "it changed", "recompiles", Aim.RECOMPILES, AppliedChange(env={"A": "1"}))


def call(*values: float, seconds: float = 0.001, compiled: bool = False, dtype: str = "torch.float32") -> MeasuredCall:
    digest = ((len(values),), dtype, float(sum(map(abs, values))), values)
    return MeasuredCall("f", seconds, compiled, (digest,))


def test_the_same_up_to_rounding_is_the_same() -> None:
    one, two = replace(BEFORE, calls=(call(1.0),)), replace(BEFORE, calls=(call(1.00005),))
    found = compare(one, two)
    assert found.same is True and "what 1 call returned" in found.sentence


def test_a_difference_names_the_call() -> None:
    one = replace(BEFORE, calls=(call(1.0), call(2.0)))
    found = compare(one, replace(BEFORE, calls=(call(1.0), call(2.1))))
    assert found.same is False and "call 2 (f) returns 2.1, before 2" in found.sentence


def test_nan_where_there_was_a_number_is_a_difference() -> None:
    one = replace(BEFORE, calls=(call(1.0),))
    assert compare(one, replace(BEFORE, calls=(call(float("nan")),))).same is False


def test_what_differs_between_two_runs_as_they_are_is_no_evidence() -> None:
    one, again = replace(BEFORE, calls=(call(1.0),)), replace(BEFORE, calls=(call(3.0),))
    assert compare(one, replace(BEFORE, calls=(call(2.0),)), again).same is None


def test_printed_numbers_that_vary_anyway_are_passed_over() -> None:
    one, again = replace(BEFORE, stdout="loss 0.5\ntook 1.2 s\n"), replace(BEFORE, stdout="loss 0.5\ntook 3.4 s\n")
    assert compare(one, replace(BEFORE, stdout="loss 0.50001\ntook 9.9 s\n"), again).same is True
    other = compare(one, replace(BEFORE, stdout="loss 0.7\ntook 9.9 s\n"), again)
    assert other.same is False and "line 1 of the output: 'loss 0.7'" in other.sentence


def test_nothing_to_compare_is_no_success() -> None:
    assert compare(BEFORE, BEFORE).same is None


def test_another_ending_is_another_result() -> None:
    assert compare(BEFORE, replace(BEFORE, ended="exit status 1")).same is False


def test_fewer_recompiles_help() -> None:
    trial = judge((RECOMPILES,), BEFORE, replace(BEFORE, compiles=1, recompiles=0), BEFORE)
    assert trial.ruling is Ruling.HELPS and trial.reason == "3 → 0 recompiles"


def test_what_lowers_nothing_is_withdrawn() -> None:
    trial = judge((RECOMPILES,), BEFORE, BEFORE, BEFORE)
    assert trial.ruling is Ruling.WITHDRAWN and trial.reason == "still 3 recompiles"


def test_what_comes_and_goes_by_itself_is_no_help() -> None:
    suggestion = replace(RECOMPILES, aim=Aim.FAILURES)
    failing, passing = replace(BEFORE, failures=1), replace(BEFORE, failures=0)
    trial = judge((suggestion,), failing, passing, passing)
    assert trial.ruling is Ruling.WITHDRAWN and "a second unchanged run also has fewer" in trial.reason
    assert judge((suggestion,), failing, passing, failing).ruling is Ruling.HELPS


def test_to_compile_less_is_no_help() -> None:
    trial = judge((RECOMPILES,), BEFORE, replace(BEFORE, compiles=1, recompiles=0, ops=2), BEFORE)
    assert trial.ruling is Ruling.WITHDRAWN and "10 → 2" in trial.reason


def test_other_results_are_no_help() -> None:
    before = replace(BEFORE, calls=(call(1.0),))
    after = replace(BEFORE, recompiles=0, calls=(call(5.0),))
    assert judge((RECOMPILES,), before, after, before).ruling is Ruling.WITHDRAWN


def test_one_of_two_calls_that_waited_for_a_core_does_not_make_a_run_slower() -> None:
    before = replace(BEFORE, calls=(call(1.0), call(1.0)))
    after = replace(BEFORE, recompiles=0, calls=(call(1.0), call(1.0, seconds=0.5)))
    assert judge((RECOMPILES,), before, after, None).ruling is Ruling.HELPS
    slower = replace(after, calls=(call(1.0, seconds=0.004), call(1.0, seconds=0.5)))
    assert judge((RECOMPILES,), before, slower, None).ruling is Ruling.WITHDRAWN


def test_slower_calls_are_no_help_unless_runs_vary_as_much() -> None:
    before = replace(BEFORE, calls=(call(1.0, seconds=0.01),))
    after = replace(BEFORE, recompiles=0, calls=(call(1.0, seconds=0.03),))
    slow = judge((RECOMPILES,), before, after, before)
    assert slow.ruling is Ruling.WITHDRAWN and "3.0 times as long" in slow.reason
    noisy = replace(BEFORE, calls=(call(1.0, seconds=0.05),))
    assert judge((RECOMPILES,), before, after, noisy).ruling is Ruling.HELPS


def test_only_calls_that_compile_in_neither_run_are_timed() -> None:
    before = replace(BEFORE, calls=(call(1.0, seconds=9, compiled=True), call(1.0, seconds=2)))
    after = replace(BEFORE, calls=(call(1.0, seconds=1), call(1.0, seconds=4)))
    found = steady(before, after)
    assert found is not None and (found.before, found.after, found.calls) == (2, 4, 1)
    assert steady(replace(before, calls=before.calls[:1]), after) is None


def test_joined_changes_prolong_lists_of_sources() -> None:
    one = AppliedChange(env={"TORCH_COMPILE_DYNAMIC_SOURCES": "L['x']:0"}, functions={"dynamo.f": ("builtins.print",)})
    two = AppliedChange(
        env={"TORCH_COMPILE_DYNAMIC_SOURCES": "L['y']:1,L['x']:0"}, functions={"dynamo.f": ("warnings.warn",)}
    )
    joined = one.joined(two)
    assert joined.env == {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['x']:0,L['y']:1"}
    assert joined.functions == {"dynamo.f": ("builtins.print", "warnings.warn")}
    own = {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['z']", "HOME": "/"}
    assert one.environment(own) == {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['z'],L['x']:0"}


def test_what_sets_one_thing_twice_contradicts_itself() -> None:
    assert AppliedChange(arguments={"dynamic": True}).contradicts(AppliedChange(arguments={"dynamic": None}))
    assert not AppliedChange(config={"a": 1}).contradicts(AppliedChange(config={"a": 1, "b": 2}))
    one, two = ({"TORCH_COMPILE_DYNAMIC_SOURCES": source} for source in "xy")
    assert not AppliedChange(env=one).contradicts(AppliedChange(env=two))


def test_how_to_apply_a_change_by_hand() -> None:
    change = AppliedChange(
        env={"TORCH_COMPILE_DYNAMIC_SOURCES": "L['x']:0"},
        config={"shapes.use_duck_shape": False},
        functions={"dynamo.reorderable_logging_functions": ("builtins.print",)},
        arguments={"dynamic": True},
    )
    assert change.lines() == [
        "export TORCH_COMPILE_DYNAMIC_SOURCES=\"L['x']:0\"",
        "torch.fx.experimental._config.use_duck_shape = False",
        "torch._dynamo.config.reorderable_logging_functions.add(print)",
        "torch.compile(…, dynamic=True)",
    ]


def several(*names: str, aim: Aim = Aim.RECOMPILES) -> tuple[Suggestion, ...]:
    return tuple(Suggestion(name, "", "", aim, AppliedChange(config={name: True})) for name in names)


def trial(suggestions: tuple[Suggestion, ...], compiles: int, recompiles: int = 1, breaks: int = 0) -> Trial:
    after = replace(BEFORE, compiles=compiles, recompiles=recompiles, graph_breaks=breaks)
    return Trial(suggestions, Ruling.HELPS, "", BEFORE, after)


def test_all_together_where_that_is_better() -> None:
    (found,) = combined([trial(several("a"), 3), trial(several("b"), 2)], lambda them: trial(them, 1))
    assert [suggestion.what for suggestion in found.suggestions] == ["b", "a"]


def test_one_more_at_a_time_where_all_together_is_not() -> None:
    asked: list[str] = []

    def run(them: tuple[Suggestion, ...]) -> Trial:
        names = "".join(it.what for it in them)
        asked.append(names)
        return trial(them, {"abc": 9, "ab": 9, "ac": 1}[names])

    (found,) = combined([trial(several(name), at) for at, name in enumerate("abc", 2)], run)
    assert asked == ["abc", "ab", "ac"] and [suggestion.what for suggestion in found.suggestions] == ["a", "c"]


def test_what_has_nothing_left_to_lower_is_not_joined() -> None:
    best = trial(several("a"), 1, recompiles=0)
    assert combined([best, trial(several("b"), 2)], lambda them: trial(them, 0)) == []
    breaks = trial(several("c", aim=Aim.GRAPH_BREAKS), 2)
    assert combined([best, breaks], lambda them: trial(them, 0)) == []


def test_contradictions_are_not_joined() -> None:
    one, two = (
        Suggestion("d", "", "", Aim.RECOMPILES, AppliedChange(arguments={"dynamic": it})) for it in (True, None)
    )
    assert combined([trial((one,), 2), trial((two,), 3)], lambda them: trial(them, 0)) == []


def test_calls_that_were_not_measured_are_no_evidence() -> None:
    assert compare(replace(BEFORE, calls=(call(1.0),)), BEFORE).same is None
    assert compare(replace(BEFORE, calls=(call(1.0),)), replace(BEFORE, calls=(call(1.0),) * 2)).same is False


def test_output_that_differs_each_time_is_no_evidence() -> None:
    one, again = replace(BEFORE, stdout="epoch\nepoch\n"), replace(BEFORE, stdout="epoch\n")
    assert compare(one, one, again).same is None  # as many lines by chance
    one, again = replace(BEFORE, stdout="took a while\n"), replace(BEFORE, stdout="took long\n")
    assert compare(one, replace(BEFORE, stdout="took ages\n"), again).same is None


def test_calls_whose_number_differs_each_time_are_no_evidence() -> None:
    one, again = replace(BEFORE, calls=(call(1.0),)), replace(BEFORE, calls=(call(1.0),) * 2)
    assert compare(one, replace(BEFORE, calls=(call(1.0),) * 3), again).same is None


def test_a_script_that_ends_well_now_is_no_loss() -> None:
    fullgraph = Suggestion(
        "Leave out fullgraph=True", "", "failures", Aim.FAILURES, AppliedChange(arguments={"fullgraph": False})
    )
    before = replace(BEFORE, ended="exit status 1", failures=1, compiles=0, ops=0)
    after = replace(BEFORE, failures=0, calls=(call(1.0),))
    found = judge((fullgraph,), before, after, before)
    assert found.ruling is Ruling.HELPS and found.reason == "1 → 0 failed compiles"
    assert (
        found.results is not None and found.results.same is None and "before: exit status 1" in found.results.sentence
    )
    before = replace(before, calls=(call(2.0),))
    worse = judge((fullgraph,), before, after, before)
    assert worse.ruling is Ruling.WITHDRAWN and "returns 1, before 2" in worse.reason
