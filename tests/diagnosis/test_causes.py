"""Which part of a layer is named, from synthetic cells in the shape that real ones have."""

from dataclasses import replace
from typing import Literal

import pytest

from repro_kit.bundle.story.addressee import Addressee, addressee_of
from repro_kit.diagnosis import causes, contrasts
from repro_kit.diagnosis.causes import diagnose, part_of
from repro_kit.diagnosis.cell import Cell
from repro_kit.diagnosis.layer import (
    EAGER_AT_TRUE,
    EAGER_KERNELS,
    FORGETFUL_EAGER,
    HELD_AT_FALSE,
    HELD_AT_TRUE,
    MARKS,
    OF_THE_GRAPH,
    OVERWRITTEN,
    OWN_CHANGE,
    PROMISES,
    REBUILT_EAGER,
    REQUESTED_BREAK,
    REQUESTED_ERROR,
    TAKEN_OUT,
    WITHOUT_CHANGES,
    WITNESS,
    Diagnosis,
)
from repro_kit.diagnosis.promises import OwnSettings
from repro_kit.failure.failure import Difference, ExceptionLink, Failure, Frame, Layer, Phase, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.recipe import LADDER, Recipe

PASS = Verdict(Status.PASS)
SITE = "/env/lib/python3.11/site-packages/"
WRONG = Failure(Kind.ACCURACY, Phase.COMPARE, difference=Difference("value", "output 0"))


def raised(*files: str, type: str = "RuntimeError", kind: Kind = Kind.COMPILE_ERROR, message: str = "no") -> Failure:
    return Failure(kind, Phase.COMPILE, exceptions=(ExceptionLink(type, message, frames_of(*files)),))


def frames_of(*places: str) -> tuple[Frame, ...]:
    """A frame for each ``file`` or ``file:function``; a file without a root is one of torch."""
    named = (place.partition(":") for place in places)
    return tuple(Frame(file if file.startswith("/") else SITE + file, 1, name or "f") for file, _, name in named)


def ladder(first_failing: str, failure: Failure = WRONG, own: Recipe | None = None) -> list[Cell]:
    own = own or Recipe()
    cells = []
    for backend in LADDER:
        fails = LADDER.index(backend) >= LADDER.index(first_failing)
        verdict = Verdict(Status.FAIL, failure) if fails else PASS
        cells.append(Cell(backend, True, own.with_(backend=backend), verdict, same=fails, changed={"backend": backend}))
    return cells


def contrast(name: str, *, passes: bool, failure: Failure = WRONG, same: bool = True) -> Cell:
    verdict = PASS if passes else Verdict(Status.FAIL, failure)
    return Cell(name, True, Recipe(), verdict, same=same and not passes, changed={"contrast": name})


def told(cells: list[Cell], own: Recipe | None = None) -> tuple[Layer | None, str]:
    found = diagnose(cells, own or Recipe())
    return found.layer, found.cause


def test_an_output_that_a_cuda_graph_has_overwritten_is_the_scripts_to_keep() -> None:
    message = "Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run."
    read = raised("/home/someone/train.py", kind=Kind.RUNTIME_ERROR, message=message)
    assert told(ladder("inductor", read)) == (Layer.USER, OVERWRITTEN)
    other = raised("/home/someone/train.py", kind=Kind.RUNTIME_ERROR, message="the loss is overwritten")
    assert told(ladder("inductor", other))[0] is Layer.INDUCTOR


def test_a_graph_break_that_the_script_asks_for_is_no_fault_of_dynamo() -> None:
    message = (
        "Call to `torch._dynamo.graph_break()`\n  Explanation: User-inserted graph break. Message: None\n\n"
        'from user code:\n   File "{}", line 7, in step\n    torch._dynamo.graph_break()\n'
    )
    asked = raised("torch/_dynamo/exc.py", type="torch._dynamo.exc.Unsupported", message=message.format("/me/train.py"))
    assert told(ladder("eager", asked)) == (Layer.USER, REQUESTED_BREAK)
    own = message.format("/env/site-packages/torch/optim/optimizer.py")
    assert told(ladder("eager", raised("torch/_dynamo/exc.py", message=own)))[0] is Layer.DYNAMO


