"""Signatures: one bug stays one through reduction and rebasing, two bugs stay two."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro_kit.bundle.facts import telling_line
from repro_kit.failure.classify import (
    failure_from_exceptions,
    failure_from_signal,
    failure_from_text,
    failure_from_timeout,
)
from repro_kit.failure.failure import Difference, ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import fault_line, normalise
from repro_kit.failure.signature import Signature, Strength, focused, in_words, signature_of
from repro_kit.serialize import dumps, from_data, to_data
from repro_kit.trace import summarise
from root import ROOT

RECORDED = ROOT / "tests/trace/fixtures"
SITE = "/venv/lib/python3.11/site-packages/torch/"
STORE = ("_inductor/graph.py:run", "_inductor/codegen/cpp.py:store")
FLATTEN = ("_inductor/graph.py:run", "_inductor/codegen/cpp.py:flatten")


def signature(message, *places, type_name="torch._inductor.exc.InductorError"):
    frames = tuple(Frame(SITE + file, 1, name) for file, name in (place.split(":") for place in places))
    return signature_of(failure_from_exceptions([ExceptionLink(type_name, message, frames)]))


def of_text(case):
    return signature_of(failure_from_text((RECORDED / f"{case}.stderr.txt").read_text()))


VIOLATED = 'UserError: Constraints violated ({0})! For more information, run with TORCH_LOGS="+dynamic".\n  - {1}\nmore'
GUARDED = "Not all values of {0} = L['x'].size()[0] in the specified range {0} <= {1} satisfy the guard {0} <= 25"
FIXED = "You marked {0} as dynamic but your code specialized it to be a constant ({1})."
LONG = "FakeTensor(..., size=(8, 8), dtype=torch.float32), " + "FakeTensor(..., size=(4,)), " * 10
RECOMPILED = (
    "RecompileError: Recompiling function {0} in /me/{0}.py:16\n"
    "    triggered by the following guard failure(s):\n    - 0/0: {1}"
)
SIZED = "tensor '{0}' size mismatch at index 0. expected {1}, actual 1"
SAME = [
    # What varies while a program shrinks: sizes, dtypes, numbers, names, arguments, whole IR nodes, addresses, paths.
    (
        f"TypeError: f() got args ({LONG}3)",
        "TypeError: f() got args (FakeTensor(..., size=(1,), dtype=torch.float16), 2)",
    ),
    ("RuntimeError: expected type Float but found Half", "RuntimeError: expected type Double but found BFloat16"),
    (
        "RuntimeError: Could not guard on data-dependent expression u3 > 8 (unhinted: u3 > 8).",
        "RuntimeError: Could not guard on data-dependent expression zuf0 > 0.0 (unhinted: zuf0 > 0.0).",
    ),
    ("AssertionError: buf12 has size [8, s77, 3*s0]", "AssertionError: buf0 has size [1]"),
    ("KeyError: 'arg3_1'", "KeyError: 'arg0_1'"),
    ("RuntimeError: bad at 0x7ffe12 in /tmp/me/ab/cabc.py:12", "RuntimeError: bad at 0x55 in /tmp/x/y.py:9"),
    ("RuntimeError: L['x'].size()[0] must be 5", "RuntimeError: L['self'].weight must be 7"),
    (
        "AssertionError: cannot store TensorBox(StorageBox(Pointwise('cpu', torch.float32, ranges=[8, 8])))",
        "AssertionError: cannot store TensorBox(StorageBox(Reduction('cpu', torch.int64, ranges=[])))",
    ),
    (VIOLATED.format("n", GUARDED.format("n", 512)), VIOLATED.format("a", GUARDED.format("a", 64))),
    (VIOLATED.format("n", FIXED.format("n", 8)), VIOLATED.format("a", FIXED.format("a", 5))),
    (
        RECOMPILED.format("forward", SIZED.format("x", 4)),
        RECOMPILED.format("resume_in_f_at_8", SIZED.format("rows", 2)),
    ),
    ("RuntimeError: error in cpp_fused_add_relu_0", "RuntimeError: error in cpp_fused_mul_3"),
    (
        "NotImplementedError: no\n  target: aten.add_.Tensor\n  args[0]: 1",
        "NotImplementedError: no\n  target: aten.add.Scalar",
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME)
@pytest.mark.parametrize("strength", Strength)
def test_one_bug_stays_one(one, other, strength):
    assert signature(one, *STORE).matches(signature(other, *STORE), strength)
    assert signature(other, *STORE).matches(signature(one, *STORE), strength)


GUARD = (
    "GuardOnDataDependentSymNode: Could not guard on data-dependent expression {0} (unhinted: {0}).  (Size-like: none)"
)
LOWERING = "LoweringException: {}: cannot lower this operator for these inputs\n  target: {}\n  args[0]: x"
DIFFERENT = [
    # Other op and exception, all other words equal (text similarity 0.94); other op only.
    (LOWERING.format("AssertionError", "aten.relu.default"), LOWERING.format("TypeError", "aten.gelu.default")),
    (LOWERING.format("AssertionError", "aten.relu.default"), LOWERING.format("AssertionError", "aten.gelu.default")),
    ("AssertionError: sizes must be equal", "AssertionError: index out of range for the load"),
    ("AttributeError: 'NoneType' has no attribute 'meta'", "AttributeError: 'NoneType' has no attribute 'dtype'"),
    ("KeyError: 'arg3_1'", "KeyError: 'workspace'"),
    (RECOMPILED.format("f", SIZED.format("x", 4)), RECOMPILED.format("f", "___check_obj_id(L['self'], 140)")),
    ("AssertionError: ", "AssertionError: now with a message"),
    ("TypeError: no", "ValueError: no"),
    (GUARD.format("zuf0 > 0.0"), GUARD.format("Eq(u0, 1)")),
    (VIOLATED.format("n", GUARDED.format("n", 512)), VIOLATED.format("n", FIXED.format("n", 0))),
    (VIOLATED.format("n", FIXED.format("n", 8)), VIOLATED.format("n", FIXED.format("n", 0))),
    (GUARD.format("u0 < 4"), GUARD.format("u0 >= 4")),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
@pytest.mark.parametrize("strength", [Strength.STRICT, Strength.REBASED])
def test_two_bugs_stay_two(one, other, strength):
    assert not signature(one, *STORE).matches(signature(other, *STORE), strength)
    assert not signature(other, *STORE).matches(signature(one, *STORE), strength)


@pytest.mark.parametrize("strength", [Strength.STRICT, Strength.REBASED])
def test_with_an_empty_message_the_frame_decides(strength):
    bare = signature("AssertionError: ", *STORE)
    assert bare.matches(signature("AssertionError: ", *STORE), strength)
    assert not bare.matches(signature("AssertionError: ", *FLATTEN), strength)
    assert bare.matches(signature("AssertionError: ", *FLATTEN), Strength.CROSS_VERSION)


def test_rebased_sees_through_wrappers_only():
    inductor = signature("AssertionError: bad", *STORE)
    backend = signature(
        "backend='inductor' raised:\nAssertionError: bad", *STORE, type_name="torch._dynamo.exc.BackendCompilerFailed"
    )
    bare = signature("bad", *STORE, type_name="AssertionError")
    for other in (backend, bare):
        assert inductor.matches(other, Strength.REBASED) and not inductor.matches(other, Strength.STRICT)


def test_plumbing_frames_do_not_tell():
    raises = ("__init__.py:_check", "__init__.py:_check_with")
    through = (*STORE, "_ops.py:__call__", "_prims_common/__init__.py:check", *raises)
    assert signature("RuntimeError: no", *STORE).matches(signature("RuntimeError: no", *through))


GCC = """CppCompileError: C++ compile error

