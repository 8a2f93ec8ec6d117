"""What a bundle answers to a maintainer's questions, from hand-made results; no torch is asked."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.story.story import Story
from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import RELEASES, BuildsTried, Environment, Observation, Reduction, TwinFound
from repro_kit.diagnosis.answers import Answers, FirstWrong, TorchSource, TriedVariant, TriedWorkaround
from repro_kit.diagnosis.cell import Ablation, Cell
from repro_kit.diagnosis.evidence import Chain, Flip, Link, Side, Untried
from repro_kit.diagnosis.layer import WITNESS
from repro_kit.diagnosis.workaround import Intrusion, Workaround
from repro_kit.failure.failure import Difference, ExceptionLink, Failure, Frame, Layer, Phase, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.graph import parse
from repro_kit.recipe import Recipe
from repro_kit.regressions.build import Build, Judgement, Mark
from repro_kit.regressions.search_state import DIRECTORY, BisectState, write_state
from repro_kit.repro_run.running import Check, ReproRun
from repro_kit.serialize import from_data, to_data
from repro_kit.stages.bundle import answers as gathering
from repro_kit.stages.bundle.answers import TorchReply, answers_of, ask, question
from repro_kit.stages.bundle.code_places import asked_places, of_own_code
from repro_kit.stages.bundle.forms import CaseResults, ReproForm
from repro_kit.stages.bundle.further_runs import replayed_variables, with_replay
from repro_kit.ui import SilentUi

PROGRAM = """# repro-kit program 1
import torch

RECIPE = {'backward': 'sum'}


def graph(x):
    y = torch._C._nn.avg_pool2d(x, 2, 2, 0, True)
    return (y,)


def calls():
    x = torch.rand(1, 1, 1, 1).requires_grad_()
    return [(x,)]