def test_one_graph_of_what_torch_says_it_will_never_trace_is_asked_for_by_the_script() -> None:
    message = "Data-dependent branching\n  Hint: This graph break is fundamental - it is unlikely that Dynamo will ever"

    def broken(hint: str) -> Failure:
        return raised("torch/_dynamo/exc.py", type="torch._dynamo.exc.Unsupported", message=hint)

    found = diagnose(ladder("eager", broken(message)), Recipe())
    assert (found.layer, found.cause) == (Layer.USER, REQUESTED_BREAK) and "a limit of torch.compile" in found.sentence
    for bug in ("Hint: It may be possible", f"{message}\n  Hint: Please report an issue to PyTorch."):
        assert told(ladder("eager", broken(bug)))[0] is Layer.DYNAMO


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("RuntimeError", "Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: '/me/a.py'"),
        ("torch._dynamo.exc.RecompileError", "Recompiling function step in /me/a.py:3"),
        ("torch._dynamo.exc.FailOnRecompileLimitHit", "Hard failure due to fail_on_recompile_limit_hit"),
    ],
)
def test_a_recompile_that_the_script_makes_an_error_is_no_fault_of_dynamo(kind: str, message: str) -> None:
    asked = raised("torch/_dynamo/eval_frame.py", type=kind, message=message)
    assert told(ladder("eager", asked)) == (Layer.USER, REQUESTED_ERROR)
    other = raised("torch/_dynamo/eval_frame.py", type="RuntimeError", message="recompiling failed")
    assert told(ladder("eager", other))[0] is Layer.DYNAMO


def test_a_failure_that_is_gone_without_the_programs_own_changes_is_the_programs() -> None:
    whole, kinds = contrast(WITHOUT_CHANGES, passes=True), TAKEN_OUT
    each = [contrast(f"{WITHOUT_CHANGES}: {kind}", passes=kind == "lowerings") for kind in kinds]
    found = diagnose([*ladder("inductor"), whole, *each], Recipe())
    assert (found.layer, found.cause) == (Layer.USER, OWN_CHANGE)
    assert "own lowerings: the compiler is not to blame, unless it compiles wrongly what they return." in found.sentence
    assert told([*ladder("inductor"), whole])[0] is Layer.USER
    assert told([*ladder("inductor"), contrast(WITHOUT_CHANGES, passes=False)])[0] is Layer.INDUCTOR


@pytest.mark.parametrize("kind", OF_THE_GRAPH)
def test_a_change_that_leads_to_a_right_graph_acquits_nobody_who_compiles_it_wrongly(kind: str) -> None:
    cells = [contrast(name, passes=True) for name in (WITHOUT_CHANGES, f"{WITHOUT_CHANGES}: {kind}")]
    right, wrong = (contrast(EAGER_KERNELS, passes=passes) for passes in (True, False))
    found = diagnose([*ladder("inductor"), *cells, right], Recipe())
    assert found.layer is Layer.INDUCTOR and f"It passes without {TAKEN_OUT[kind]}, too; the graph" in found.sentence
    assert told([*ladder("inductor"), *cells, wrong]) == (Layer.USER, OWN_CHANGE)
    lowerings = contrast(f"{WITHOUT_CHANGES}: lowerings", passes=True)
    found = diagnose([*ladder("inductor"), *cells, lowerings, right], Recipe())
    assert found.sentence.startswith("The failure is gone without the program's own lowerings: the compiler is not")