Command:
g++ /tmp/torchinductor_me/{hash}.main.cpp -O3

Output:
/tmp/torchinductor_me/{hash}.main.cpp: In function 'void kernel(const {t}*, float*)':
/tmp/torchinductor_me/{hash}.main.cpp:21:37: warning: unused
/tmp/torchinductor_me/{hash}.main.cpp:21:37: error: no matching function for call to ‘{name}<{t}, 8>({t}*, int)’
   21 |     auto tmp{n} = {name}(in_ptr{n});
note: something error: else
"""


def gcc(name="atomic_add_vec", t="float", n=4, file="clyyo3h"):
    return signature(GCC.format(hash=file, t=t, name=name, n=n), *STORE)


def test_a_native_compilers_first_error_line_tells():
    assert gcc().message == "no matching function for call to 'atomic_add_vec'"
    assert gcc().matches(gcc(t="half", n=0, file="cxyz")) and gcc().frames == ()
    assert not gcc().matches(gcc(name="transpose_mxn"), Strength.REBASED)


def test_a_generated_variable_does_not_tell_its_dtype():
    text = "CppCompileError: x\n\nOutput:\na.cpp:1:2: error: conflicting declaration ‘auto {}’\n"
    names = ("at_Half_tmp_acc0_vec", "at_BFloat16_tmp_acc3_vec", "tmp_acc12_vec")
    first, *others = (signature(text.format(name)) for name in names)
    assert all(first.matches(other) for other in others)


@pytest.mark.parametrize(
    "advice",
    [
        "Use -v to get more diff",
        "Use -v to get the full diff",
        "Omitting 2 identical items, use -vv to show",
        "...Full output truncated (3 lines hidden), use '-vv' to show",
        "Skipping 51 identical leading characters in diff, use -v to show",
    ],
)
def test_what_pytest_advises_is_no_part_of_the_message(advice):
    message = "assert [3] == [4]\n  \n  At index 0 diff: 3 != 4"
    assert fault_line(f"{message}\n  \n  {advice}") == "assert [3] == [4] At index 0 diff: 3 != 4"
    assert normalise(f"{message}\n  {advice}\n  end") == normalise(f"{message}\n  end")


def test_torchs_own_sentence_that_begins_like_its_note_is_the_message() -> None:
    message = "While executing unfold, functionalization encountered a tensor being mutated that has internal overlap."
    note = "\n\nWhile executing %abs_ : [num_users=1] = call_method[target=abs_](args = (%x,), kwargs = {})"
    assert fault_line(message + note) == message


def test_how_pytest_explains_a_message_of_the_scripts_own_is_no_part_of_it() -> None:
    where = "assert False\n +  where False = <built-in method equal of type object at 0x7f>(tensor([300]))"
    assert fault_line(f"other codes\n{where}\n +    and   tensor([300]) = f()") == "other codes"
    assert fault_line(where).startswith("assert False + where False = ")


def test_tritons_last_line_tells():
    text = "CompilationError: at {}:11:\ndef triton_(in_ptr0):\n    {}\n    ^\nTypeError('cannot add pointers')"
    one, other = (signature(text.format(*of), *STORE) for of in ((12, "tmp0 = a"), (3, "tmp9 = b")))
    assert one.message == "TypeError('cannot add pointers')" and one.matches(other)


@pytest.mark.parametrize(
    "case",
    ["backend_error", "backward_error", "cpp_compile_error", "data_dependent_fullgraph", "graph_break_fullgraph",
     "internal_error", "lowering_error", "recompile_limit_fullgraph"],
)  # fmt: skip
def test_output_and_trace_of_one_run_agree(case):
    (failed,) = summarise(RECORDED / f"{case}.log").failures
    traced = signature_of(failure_from_text(failed.text))
    assert of_text(case).matches(traced, Strength.REBASED) and traced.matches(of_text(case), Strength.REBASED)


def test_recorded_failures_are_all_different():
    cases = [file.name.removesuffix(".stderr.txt") for file in RECORDED.glob("*.stderr.txt")]
    signatures = {case: of_text(case) for case in cases if case != "hang"}
    for one in signatures:
        same = [other for other in signatures if signatures[one].matches(signatures[other], Strength.REBASED)]
        assert same == [one]


KINDS = ("structure", "shape", "dtype", "nan", "value", "alias", "requires_grad", "stride")


def difference(kind="value", rel=0.5, **more):
    return signature_of(Failure(Kind.ACCURACY, difference=Difference(kind, "output 0", max_rel=rel, **more)))


def test_a_difference_must_keep_a_share_of_its_size():
    assert difference().matches(difference(rel=0.06))
    assert not difference().matches(difference(rel=0.04))
    assert difference(rel=1e9).matches(difference(rel=0.2)), "more than 100 % is simply wrong"
    assert not difference(rel=1e9).matches(difference(rel=0.02))


def test_a_wrong_integer_is_simply_wrong():
    index = difference(rel=0.001, exact=True)
    assert difference(rel=0.9).matches(index) and index.matches(difference(rel=0.2))
    assert not index.matches(difference(rel=0.001)), "rounding"


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_difference_is_a_failure_of_its_own(kind):
    one = difference(kind)
    assert [other for other in KINDS if one.matches(difference(other))] == [kind]
    alike = {"value", "nan"} if kind in ("value", "nan") else {kind}
    for strength in (Strength.REBASED, Strength.CROSS_VERSION):
        assert {other for other in KINDS if one.matches(difference(other, rel=1e-6), strength)} == alike


def test_a_run_that_shows_several_differences_is_told_by_the_one_that_is_meant():
    shown = {kind: Difference(kind, f"output {at}", max_rel=0.5) for at, kind in enumerate(("dtype", "nan", "stride"))}
    failure = Failure(Kind.ACCURACY, difference=shown["dtype"], also=(shown["nan"], shown["stride"]))
    assert focused(failure, difference("stride")).difference == shown["stride"]
    assert focused(failure, difference("value")).difference == shown["nan"], "a user's check calls it a value"
    assert focused(failure, difference("dtype")) is failure
    assert focused(failure, difference("alias")) is failure


def test_a_run_that_shows_a_worse_kind_as_well_is_no_candidate():
    shape, dtype, alias, stride = (Difference(kind, "output 0") for kind in ("shape", "dtype", "alias", "stride"))
    original = signature_of(Failure(Kind.ACCURACY, difference=alias, also=(stride,)))

    def matches(*shown: Difference, strength: Strength = Strength.STRICT, first: Signature = original) -> bool:
        failure = focused(Failure(Kind.ACCURACY, difference=shown[0], also=shown[1:]), first)
        return first.matches(signature_of(failure), strength)

    assert matches(alias) and matches(alias, Difference("warning", "warnings"))
    assert not matches(shape, alias)
    assert matches(shape, alias, strength=Strength.REBASED)  # of another subject: the text says what differs there
    both = signature_of(focused(Failure(Kind.ACCURACY, difference=shape, also=(alias,)), original))
    assert both.summary() == "wrong result: shape and alias differ from eager's"
    assert matches(shape, alias, first=both) and matches(alias, first=both) and not matches(dtype, alias, first=both)
    nan, value = Difference("nan", "output 0"), Difference("value", "output 0", max_rel=0.5)
    assert matches(nan, value, first=difference())


def test_the_users_own_check_and_the_programs_difference_are_one_failure():
    script = of_text("wrong_result")
    assert script.difference == "value" and script.matches(difference("nan"), Strength.REBASED)
    bare = signature_of(failure_from_exceptions([ExceptionLink("AssertionError", "", (Frame("t.py", 1, "main"),))]))
    assert bare.matches(difference(), Strength.REBASED)


def crash(signal, text=""):
    return signature_of(failure_from_signal(signal, text=text))


def test_the_scripts_own_exception_is_its_wrong_result_where_only_the_output_is_read():
    check = Signature(Kind.ACCURACY, exceptions=("RuntimeError",), message="the new scale is not used")
    read = replace(check, kind=Kind.RUNTIME_ERROR)
    assert check.matches(read, Strength.REBASED) and check.matches(read, Strength.CROSS_VERSION)
    assert not check.matches(read, Strength.STRICT)
    for other in (
        replace(read, message="the old scale went away"),
        replace(read, exceptions=("ValueError",)),
        replace(read, frames=("eval_frame.py:compile_wrapper",)),
    ):
        assert not check.matches(other, Strength.REBASED)
    measured = Signature(Kind.ACCURACY, exceptions=("RuntimeError",), message=check.message, difference="value")
    assert not measured.matches(read, Strength.REBASED)


def test_classes_of_crash():
    by_glibc = (
        "free(): invalid pointer",
        "x\nmalloc(): bad",
        "Fatal glibc error: malloc assertion failure in sysmalloc: (old_top == initial_top (av) && old_size == 0)",
        "python: malloc.c:2379: sysmalloc: Assertion `(old_top == initial_top (av) && old_size == 0)' failed.",
    )
    heap = [crash("SIGSEGV"), crash("SIGBUS"), *(crash("SIGABRT", text) for text in by_glibc)]
    assert all(one.matches(other) for one in heap for other in heap)
    thrown = "terminate called after throwing an instance of 'std::out_of_range'\n  what():  index {} too big\n"
    one, other = (crash("SIGABRT", thrown.format(number)) for number in (3, 12))
    assert one.matches(other) and not one.matches(heap[0], Strength.REBASED)
    assert not one.matches(
        crash("SIGABRT", thrown.replace("index {} too big", "vector::_M_range_check: no such element"))
    )
    assert not crash("SIGFPE").matches(crash("SIGILL"))


def hang(*places):
    return signature_of(
        failure_from_timeout([Frame(SITE + file, 1, name) for file, name in (place.split(":") for place in places)])
    )


def test_a_hang_is_known_by_where_its_loop_is():
    trunk = (
        "_dynamo/eval_frame.py:compile_wrapper",
        "_dynamo/output_graph.py:compile",
        "_inductor/compile_fx.py:inner",
    )
    fuse = (*trunk, "_inductor/scheduler.py:fuse_nodes", "_inductor/scheduler.py:fuse_nodes_once")
    first = hang(*fuse, "_inductor/scheduler.py:can_fuse")
    assert first.matches(hang(*fuse, "_inductor/dependencies.py:overlap"))
    assert not first.matches(hang(*trunk, "_inductor/pattern_matcher.py:apply", "_inductor/pattern_matcher.py:match"))
    assert not first.matches(hang()) and hang().matches(hang())
    elsewhere = hang(*trunk, "_inductor/pattern_matcher.py:apply", "_inductor/pattern_matcher.py:match")
    assert first.matches(elsewhere, Strength.REBASED)
    assert not first.matches(hang(*trunk[:2], "_dynamo/guards.py:build"), Strength.REBASED)


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (signature("AssertionError: ", *STORE), "InductorError: AssertionError in cpp.py:store"),
        (gcc(), "InductorError: CppCompileError: no matching function for call to 'atomic_add_vec'"),
        (difference("nan"), "wrong result: nan differs from eager's"),
        (difference(), "wrong result: values differ from eager's by 0.5 (relative)"),
        (
            Signature(Kind.ACCURACY, ("AssertionError",), "…"),
            "wrong result: the script's own check fails: AssertionError",
        ),
        (Signature(Kind.ACCURACY, ("AssertionError",), "loss is off by #"), "wrong result: loss is off by …"),
        (
            Signature(Kind.ACCURACY, ("AttributeError",), "'NoneType' object has no attribute 'numel'"),
            "AttributeError with torch.compile, not in eager: 'NoneType' object has no attribute 'numel'",
        ),
        (Signature(Kind.ACCURACY, ("ValueError",), "off"), "wrong result: off"),
        (Signature(Kind.ACCURACY, ("KeyError",), "#"), "KeyError with torch.compile, not in eager: …"),
        (crash("SIGSEGV"), "crash by memory corruption or invalid access"),
        (hang("_inductor/scheduler.py:fuse"), "hang in scheduler.py:fuse"),
        (Signature(Kind.OOM, ("MemoryError",)), "MemoryError"),
    ],
)
def test_summary(one, line):
    assert one.summary() == line


def test_summary_is_one_line_of_bearable_length():
    assert len(signature("RuntimeError: " + "word " * 200, *STORE).summary()) <= 160


@given(st.text(max_size=400))
def test_normalising_is_idempotent_enough_to_match_itself(message):
    once = normalise(message)
    assert len(once) <= 300 and "\n" not in once
    one = signature(f"RuntimeError: {message}", *STORE)
    assert one.matches(one) and all(one.matches(replace(one), strength) for strength in Strength)


def test_a_signature_survives_the_case_file():
    one = of_text("lowering_error")
    assert from_data(to_data(one), Signature) == one and b"aten.relu" in dumps(one)


def test_threads_that_die_together_may_leave_no_words():
    alone = failure_from_signal("SIGABRT", text="terminate called recursively\n")
    words = "terminate called recursively\nterminate called after throwing an instance of 'int'\n"
    told = failure_from_signal("SIGABRT", text=words)
    other = failure_from_signal("SIGABRT", text="terminate called after throwing an instance of 'std::bad_cast'\n")
    assert "'int'" in signature_of(told).message
    assert signature_of(alone).matches(signature_of(told))
    assert signature_of(told).matches(signature_of(alone))
    assert not signature_of(told).matches(signature_of(other))


def test_people_read_the_message_as_it_was_printed():
    message = "mat1 and mat2 must have the same dtype, but got Half and Float\n\nfrom user code:\n x"
    failure = failure_from_exceptions([ExceptionLink("builtins.RuntimeError", message, ())])
    signature = signature_of(failure)
    assert "<dtype>" in signature.summary()
    assert (
        in_words(signature, failure) == "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float"
    )


def test_words_of_another_failure_are_not_taken():
    other = failure_from_exceptions([ExceptionLink("builtins.RuntimeError", "no kernel for 3", ())])
    mine = signature_of(failure_from_exceptions([ExceptionLink("builtins.RuntimeError", "bad at 3", ())]))
    assert in_words(mine, other) == in_words(mine, None) == mine.summary()


def test_a_recompile_is_told_by_its_guard():
    message = RECOMPILED.partition(": ")[2].format("forward", SIZED.format("x", 4))
    failure = failure_from_exceptions([ExceptionLink("RecompileError", message)])
    words = "RecompileError: recompiled because of the guard tensor 'x' size mismatch at index 0. expected 4, actual 1"
    assert in_words(signature_of(failure), failure) == words


def test_a_run_that_says_nothing_is_told_by_its_exit_status() -> None:
    silent = Failure(Kind.RUNTIME_ERROR, exit_status=2)
    assert in_words(signature_of(silent), silent) == "exit status 2"
    said = replace(silent, exceptions=(ExceptionLink("ValueError", "no such size"),))
    assert in_words(signature_of(said), said) == "ValueError: no such size"


def test_an_endless_recursion_is_the_same_wherever_it_reaches_its_limit() -> None:
    def recursion(end: str, *last: str, loop: tuple[str, ...] = ("call_method", "nb_float_impl")) -> Signature:
        places = [f"_dynamo/variables/base.py:{name}" for name in (*loop * 4, *last)]
        return signature(f"maximum recursion depth exceeded{end}", *places, type_name="RecursionError")

    one = recursion(" in comparison", "__str__")
    assert one.frames == ("base.py:call_method", "base.py:nb_float_impl")
    assert one.matches(recursion(" while calling a Python object", "as_python_constant", "__init__"))
    assert one.matches(recursion("")) and one.message == "maximum recursion depth exceeded"
    assert not one.matches(recursion(" in comparison", "__str__", loop=("var_getattr", "realize")))


def test_of_a_lost_exception_another_check_is_another_failure() -> None:
    target = Signature(Kind.VALIDATION, ("RuntimeError",), "all elements of target should be between # and #")
    of_input = replace(target, message="all elements of input should be between # and #")
    assert target.matches(replace(target, message=target.message)) and not target.matches(of_input)
    assert target.matches(of_input, Strength.REBASED), "names differ between a script and its program"
    assert replace(target, kind=Kind.RUNTIME_ERROR).matches(replace(of_input, kind=Kind.RUNTIME_ERROR))


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please …)", ""),
        ("  no such size\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace", "no such size"),
        ("C++ compile error\n\nOutput:\na.cpp:1: error: no\n\nSet TORCHDYNAMO_VERBOSE=1", "error: no"),
    ],
)
def test_what_torch_adds_to_a_message_is_no_message(message: str, line: str) -> None:
    assert telling_line(message) == line


def test_the_place_of_a_call_in_a_message_is_not_part_of_the_fault() -> None:
    message = "Dynamo detected a call to a `functools.lru_cache`-wrapped function at '{}'. Dynamo ignores the cache"
    assert normalise(message.format("train.py:17")) == normalise(message.format("reduced-2.py:4"))
    assert normalise(message.format("train.py")) != normalise(message.format("reduced-2.py")), "a name alone may matter"
