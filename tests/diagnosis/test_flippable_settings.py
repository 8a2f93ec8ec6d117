"""Which settings are flipped, and which of them together."""

from repro_kit.diagnosis.axes import FlipCandidate, candidates, groups

SETTINGS = [
    {"name": "inductor.pattern_matcher", "value": True, "others": [False]},
    {"name": "inductor.pre_grad_pass_timing", "value": "default", "others": ["early", "late"]},
    {"name": "inductor.triton.cudagraphs", "value": False, "others": [True]},
    {"name": "inductor.cpp.weight_prepack", "value": True, "others": [False]},
    {"name": "inductor.size_asserts", "value": True, "others": [False]},
    {"name": "inductor.max_autotune", "value": False, "others": [True]},
    {"name": "functorch.cse", "value": True, "others": [False]},
    {"name": "dynamo.suppress_errors", "value": False, "others": [True]},
    {"name": "dynamo.disable", "value": False, "others": [True]},
    {"name": "dynamo.error_on_recompile", "value": False, "others": [True]},
    {"name": "dynamo.guard_nn_modules", "value": True, "others": [False]},
]


def names(backend: str, accelerator: bool = False) -> set[str]:
    return {candidate.name for candidate in candidates(SETTINGS, backend, accelerator)}


def test_a_layer_reads_only_its_own_settings() -> None:
    assert names("eager") == {"dynamo.suppress_errors", "dynamo.guard_nn_modules"}
    assert names("aot_eager") == {*names("eager"), "functorch.cse"}
    assert {"inductor.pattern_matcher", "inductor.cpp.weight_prepack", *names("aot_eager")} < names("inductor")


def test_what_is_slow_elsewhere_or_compiles_nothing_is_left_out() -> None:
    assert not names("inductor") & {"inductor.max_autotune", "dynamo.disable", "dynamo.error_on_recompile"}
    assert "inductor.triton.cudagraphs" not in names("inductor")
    assert "inductor.cpp.weight_prepack" not in names("inductor", accelerator=True)


def test_what_mends_nothing_is_marked_and_flipped_alone() -> None:
    found = candidates(SETTINGS, "inductor", False)
    limited = {it.name for it in found if it.limits}
    assert limited == {"dynamo.suppress_errors", "inductor.size_asserts"}
    made = groups(found, 4)
    assert sorted(at for group in made for at in group) == list(range(len(found)))
    for group in made:
        assert len(group) == 1 or not limited & {found[at].name for at in group}
        assert len({found[at].name for at in group}) == len(group) <= 4
    assert FlipCandidate("inductor.pre_grad_pass_timing", "late", "default") in found