def test_the_programs_own_promises_and_marks_are_named_where_they_are_known() -> None:
    cells = [*ladder("inductor"), *(contrast(f"{WITHOUT_CHANGES}: {kind}", passes=True) for kind in (PROMISES, MARKS))]
    cells.append(contrast(WITHOUT_CHANGES, passes=True))
    general = diagnose(cells, Recipe()).sentence
    assert "(frozen weights that never change, fast" in general and "(assume_constant_result, allow_in" in general
    own = OwnSettings({"inductor.freezing": True}, texts=["torch.compiler.allow_in_graph(f)"])
    named = diagnose(cells, Recipe(), own).sentence
    assert named.startswith(
        "The failure is gone without the program's own marks for Dynamo (allow_in_graph) or without the promises that "
        "the program's settings make (torch._inductor.config.freezing = True: no weight changes): the compiler is not"
    )


def test_a_promise_that_is_not_seen_to_be_broken_acquits_nobody() -> None:
    """Guards that the program leaves out: code that is compiled for the very call has nothing to be out of date."""
    whole, promises = (contrast(name, passes=True) for name in (WITHOUT_CHANGES, f"{WITHOUT_CHANGES}: {PROMISES}"))
    wrong_at_once, wrong_later = (contrast(contrasts.AFRESH, passes=passes) for passes in (False, True))
    assert told([*ladder("eager"), wrong_later, whole, promises]) == (Layer.USER, OWN_CHANGE)
    assert told([*ladder("eager"), wrong_at_once, whole, promises])[0] is Layer.DYNAMO
    marks = contrast(f"{WITHOUT_CHANGES}: marks", passes=True)
    assert told([*ladder("eager"), wrong_at_once, whole, promises, marks])[0] is Layer.USER


@pytest.mark.parametrize("name", [FORGETFUL_EAGER, REBUILT_EAGER])
@pytest.mark.parametrize("ends", ["passes", "fails alike", "fails otherwise"])
def test_a_check_of_what_the_programs_own_classes_lose_fails_in_eager_without_it(ends: str, name: str) -> None:
    stays = contrast(WITHOUT_CHANGES, passes=False)
    asked = contrast(name, passes=ends == "passes", same=ends == "fails alike")
    found = diagnose([*ladder("inductor"), stays, replace(asked, compiled=False, setup="x")], Recipe())
    assert (found.layer is Layer.USER) == (found.cause == OWN_CHANGE) == (ends == "fails alike")


def test_changes_of_the_programs_own_are_named_where_no_layer_is() -> None:
    one, other = (raised("torch/fx/g.py", kind=Kind.RUNTIME_ERROR, message=text) for text in ("one", "another"))
    verdicts = {"aot_eager_decomp_partition": Verdict(Status.FAIL, other), "inductor": Verdict(Status.FAIL, one)}
    cells = [
        replace(cell, verdict=verdict, signature=signature_of(verdict.failure)) if verdict.failure else cell
        for cell in ladder("inductor", one)
        for verdict in [verdicts.get(cell.recipe.backend, PASS)]
    ]
    assert diagnose(cells, Recipe()).layer is None
    found = diagnose([*cells, contrast(WITHOUT_CHANGES, passes=True)], Recipe())
    assert found.layer is Layer.USER and "With them" not in found.sentence


@pytest.mark.parametrize(
    ("raised_type", "kind", "said"),
    [
        ("torch._dynamo.exc.UserError", Kind.DYNAMO_ERROR, "Torch counts the failure among the mistakes of a program"),
        ("torch.fx.experimental.symbolic_shapes.ConstraintViolationError", Kind.DYNAMO_ERROR, "a size to be dynamic"),
        ("UserWarning", Kind.WARNING, "turns warnings into errors"),
    ],
)
def test_where_torchs_message_is_one_for_the_program_nobody_is_named(raised_type: str, kind: Kind, said: str) -> None:
    found = diagnose(ladder("eager", raised("torch/export/_trace.py", type=raised_type, kind=kind)), Recipe())
    assert found.layer is Layer.DYNAMO and addressee_of(found.layer, found.cause) is Addressee.PROGRAM
    assert said in found.sentence and "Dynamo is at fault" not in found.sentence
    plain = diagnose(ladder("eager", raised("torch/export/_trace.py")), Recipe())
    assert "Dynamo is at fault" in plain.sentence and addressee_of(plain.layer, plain.cause) is Addressee.PYTORCH