"""
COMMIT = "cf30153c4c131c8164ee7798e5022d810682e2cb"
WRONG = Signature(Kind.ACCURACY, difference="value", places=("gradient",))
REPLAY = "TORCH_BISECT_BACKEND=inductor TORCH_BISECT_SUBSYSTEM=lowerings TORCH_BISECT_MAX=1 python repro.py"
CHAIN = Chain(
    "program",
    (
        Link("backend", "inductor", "It fails.", bad=Side("inductor", "fails as observed", "python repro.py")),
        Link("subsystem", "lowerings", "Gone.", tried=(Side("lowerings", "passes"), Side("decomposition", "fails"))),
        Link("op", "#1 aten.avg_pool2d_backward.default", "It begins.", bad=Side("#1 on", "fails as observed", REPLAY)),
        Link("op", "gone with eager's kernel for that operator", "Alone.", bad=Side("#1", "fails", "python -c 'x'")),
    ),
)
ABLATION = Ablation("program", layer=Layer.INDUCTOR, chain=CHAIN)
DIFFERENCE: dict[str, Any] = {
    "kind": "value",
    "where": "grad of x",
    "max_abs": 0.75,
    "max_rel": 0.75,
    "fraction": 1.0,
    "detail": "",
    "index": [0, 0, 0, 3],
    "eager": "1.0",
    "compiled": "0.25",
}
OTHER = {**DIFFERENCE, "kind": "shape", "where": "output 0", "eager": "[1]", "compiled": "[2]", "index": None}
KERNEL = 'extern "C" void kernel(float* out)\n{\n    auto tmp0 = 1.0;\n    auto tmp1 = tmp0 * 0.25;\n}'


NOTHING = TorchReply()


@pytest.fixture
def case(tmp_path: Path) -> Case:
    subject = Subject("script", ("train.py",), str(tmp_path), sys.executable)
    case = Case.create(tmp_path / "x.repro", subject, "2030-01-01T00:00:00+00:00")
    case.update(signature=WRONG)
    return case


def form_of(
    *, program: str | None = PROGRAM, reduced: bool = True, path: Path | None = None, **facts: Any
) -> ReproForm:
    env = Environment("3.11", sys.executable, "Linux", "2.13.0", torch_git=COMMIT)
    given = {"signature": WRONG, "failure": None, "environment": env, "ablation": ABLATION, **facts}
    parsed = parse(program) if program else None
    return ReproForm(Facts(**given), 60.0, "", program=parsed, reduced=reduced, path=path or Path("minify/best.py"))


def told(**data: Any) -> TorchReply:
    return TorchReply(data)  # type: ignore[arg-type]


def answered(case: Case, form: ReproForm, told: TorchReply = NOTHING, **options: bool) -> Answers:
    observation = Observation(("x",), 1, None, False, 1.0, 0, None, None)
    results = CaseResults(observation, None, None, None, form.facts)
    return answers_of(case, results, form, None, told, **{"values": False, "code": False, **options})


def test_the_first_wrong_element_is_that_of_the_failure_and_stands_beside_float64(case: Case) -> None:
    row = {"where": "grad of x", "dtype": "float32", "eager": 0.0, "compiled": 0.75}
    answers = answered(
        case,
        form_of(),
        told(differences=[OTHER, DIFFERENCE], double={"grad of x": "1.0"}, errors=[row], with_casts=True),
    )
    assert answers.first_wrong == FirstWrong("value", "grad of x", "1.0", "0.25", "[0, 0, 0, 3]", "1.0")
    assert [(row.eager, row.compiled) for row in answers.double] == [(0.0, 0.75)]
    assert answers.with_casts == "fails"
    assert not answers.why_unknown("first_wrong") and not answers.why_unknown("double")


def test_what_could_not_be_had_says_why(case: Case) -> None:
    silent = answered(case, form_of(), TorchReply(why="a further run of the program took too long"))
    for fact in ("first_wrong", "double", "with_casts", "kernel", "places"):
        assert silent.why_unknown(fact) == "a further run of the program took too long", fact
    no_double = told(differences=[DIFFERENCE], missing={"double": "it draws random numbers"}, with_casts=False)
    answers = answered(case, form_of(), no_double)
    assert answers.why_unknown("double") == "it draws random numbers" and answers.with_casts == "passes"
    assert answers.why_unknown("builds") == "no other build was tried"


def test_values_made_of_stored_tensors_stay_out_unless_these_are_in(case: Case) -> None:
    stored = form_of(program=PROGRAM.replace("torch.rand(1, 1, 1, 1)", "load('x')"))
    assert stored.program is not None and stored.program.stored
    seen = told(differences=[DIFFERENCE], double={"grad of x": "1.0"})
    hidden = answered(case, stored, seen)
    assert hidden.first_wrong is None and "not in the bundle" in hidden.why_unknown("first_wrong")
    assert answered(case, stored, seen, values=True).first_wrong is not None


def test_a_lost_side_effect_has_the_values_of_both_sides(case: Case) -> None:
    state = Difference.of_state("seen after call 1", "6 items", "0 items")
    failed = Verdict(Status.FAIL, Failure(Kind.ACCURACY, difference=state))
    cell = Cell("witness", True, Recipe(), failed, changed={"contrast": WITNESS, "parting": "state"})
    form = form_of(program=None, reduced=False, ablation=Ablation("script", (cell,), Layer.DYNAMO))
    first = answered(case, form).first_wrong
    assert first == FirstWrong("state", "seen after call 1", "6 items", "0 items")


def test_how_the_calls_of_a_reduced_script_differ_is_told_where_its_own_check_does_not(case: Case) -> None:
    lost = Difference("structure", "grad of h.weight", eager="no gradient", compiled="a gradient")
    failed = Failure(Kind.ACCURACY, exceptions=(ExceptionLink("AssertionError", "decayed"),))
    reduction = Reduction(43, 28, 9, 1.0, True, True, difference=lost)
    form = form_of(program=None, failure=failed, reduction=reduction)
    expected = FirstWrong("structure", "grad of h.weight", "no gradient", "a gradient")
    assert answered(case, form).first_wrong == expected
    assert answered(case, replace(form, reduced=False)).first_wrong is None, "it is of the reduced script"


def test_the_kernel_is_the_one_of_the_operator_and_its_telling_line_is_marked(case: Case) -> None:
    kernels = [
        {"name": "cpp_fused_avg_pool2d_0", "language": "cpp", "code": "other"},
        {"name": "cpp_fused_avg_pool2d_backward_0", "language": "cpp", "code": KERNEL},
    ]
    kernel = answered(case, form_of(), told(differences=[DIFFERENCE], kernels=kernels)).kernel
    assert kernel is not None and kernel.code == KERNEL and kernel.marked == 4 and "0.25 times" in kernel.why
    divided = {**kernels[1], "code": "auto tmp0 = 1.0;\nauto tmp1 = tmp0 / 4;\nauto tmp2 = in_ptr0[4L*x0];"}
    again = answered(case, form_of(), told(differences=[DIFFERENCE], kernels=[divided])).kernel
    assert again is not None and again.marked == 2
    twice = {**kernels[1], "code": KERNEL.replace("1.0", "4.0")}  # two lines have the number, or its inverse
    again = answered(case, form_of(), told(differences=[DIFFERENCE], kernels=[twice])).kernel
    assert again is not None and again.marked == 0


def test_the_line_that_the_native_compiler_quotes_is_marked(case: Case) -> None:
    message = "CppCompileError: x\n/tmp/a.cpp:9:3: error: expected ';'\n    9 |  auto tmp1 = tmp0 * 0.25;\n      |  ^"
    failure = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("CppCompileError", message),))
    form = form_of(signature=Signature(Kind.COMPILE_ERROR), failure=failure)
    kernel = answered(case, form, told(kernels=[{"name": "cpp_fused_0", "language": "cpp", "code": KERNEL}])).kernel
    assert kernel is not None and (kernel.marked, kernel.why) == (4, "the compiler's first error is in it")
    first, wrong = (
        {"name": f"cpp_fused_{at}", "language": "cpp", "code": code} for at, code in enumerate(("a", KERNEL))
    )
    among = answered(case, form, told(kernels=[first, wrong])).kernel
    assert among is not None and among.code == KERNEL, "the compiler tells which of several"
    below = {**wrong, "code": "\n".join(f"auto x{at};" for at in range(100)) + "\n" + KERNEL}
    late = answered(case, form, told(kernels=[below])).kernel
    assert late is not None and "tmp0 * 0.25" in late.code.splitlines()[late.marked - 1] and late.left_out == 45
    either = answered(case, form, told(kernels=[{**wrong, "code": f"{KERNEL}\n{KERNEL}"}])).kernel
    assert either is not None and either.marked == 0
    declared = replace(
        failure.exceptions[-1], message=message.replace("expected ';'", "conflicting declaration 'tmp1'")
    )
    twice = form_of(signature=form.facts.signature, failure=replace(failure, exceptions=(declared,)))
    second = answered(case, twice, told(kernels=[{**wrong, "code": f"{KERNEL}\n{KERNEL}"}])).kernel
    assert second is not None and second.marked == 9, "the second declaration is refused"


def test_no_kernel_is_shown_of_what_is_not_reduced_or_ambiguous(case: Case) -> None:
    kernels = [{"name": f"cpp_fused_{name}_0", "language": "cpp", "code": name} for name in "ab"]
    several = answered(case, form_of(), told(kernels=kernels))
    assert several.kernel is None and "2 kernels" in several.why_unknown("kernel")
    whole = answered(case, form_of(reduced=False), told(kernels=kernels[:1]))
    assert whole.kernel is None and whole.why_unknown("kernel") == "the program is not reduced"
    long = {"name": "cpp_fused_avg_pool2d_backward_0", "language": "cpp", "code": "x;\n" * 100}
    kernel = answered(case, form_of(), told(kernels=[long])).kernel
    assert kernel is not None and len(kernel.code.splitlines()) == 60 and kernel.left_out == 40


def test_an_error_points_to_its_own_frame_in_torch_at_the_commit(case: Case) -> None:
    frames = (
        Frame("/x/site-packages/torch/_inductor/lowering.py", 77, "my_lowering"),
        Frame("/x/site-packages/torch/_ops.py", 5, "__call__"),
    )
    error = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("KeyError", "x", frames),))
    form = form_of(signature=Signature(Kind.COMPILE_ERROR), failure=error, ablation=replace(ABLATION, chain=None))
    link = f"https://github.com/pytorch/pytorch/blob/{COMMIT}/torch/_inductor/lowering.py#L77"
    place = TorchSource("where the error is raised", "torch/_inductor/lowering.py", 77, "my_lowering", link)
    assert answered(case, form).places == (place,)
    unknown_build = replace(form.facts, environment=replace(form.facts.environment, torch_git="Unknown"))
    assert answered(case, replace(form, facts=unknown_build)).places == (replace(place, link=""),)


def test_an_error_of_the_compilers_runtime_points_to_its_frame_where_no_other_tells(case: Case) -> None:
    runtime = Frame("/x/site-packages/torch/_functorch/_aot_autograd/functional_utils.py", 340, "gen_alias_from_base")
    generated = Frame("/x/site-packages/torch/_functorch/_aot_autograd/subclass_codegen.py:codegen(f)", 3, "_alias_fn")
    own = Frame("/work/train.py", 3, "f")

    def places(*frames: Frame) -> list[str]:
        error = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("AssertionError", "incorrect", frames),))
        form = form_of(signature=Signature(Kind.RUNTIME_ERROR), failure=error, ablation=replace(ABLATION, chain=None))
        return [f"{place.file}:{place.line}" for place in answered(case, form).places]

    handler = Frame("/x/site-packages/torch/_dynamo/variables/lists.py", 995, "call_method")
    of_all = Frame("/x/site-packages/torch/_dynamo/variables/base.py", 441, "as_python_constant")
    assert places(own, handler, of_all) == ["torch/_dynamo/variables/lists.py:995"], "who asked for what is raised"
    assert places(own, generated, runtime) == ["torch/_functorch/_aot_autograd/functional_utils.py:340"]
    assert places(runtime, generated) == places(runtime, own) == []


def test_of_a_backend_that_raises_the_line_is_told() -> None:
    frames = (
        Frame("/b/repro.py", 19, "<module>"),
        Frame("/x/torch/__init__.py", 2, "f"),
        Frame("/b/repro.py", 11, "toy"),
    )
    raised = (
        ExceptionLink("NotImplementedError", "no", frames),
        ExceptionLink("BackendCompilerFailed", "no", frames[:2]),
    )
    own = TorchSource("where the program's own code raises", "repro.py", 11, "toy")
    assert [*of_own_code(Failure(Kind.COMPILE_ERROR, exceptions=raised))] == [own]
    assert [*of_own_code(Failure(Kind.COMPILE_ERROR, exceptions=raised[1:]))] == [*of_own_code(None)] == []


def test_the_check_of_the_script_is_no_place_to_look(case: Case) -> None:
    frames = (Frame("/x/site-packages/torch/testing/_comparison.py", 1500, "error"),)
    failure = Failure(Kind.ACCURACY, exceptions=(ExceptionLink("AssertionError", "differs", frames),))
    assert answered(case, form_of(failure=failure)).places == ()


def test_the_places_follow_from_layer_subsystem_and_operator() -> None:
    assert asked_places(form_of()) == [{"kind": "lowering", "name": "aten.avg_pool2d_backward.default"}]
    passes = replace(CHAIN, links=(Link("subsystem", "joint_graph_passes", ""), Link("op", "#3 remove_noop_ops", "")))
    of_pass = form_of(ablation=replace(ABLATION, chain=passes))
    assert asked_places(of_pass) == [{"kind": "pass", "name": "joint_graph_passes:remove_noop_ops"}]
    between = replace(CHAIN, links=(Link("subsystem", "lowerings", ""), Link("op", "#1-3 aten.relu.default", "")))
    assert asked_places(form_of(ablation=replace(ABLATION, chain=between))) == []
    traced = Ablation("program", layer=Layer.DECOMPOSITION, cause="decomposition")
    assert {"kind": "python-kernel", "name": "avg_pool2d"} in asked_places(form_of(ablation=traced))
    assert asked_places(form_of(ablation=replace(ABLATION, layer=Layer.USER))) == []


def test_the_functions_that_a_reduced_script_calls_are_asked_of_dynamo(tmp_path: Path) -> None:
    path = tmp_path / "best.py"
    path.write_text("import torch\ndef f():\n    torch.use_deterministic_algorithms(True)\ntorch.compile(f)()\n")
    form = form_of(program=None, path=path, ablation=Ablation("script", layer=Layer.DYNAMO, cause="side-effects"))
    assert [(place["kind"], place["name"]) for place in asked_places(form)] == [
        ("object", "torch._dynamo.side_effects:SideEffects"),
        ("handler", "torch.use_deterministic_algorithms"),
    ]
    raised = replace(form, facts=replace(form.facts, signature=Signature(Kind.DYNAMO_ERROR)))
    assert [place["kind"] for place in asked_places(raised)] == ["object"], "the error has its own place"
    path.write_text("import torch\nx = torch.randn(1)\ntorch.compile(lambda x, j: x / len(set(j)))(x, [1])\n")
    plain = form_of(program=None, path=path, ablation=Ablation("script", layer=Layer.DYNAMO, cause="tracing"))
    assert asked_places(plain) == [], "what makes its inputs is not at fault"


def test_nothing_is_named_in_torch_where_the_user_is_to_blame(case: Case) -> None:
    answers = answered(case, form_of(ablation=replace(ABLATION, layer=Layer.USER)), told(places=[]))
    assert answers.places == () and "not to blame" in answers.why_unknown("places")
    untried = Chain("program", untried=(Untried("op", "the failure does not go away without any one of 9"),))
    unnamed = answered(case, form_of(ablation=replace(ABLATION, chain=untried)))
    assert unnamed.why_unknown("places").startswith("the failure does not go away")


FLIP = "torch._inductor.config.pattern_matcher = False"
DECORATED = Workaround("leave f to eager", Intrusion.DISABLE, ("@x",), "above", status=Status.PASS)


def passing(**changed: object) -> Ablation:
    return replace(ABLATION, cells=(Cell("c", True, Recipe(), Verdict(Status.PASS), changed=changed),))


@pytest.mark.parametrize(
    ("ablation", "found"),
    [
        (None, None),
        (passing(backend="eager"), None),
        (passing(dynamic=False), TriedWorkaround("dynamic=False", "program", ("torch.compile(..., dynamic=False)",))),
        (
            replace(ABLATION, chain=replace(CHAIN, flips=(Flip("inductor.pattern_matcher", False),))),
            TriedWorkaround(FLIP, "program", (FLIP,)),
        ),
        (replace(ABLATION, workarounds=(DECORATED,)), TriedWorkaround("leave f to eager", "script", ("@x",))),
    ],
)
def test_a_workaround_is_one_that_was_seen_to_help(case: Case, ablation: Ablation | None, found: object) -> None:
    answers = answered(case, form_of(ablation=ablation))
    assert answers.workaround == found
    assert bool(answers.why_unknown("workaround")) == (found is None)


def test_the_command_to_replay_is_the_last_that_torchs_own_variables_make() -> None:
    assert with_replay(Answers(), ABLATION).replay == REPLAY
    unnumbered = replace(CHAIN.links[2], bad=Side("#1 on", "fails as observed"))  # numbers of another program
    chain = replace(CHAIN, links=(CHAIN.links[0], unnumbered))
    assert with_replay(Answers(), replace(ABLATION, chain=chain)).replay == (
        "TORCH_BISECT_BACKEND=inductor python repro.py"
    )
    assert with_replay(Answers(), None).why_unknown("replay") == "there is no ablation"
    assert replayed_variables(ABLATION) == {
        "TORCH_BISECT_BACKEND": "inductor",
        "TORCH_BISECT_SUBSYSTEM": "lowerings",
        "TORCH_BISECT_MAX": "1",
    }


def test_a_command_with_which_repro_py_does_not_fail_is_not_told(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "shared_or_fresh", lambda case: nullcontext(Oracle()))
    told = ask(case, form_of(), lambda variables: "TORCH_BISECT_MAX" not in variables, SilentUi())
    assert told.data == {"places": []} and not told.replays
    replay = with_replay(Answers(), ABLATION, replays=told.replays).replay
    assert replay == "TORCH_BISECT_BACKEND=inductor python repro.py"


def test_a_reduced_script_is_run_with_precision_casts_where_inductor_gives_wrong_values(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "shared_or_fresh", lambda case: nullcontext(Oracle()))
    path = tmp_path / "best.py"
    path.write_text("import torch\n")

    def casts(layer: Layer, passes_with: str, **more: Any) -> Answers:
        form = form_of(program=None, path=path, ablation=Ablation("script", layer=layer), **more)
        return answered(case, form, ask(case, form, lambda variables: passes_with not in variables, SilentUi()))

    assert casts(Layer.INDUCTOR, "nothing").with_casts == "fails"
    assert casts(Layer.INDUCTOR, "TORCHINDUCTOR_EMULATE_PRECISION_CASTS").with_casts == "passes"
    assert "not at fault" in casts(Layer.AOT, "nothing").why_unknown("with_casts")
    assert casts(Layer.INDUCTOR, "nothing", signature=Signature(Kind.CRASH)).with_casts == ""


class Oracle:
    """Answers that it knows no place."""

    def report(self, text: str, inputs: Path | None, asked: object, timeout: float) -> object:
        return {"status": "pass", "told": {"places": []}}


def test_devices_subsystems_and_variants_say_what_was_tried(case: Case) -> None:
    twin = TwinFound("size 2 for 1", "")
    reduction = Reduction(3, 1, 9, 1.0, True, True, twin=twin)
    answers = answered(case, form_of(reduction=reduction))
    assert [(each.what, each.outcome) for each in answers.devices] == [
        ("CPU", "fails"),
        ("CUDA", "not tried (this machine has no accelerator)"),
    ]
    assert answers.subsystems == (TriedVariant("lowerings", "passes"), TriedVariant("decomposition", "fails"))
    assert answers.variants == (TriedVariant("size 2 for 1", "passes"),)
    tried = (TriedVariant("float64 for x", "fails"), TriedVariant("size 8 for 9", "passes"))
    several = answered(case, form_of(reduction=replace(reduction, variants=tried)))
    assert [each.what for each in several.variants] == ["size 8 for 9", "float64 for x"]


def test_builds_that_a_bisection_judged_are_listed_without_private_paths(case: Case) -> None:
    builds = (Build("2.12.0"), Build("2.13.0"), Build("/home/me/bin/python", python="/home/me/bin/python"))
    judgements = tuple(
        Judgement(build.name, mark, "") for build, mark in zip(builds, (Mark.GOOD, Mark.BAD, Mark.SKIP), strict=True)
    )
    state = BisectState(1, "x", builds, "torch", "", "", signature=WRONG, judgements=judgements)
    write_state(case.path / DIRECTORY, state)
    listed = answered(case, form_of()).builds
    assert [(each.what, each.outcome) for each in listed] == [
        ("torch 2.12.0", "passes"),
        ("torch 2.13.0", "fails"),
        ("torch", "cannot tell"),
    ]
    case.store(
        RELEASES, BuildsTried(WRONG, (TriedVariant("torch 2.13.0", "fails"), TriedVariant("torch 2.15", "fails")))
    )
    assert [each.what for each in answered(case, form_of()).builds[:2]] == ["torch 2.13.0", "torch 2.15"]
    case.store(RELEASES, BuildsTried(Signature(Kind.CRASH), ()))
    write_state(case.path / DIRECTORY, replace(state, signature=Signature(Kind.CRASH)))
    assert answered(case, form_of()).builds == ()


def test_no_interpreter_is_started_where_there_is_nothing_to_ask(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "shared_or_fresh", lambda case: pytest.fail("nothing is to be asked"))
    error = form_of(signature=Signature(Kind.DYNAMO_ERROR), ablation=None)
    assert ask(case, error, lambda variables: True, SilentUi()).data == {}
    assert question(form_of())[0]["run"] == "compiled"
    assert question(form_of(signature=Signature(Kind.TIMEOUT)))[0]["run"] == "eager"
    assert question(form_of(signature=Signature(Kind.CRASH), ablation=None))[0]["run"] == "nothing"


def test_a_program_that_dies_is_run_up_to_the_kernel_and_not_further(case: Case) -> None:
    def asked(phase: Phase | None, program: str = PROGRAM, **facts: Any) -> str:
        failure = Failure(Kind.CRASH, phase, signal="SIGSEGV")
        form = form_of(program=program, signature=Signature(Kind.CRASH, signal="memory"), failure=failure, **facts)
        return question(form)[0]["run"]

    assert asked(Phase.BACKWARD) == asked(Phase.EXIT) == "native_backward"
    assert asked(Phase.COMPILE) == asked(None, PROGRAM.replace("'backward': 'sum'", "")) == "native"
    assert asked(Phase.BACKWARD, ablation=replace(ABLATION, layer=Layer.AOT)) == "nothing"
    crash = form_of(signature=Signature(Kind.CRASH, signal="memory"))
    assert answered(case, crash, told(kernels=[])).why_unknown("kernel") == "Inductor generates no kernel for it"
    assert answered(case, crash, told()).why_unknown("kernel") == "the program was not run again for it"


def test_the_kernel_of_an_operator_that_writes_is_found_by_its_name(case: Case) -> None:
    chain = replace(CHAIN, links=(*CHAIN.links[:2], Link("op", "#4 aten.index_put_.default", "It begins.")))
    kernels = [{"name": f"cpp_fused_{name}", "language": "cpp", "code": name} for name in ("mul_0", "index_put_mul_1")]
    form = form_of(ablation=replace(ABLATION, chain=chain))
    kernel = answered(case, form, told(kernels=kernels)).kernel
    assert kernel is not None and kernel.name == "cpp_fused_index_put_mul_1"


def test_a_story_of_an_older_version_has_no_answers() -> None:
    story = Story(WRONG, "", Environment("3.11", "python", "Linux", "2.13.0"), "program")
    data = to_data(story)
    assert "answers" not in data
    assert from_data(data, Story).answers == Answers()


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Kind.CRASH, "2 of 2 runs fail, killed by SIGABRT or SIGSEGV"),
        (Kind.TIMEOUT, "2 of 2 runs do not end"),
        (Kind.ACCURACY, "2 of 2 runs fail, exit status 1"),
    ],
)
def test_a_run_ends_as_repro_py_does_and_not_as_its_check(case: Case, kind: Kind, says: str) -> None:
    signals = ("SIGSEGV", "SIGABRT") if kind is Kind.CRASH else (None, None)
    verdicts = (Verdict(Status.FAIL, Failure(kind, signal=signal)) for signal in signals)
    runs = tuple(ReproRun(verdict, "", 1, outcome=RunOutcome.FAILS_ALIKE) for verdict in verdicts)
    form = form_of(signature=Signature(kind))
    observation = Observation(("a.py",), 1, None, False, 1.0, 0, "python", "2")
    results = CaseResults(observation, None, None, None, form.facts)
    assert answers_of(case, results, form, Check(runs, runs[0]), NOTHING, values=True, code=True).runs == says


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        ((True,), "the only run fails, exit status 1"),
        ((False,), "the only run does not fail"),
        ((True, True, False), "2 of 3 runs fail, exit status 1"),
    ],
)
def test_runs_are_counted(case: Case, fails: tuple[bool, ...], says: str) -> None:
    verdict = Verdict(Status.FAIL, Failure(Kind.COMPILE_ERROR))
    outcomes = (RunOutcome.FAILS_ALIKE if each else RunOutcome.PASSES for each in fails)
    runs = tuple(ReproRun(verdict, "", 1, outcome=outcome) for outcome in outcomes)
    results = CaseResults(
        Observation(("a.py",), 1, None, False, 1.0, 0, "python", "2"), None, None, None, form_of().facts
    )
    assert answers_of(case, results, form_of(), Check(runs, runs[-1]), NOTHING, values=True, code=True).runs == says