def test_hooks_that_change_after_the_compile_are_the_programs_where_guards_on_hooks_help() -> None:
    stale = contrast(contrasts.AFRESH, passes=True)
    guarded, not_guarded = (contrast(contrasts.HOOKS_GUARDED, passes=passes) for passes in (True, False))
    found = diagnose([*ladder("eager"), stale, guarded], Recipe())
    assert (found.layer, found.cause) == (Layer.USER, OWN_CHANGE) and "skip_nnmodule_hook_guards" in found.sentence
    assert told([*ladder("eager"), stale, not_guarded]) == (Layer.DYNAMO, causes.GUARDS)


def test_a_wrong_decomposition_used_while_tracing_is_not_aotautograds() -> None:
    cells = ladder("aot_eager")
    assert told([*cells, contrast(contrasts.NO_PYTHON_DECOMPOSITIONS, passes=True)]) == (
        Layer.DECOMPOSITION,
        "decomposition",
    )
    assert told([*cells, contrast(contrasts.NO_PYTHON_DECOMPOSITIONS, passes=False)]) == (Layer.AOT, "")


def test_a_decomposition_that_raises_is_named_without_a_contrast() -> None:
    failure = raised("torch/_functorch/aot_autograd.py", "torch/_decomp/decompositions.py", "torch/_ops.py")
    assert told(ladder("aot_eager", failure)) == (Layer.DECOMPOSITION, "decomposition")


def test_the_partitioner_is_told_from_a_decomposition() -> None:
    cells = ladder("aot_eager_decomp_partition")
    assert told([*cells, contrast(contrasts.NO_DECOMPOSITIONS, passes=True)]) == (Layer.DECOMPOSITION, "decomposition")
    assert told([*cells, contrast(contrasts.NO_DECOMPOSITIONS, passes=False)]) == (Layer.AOT, "partitioner")
    another = contrast(contrasts.NO_DECOMPOSITIONS, passes=False, same=False)
    assert told([*cells, another]) == (Layer.DECOMPOSITION, "")
    assert told([*ladder("aot_eager"), contrast(contrasts.DEFAULT_PARTITIONER, passes=True)]) == (
        Layer.AOT,
        "partitioner",
    )


@pytest.mark.parametrize(("passes", "cause"), [(True, "graph-cache"), (False, "lowering")])
def test_what_an_earlier_run_compiled_is_told_from_the_compiler_of_today(passes: bool, cause: str) -> None:
    cells = ladder("inductor", raised("torch/_inductor/lowering.py"))
    assert told([*cells, contrast(contrasts.NO_ARTIFACTS, passes=passes)]) == (Layer.INDUCTOR, cause)


def test_graphs_that_fail_only_where_they_are_split_for_ddp_say_so() -> None:
    cells = [*ladder("aot_eager"), contrast(contrasts.NOT_SPLIT_FOR_DDP, passes=True)]
    found = diagnose(cells, Recipe())
    assert found.layer is Layer.AOT and found.sentence.endswith("does not split graphs for DDP (optimize_ddp=False).")
    split_or_not = [*ladder("aot_eager"), contrast(contrasts.NOT_SPLIT_FOR_DDP, passes=False)]
    assert "DDP" not in diagnose(split_or_not, Recipe()).sentence


@pytest.mark.parametrize(
    ("cells", "cause"),
    [
        (ladder("eager", raised("torch/_dynamo/variables/lists.py", kind=Kind.DYNAMO_ERROR)), "tracing"),
        (ladder("eager", raised("torch/_dynamo/codegen.py", kind=Kind.DYNAMO_ERROR)), "bytecode"),
        (ladder("eager", raised("torch/_dynamo/guards.py", kind=Kind.DYNAMO_ERROR)), "guards"),
        (ladder("eager", raised("torch/_meta_registrations.py", kind=Kind.DYNAMO_ERROR)), "fake-kernel"),
        (
            ladder("eager", raised(type="torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode")),
            "symbolic-shapes",
        ),
        (ladder("eager", Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("SystemError", "x"),))), "bytecode"),
        (ladder("eager", Failure(Kind.CRASH, Phase.RUN, signal="SIGSEGV")), "bytecode"),
        ([*ladder("eager"), contrast(contrasts.AFRESH, passes=True)], "guards"),
        ([*ladder("eager"), contrast(contrasts.AFRESH, passes=False)], ""),
        ([*ladder("eager"), contrast(contrasts.GRAPH_BREAKS_ALLOWED, passes=True)], "graph-break"),
        (
            [
                *ladder("eager", raised(type="torch._dynamo.exc.FailOnRecompileLimitHit")),
                contrast(contrasts.GRAPH_BREAKS_ALLOWED, passes=True),  # fullgraph=False falls back to eager there
            ],
            "recompile-limit",
        ),
    ],
)
def test_parts_of_dynamo(cells: list[Cell], cause: str) -> None:
    assert told(cells) == (Layer.DYNAMO, cause)


@pytest.mark.parametrize(
    ("at_false", "at_true", "layer", "words"),
    [
        (True, True, Layer.USER, "held at True everywhere too, so the compiler is not to blame."),
        (True, False, Layer.DYNAMO, "passes with torch.compiler.is_compiling() held at False: the code"),
        (False, True, Layer.DYNAMO, "'eager' fails."),
    ],
)
def test_a_script_that_does_another_thing_when_compiled(
    at_false: bool, at_true: bool, layer: Layer, words: str
) -> None:
    held = [contrast(HELD_AT_FALSE, passes=at_false), contrast(HELD_AT_TRUE, passes=at_true)]
    found = diagnose([*ladder("eager"), *held], Recipe())
    assert found.layer is layer and words in found.sentence


@pytest.mark.parametrize(
    ("ends", "layer"), [("alike", Layer.USER), ("passes", Layer.DYNAMO), ("otherwise", Layer.DYNAMO)]
)
def test_a_check_that_fails_in_eager_in_the_branch_for_compiled_code_is_the_scripts(ends: str, layer: Layer) -> None:
    held = [contrast(HELD_AT_FALSE, passes=True), contrast(HELD_AT_TRUE, passes=False)]
    eager = contrast(EAGER_AT_TRUE, passes=ends == "passes", same=ends == "alike")
    assert told([*ladder("eager"), *held, replace(eager, compiled=False)])[0] is layer


@pytest.mark.parametrize(
    ("parting", "cause"), [("state", "side-effects"), ("result", "tracing"), ("none", ""), (None, "")]
)
def test_what_a_witness_saw_tells_side_effects_from_tracing(parting: str | None, cause: str) -> None:
    cells = ladder("eager")
    if parting:
        seen = {"contrast": WITNESS, "parting": parting}
        cells.append(Cell("beside", True, Recipe(), Verdict(Status.FAIL, WRONG), same=True, changed=seen))
    assert told(cells) == (Layer.DYNAMO, cause)


@pytest.mark.parametrize(
    ("own", "other", "passes", "cause"),
    [
        (True, None, True, "symbolic-shapes"),
        (None, False, True, "symbolic-shapes"),
        (None, False, False, "tracing"),
        (None, True, True, "tracing"),  # it is the numbers that are traced wrongly
        (False, True, True, "tracing"),
    ],
)
def test_what_is_traced_right_with_numbers_needs_symbolic_sizes(
    own: bool | None, other: bool | None, passes: bool, cause: str
) -> None:
    cells = [replace(cell, recipe=replace(cell.recipe, dynamic=own)) for cell in ladder("eager")]
    seen = {"contrast": WITNESS, "parting": "result"}
    cells.append(Cell("beside", True, Recipe(), Verdict(Status.FAIL, WRONG), same=True, changed=seen))
    verdict = Verdict(Status.PASS) if passes else Verdict(Status.FAIL, WRONG)
    sizes = Recipe(backend="eager", dynamic=other)
    cells.append(Cell("other sizes", True, sizes, verdict, same=not passes, changed={"dynamic": other}))
    found = diagnose(cells, Recipe(dynamic=own))
    assert (found.layer, found.cause) == (Layer.DYNAMO, cause)


@pytest.mark.parametrize(("function", "cause"), [("run_node", ""), ("evaluate_expr", "symbolic-shapes")])
def test_the_interpreter_that_runs_every_operator_is_no_part(function: str, cause: str) -> None:
    operator = "torch/_higher_order_ops/while_loop.py"
    failure = raised(f"torch/fx/experimental/symbolic_shapes.py:{function}", operator)
    assert told(ladder("aot_eager", failure)) == (Layer.AOT, cause)


def test_the_users_own_fake_kernel_is_nobody_elses_fault() -> None:
    failure = raised("torch/_library/fake_impl.py", "/home/me/ops.py", kind=Kind.DYNAMO_ERROR)
    found = diagnose(ladder("eager", failure), Recipe())
    assert (found.layer, found.cause) == (Layer.USER, "custom-operator")
    torchs_own = raised("torch/_library/fake_impl.py", "/home/me/ops.py", "torch/_meta_registrations.py")
    assert diagnose(ladder("eager", torchs_own), Recipe()).layer is Layer.DYNAMO


def checked(said: str, name: str = contrasts.OPERATORS_CHECKED) -> Cell:
    """A run in eager, which ends where an operator is not as it says."""
    wrong = raised(type="repro_setup.OperatorMismatch", kind=Kind.ACCURACY, message=said)
    return contrast(name, passes=False, failure=wrong, same=False)


@pytest.mark.parametrize("backend", LADDER[1:])
def test_a_form_that_fake_tensors_promise_and_eager_does_not_give_is_the_fake_kernels(backend: str) -> None:
    said = "aten::copysign.Tensor returns strides (6, 1) with fake tensors, and strides (1, 5) without"
    found = diagnose([*ladder(backend), checked(said, contrasts.FORMS_CHECKED)], Recipe())
    assert (found.layer, found.cause) == (Layer.DECOMPOSITION, "fake-kernel")
    assert found.sentence.startswith("The fake kernel of aten::copysign.Tensor is at fault: ")
    assert found.sentence.endswith(f" fails, and {said}.")


@pytest.mark.parametrize("backend", LADDER)
@pytest.mark.parametrize("kind", [Kind.ACCURACY, Kind.COMPILE_ERROR])
@pytest.mark.parametrize("stays", [False, True])
def test_an_operator_that_is_not_as_it_says_is_the_programs_unless_the_failure_stays_without_it(
    backend: str, kind: Kind, stays: bool
) -> None:
    said = "mine::bump returns shape (4,) with fake tensors, and shape (2,) without"
    without = contrast(contrasts.WITHOUT_OPERATORS, passes=not stays)
    found = diagnose([*ladder(backend, raised("/home/me/a.py", kind=kind)), checked(said), without], Recipe())
    assert (found.layer is Layer.USER) == (not stays)
    assert (found.cause == "custom-operator") == (not stays)
    if not stays:
        assert found.sentence == (
            f"The custom operator {said}, and the failure is gone with the operator in no graph: "
            "the compiler is not to blame."
        )


def test_an_operator_that_is_not_as_it_says_is_the_programs_where_it_cannot_be_taken_out() -> None:
    said = checked("mine::bump writes to its argument 'x', and its schema does not say so")
    otherwise = contrast(contrasts.WITHOUT_OPERATORS, passes=False, same=False)
    for more in ([], [otherwise]):
        found = diagnose([*ladder("inductor"), said, *more], Recipe())
        assert found.layer is Layer.USER and "gone" not in found.sentence
    assert told([*ladder("inductor"), contrast(contrasts.OPERATORS_CHECKED, passes=True)])[0] is Layer.INDUCTOR


@pytest.mark.parametrize(
    ("files", "part"),
    [
        (("torch/_inductor/graph.py", "torch/_inductor/lowering.py"), "lowering"),
        (("torch/_inductor/graph.py", "torch/_inductor/fx_passes/post_grad.py", "torch/fx/graph.py"), "graph-passes"),
        (("torch/_inductor/scheduler.py:codegen", "torch/_inductor/codegen/cpp.py"), "code-generation"),
        (("torch/_inductor/graph.py:codegen", "torch/_inductor/codegen/wrapper.py"), "code-generation"),
        (("torch/_inductor/graph.py:_update_scheduler", "torch/_inductor/ir.py"), "scheduler"),
        (("torch/_inductor/scheduler.py:can_fuse", "torch/_inductor/codegen/simd.py"), "scheduler"),
        (("torch/_inductor/graph.py:call_function", "torch/_inductor/sizevars.py"), "lowering"),
        (("torch/_inductor/lowering.py", "torch/_inductor/codegen/common.py"), "lowering"),
        (("torch/_functorch/_aot_autograd/functional_utils.py",), "functionalization"),
        (("/home/me/train.py",), ""),
    ],
)
def test_the_innermost_frame_that_is_of_any_part_tells(files: tuple[str, ...], part: str) -> None:
    assert part_of(raised(*files)) == part


def test_a_fake_kernel_that_has_no_value_to_give_is_not_at_fault() -> None:
    files = "torch/_inductor/lowering.py", "torch/_subclasses/fake_impls.py:local_scalar_dense"
    assert part_of(raised(*files)) == "fake-kernel"
    assert part_of(raised(*files, type="torch._subclasses.fake_tensor.DataDependentOutputException")) == "lowering"


def test_what_calls_generated_code_that_hangs_did_not_make_it() -> None:
    generated = f"/tmp/cache/6w/c{'w' * 51}.py"
    files = [SITE + "torch/_functorch/_aot_autograd/runtime_wrappers.py", generated, SITE + "torch/_ops.py"]
    hang = Failure(Kind.TIMEOUT, Phase.COMPILE, stack=tuple(Frame(file, 1, "f") for file in files))
    assert part_of(hang) == ""
    assert part_of(replace(hang, stack=hang.stack[:1])) == "runtime-wrappers"


def test_what_calls_generated_code_that_raises_did_not_make_it() -> None:
    wrapper, generated = "torch/_functorch/_aot_autograd/runtime_wrappers.py", f"/tmp/cache/6w/c{'w' * 51}.py"
    assert part_of(raised(wrapper, generated)) == ""
    assert part_of(raised(wrapper, generated, f"{wrapper}:__torch_dispatch__", "torch/_ops.py")) == "", "hands on"
    assert part_of(raised(wrapper, generated, "torch/_inductor/async_compile.py:wait")) == "native-compiler"


GRAPH, MINE = "torch/_inductor/graph.py:call_function", "/home/me/train.py:cat"


@pytest.mark.parametrize(
    ("places", "what"),
    [
        ((GRAPH, MINE), "A lowering that the script registers (cat)"),
        ((GRAPH, MINE, "/home/me/train.py:helper"), "A lowering that the script registers (cat)"),
        (("torch/fx/passes/graph_transform_observer.py", MINE), "A graph pass of the script (cat)"),
        (("torch/fx/experimental/proxy_tensor.py", MINE), "A decomposition that the script registers (cat)"),
        (("torch/_dynamo/variables/functions.py", MINE), "A function of the script that the compiler calls (cat)"),
    ],
)
def test_a_function_of_the_script_that_raises_is_named_and_not_the_layer_that_calls_it(
    places: tuple[str, ...], what: str
) -> None:
    found = diagnose(ladder("inductor", raised(*places)), Recipe())
    assert (found.layer, found.cause) == (Layer.INDUCTOR, "script-code")
    assert found.sentence == f"{what} raises: backend 'aot_eager_decomp_partition' passes, 'inductor' fails."


def test_the_frames_may_be_those_of_the_exception_around_the_root_cause() -> None:
    failure = raised(GRAPH, MINE, type="LoweringException")
    failure = replace(failure, exceptions=(*failure.exceptions, ExceptionLink("AssertionError", "no")))
    assert diagnose(ladder("inductor", failure), Recipe()).cause == "script-code"


def test_a_crash_in_a_custom_operator_is_not_dynamos() -> None:
    stack = frames_of("torch/_dynamo/eval_frame.py", "/home/me/train.py", "torch/_library/custom_ops.py", MINE)
    found = diagnose(ladder("eager", Failure(Kind.CRASH, Phase.RUN, signal="SIGSEGV", stack=stack)), Recipe())
    assert found.cause == "script-code"
    assert found.sentence.startswith("A custom operator of the script (cat) was running when the process died: ")


@pytest.mark.parametrize(("subject", "cause"), [("program", "script-code"), ("script", "lowering")])
def test_a_hang_below_a_lowering_of_the_script_is_its_own_where_the_graph_alone_does_not_hang(
    subject: Literal["program", "script"], cause: str
) -> None:
    stack = frames_of(
        GRAPH, MINE, "torch/_inductor/sizevars.py:statically_known_equals", "/env/site-packages/sympy/a.py"
    )
    cells = ladder("inductor", Failure(Kind.TIMEOUT, Phase.COMPILE, stack=stack))
    found = diagnose([replace(cell, subject=subject) for cell in cells], Recipe())
    assert (found.layer, found.cause) == (Layer.INDUCTOR, cause)
    named = "had called sizevars.py:statically_known_equals of torch" if cause == "script-code" else "was running"
    assert "lowering that the script registers (cat)" in found.sentence and named in found.sentence


@pytest.mark.parametrize(
    "places", [("torch/_library/custom_ops.py", MINE), (GRAPH, MINE, "torch/_inductor/lowering.py")]
)
def test_what_torch_raises_or_an_operator_answers_stays_with_the_layer(places: tuple[str, ...]) -> None:
    found = diagnose(ladder("inductor", raised(*places)), Recipe())
    assert found.layer is Layer.INDUCTOR
    assert "of the script (cat) was running" in found.sentence or "registers (cat) was running" in found.sentence


@pytest.mark.parametrize("caller", ["torch/_dynamo/eval_frame.py", "torch/nn/modules/module.py", "/home/me/main.py"])
def test_a_script_that_runs_between_its_graphs_is_not_called_by_the_compiler(caller: str) -> None:
    stack = frames_of(caller, "/home/me/train.py:forward", "torch/_dynamo/convert_frame.py")
    found = diagnose(ladder("eager", Failure(Kind.CRASH, Phase.COMPILE, signal="SIGSEGV", stack=stack)), Recipe())
    assert found.layer is Layer.DYNAMO and "script" not in found.sentence


def test_the_sentence_names_the_part() -> None:
    failure = raised("torch/_inductor/lowering.py")
    found: Diagnosis = diagnose(ladder("inductor", failure), Recipe())
    assert found.sentence == (
        "Inductor is at fault (lowering): backend 'aot_eager_decomp_partition' passes, 'inductor' fails."
    )


def test_every_part_has_words() -> None:
    parts = {part for _, part in causes.PARTS}
    assert parts <= set(causes.PART_WORDS)
