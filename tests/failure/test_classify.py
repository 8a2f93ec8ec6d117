"""Kinds of failure, from exceptions, text, signals, time-outs and the zygote's replies."""

import pytest

from repro_kit.failure.classify import (
    classify_reply,
    concerns_compiler,
    failure_from_exceptions,
    failure_from_signal,
    failure_from_text,
    failure_from_timeout,
    failures_from_text,
)
from repro_kit.failure.failure import ExceptionLink, Frame, Phase, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.tracebacks import chains
from root import ROOT

RECORDED = ROOT / "tests/trace/fixtures"
SITE = "/venv/lib/python3.11/site-packages/"


def link(type_name, message="", *places):
    """An exception with frames given as ``file:function[:code]``."""
    frames = [Frame(file, 1, function, code) for file, function, code in ((*p.split(":"), "")[:3] for p in places)]
    return ExceptionLink(type_name, message, tuple(frames))


@pytest.mark.parametrize(
    ("case", "kind", "root", "op"),
    [
        ("cpp_compile_error", Kind.COMPILE_ERROR, "CppCompileError", None),
        ("lowering_error", Kind.COMPILE_ERROR, "AssertionError", "aten.relu.default"),
        ("backward_error", Kind.COMPILE_ERROR, "AssertionError", "aten.where.self"),
        ("backend_error", Kind.COMPILE_ERROR, "ReluCompileError", None),
        ("graph_break_fullgraph", Kind.DYNAMO_ERROR, "torch._dynamo.exc.Unsupported", None),
        ("data_dependent_fullgraph", Kind.DYNAMO_ERROR, "torch._dynamo.exc.UserError", None),
        ("internal_error", Kind.DYNAMO_ERROR, "KeyError", None),
        ("recompile_limit_fullgraph", Kind.DYNAMO_ERROR, "torch._dynamo.exc.FailOnRecompileLimitHit", None),
        ("runtime_error", Kind.RUNTIME_ERROR, "RuntimeError", None),
        ("user_exception", Kind.RUNTIME_ERROR, "ValueError", None),
        ("wrong_result", Kind.ACCURACY, "AssertionError", None),
    ],
)
def test_what_real_torch_prints(case, kind, root, op):
    failure = failure_from_text((RECORDED / f"{case}.stderr.txt").read_text())
    assert (failure.kind, failure.exceptions[-1].type, failure.op) == (kind, root, op)


def test_assert_closes_numbers_become_the_difference():
    difference = failure_from_text((RECORDED / "wrong_result.stderr.txt").read_text()).difference
    assert difference.kind == "value" and difference.max_abs > 1 and 0 < difference.max_rel < 1


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            "Tensor-likes are not close!\n\nMismatched elements: 2 / 8 (25.0%)\nGreatest absolute difference: nan at",
            "nan",
        ),
        ("The values for attribute 'shape' do not match: torch.Size([1]) != torch.Size([2]).", "shape"),
        ("The values for attribute 'stride()' do not match: (1,) != (2,).", "stride"),
        ("Not equal to tolerance rtol=1e-07\nMax absolute difference among violations: 0.5", "value"),
        ("Scalars are not equal!\nAbsolute difference: 3\n\nThe failure occurred for item ['strides'][0][0]", "stride"),
        ("The length of the sequences mismatch: 2 != 1\n\nThe failure occurred for item ['aliases']", "alias"),
        ("None mismatch: None is not tensor([1.])\n\nThe failure occurred for item ['gradients'][1]", "structure"),
    ],
)
def test_kinds_of_difference(message, kind):
    failure = failure_from_exceptions([link("AssertionError", message, "/home/me/t.py:main:assert_close(a, b)")])
    assert failure.kind is Kind.ACCURACY and failure.difference.kind == kind


@pytest.mark.parametrize(
    ("links", "kind"),
    [
        # Raised by the user's own line over a difference; by an operator called from one.
        ([link("RuntimeError", "outputs differ", "/home/me/t.py:main:raise RuntimeError('x')")], Kind.ACCURACY),
        ([link("RuntimeError", "size mismatch, got 3", "/home/me/t.py:main:y = x @ w")], Kind.RUNTIME_ERROR),
        ([link("AssertionError", "", "/home/me/t.py:main:assert torch.equal(a, b)")], Kind.ACCURACY),
        ([link("AssertionError", "expected size 2==3", "/tmp/torchinductor_me/x/cxx.py:call")], Kind.RUNTIME_ERROR),
        ([link("AssertionError", "", f"{SITE}torch/nn/modules/linear.py:forward")], Kind.RUNTIME_ERROR),
        ([link("AssertionError", "", "t.py:main", f"{SITE}torch/_inductor/scheduler.py:fuse")], Kind.COMPILE_ERROR),
        ([link("IndexError", "", "t.py:main", f"{SITE}torch/_dynamo/symbolic_convert.py:run")], Kind.DYNAMO_ERROR),
        ([link("RuntimeError", "x", f"{SITE}torch/_functorch/vmap.py:vmap_impl")], Kind.RUNTIME_ERROR),
        # Dynamo's wrapper around a compiled graph that got a subclass of Tensor.
        (
            [link("TypeError", "", f"{SITE}torch/_dynamo/output_graph.py:_tf_disabled_wrapper", "/tmp/x/cxx.py:call")],
            Kind.RUNTIME_ERROR,
        ),
        (
            [link("TypeError", "", f"{SITE}torch/_dynamo/backends/debugging.py:run", f"{SITE}torch/_ops.py:__call__")],
            Kind.RUNTIME_ERROR,
        ),
        ([link("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB")], Kind.OOM),
        ([link("RuntimeError", "[enforce fail] DefaultCPUAllocator: not enough memory: you tried")], Kind.OOM),
        ([link("torch._dynamo.exc.BackendCompilerFailed", "backend='b' raised:\nMemoryError: ")], Kind.OOM),
        ([link("triton.compiler.errors.CompilationError", "at 3:4:\n x\n^\nTypeError('bad')")], Kind.COMPILE_ERROR),
    ],
)
def test_kind_of_exceptions(links, kind):
    assert failure_from_exceptions(links).kind is kind


def test_inner_exceptions_of_wrappers_become_links():
    message = "LoweringException: AssertionError: no\n  target: aten.foo.default\n  args[0]: 1"
    failure = failure_from_exceptions([link("torch._inductor.exc.InductorError", message)])
    assert [exception.type for exception in failure.exceptions][1:] == ["LoweringException", "AssertionError"]


def test_the_cause_of_a_native_compilers_error_is_not_the_root():
    chain = [
        link("torch._inductor.exc.InductorError", "CppCompileError: C++ compile error"),
        link("torch._inductor.exc.CppCompileError", "C++ compile error"),
        link("subprocess.CalledProcessError", "returned non-zero exit status 1"),
    ]
    assert failure_from_exceptions(chain).exceptions[-1].type == "torch._inductor.exc.CppCompileError"


def test_an_error_in_a_compile_worker_is_found_in_its_traceback():
    message = (
        "An exception occurred in a subprocess:\n\nTraceback (most recent call last):\n"
        f'  File "{SITE}torch/_inductor/async_compile.py", line 1, in work\n    go()\nValueError: too big\n'
    )
    failure = failure_from_exceptions([link("torch._inductor.compile_worker.SubprocException", message)])
    assert (failure.exceptions[-1].type, failure.exceptions[-1].message) == ("ValueError", "too big")


CHAINED = """Traceback (most recent call last):
  File "/home/me/a.py", line 3, in inner
    raise KeyError(1)
KeyError: 1

{mark}

Traceback (most recent call last):
  File "/home/me/a.py", line 5, in outer
    f()
ValueError: second
  with a second line
"""


def test_what_torch_raises_again_is_the_exception_of_the_worker():
    inner = f'''Caught Unsupported in DataLoader worker process 1.
Original Traceback (most recent call last):
  File "{SITE}torch/utils/data/_utils/worker.py", line 3, in _worker_loop
    data = fetcher.fetch(index)
  File "/home/me/train.py", line 9, in __getitem__
    return augment(image)
torch._dynamo.exc.Unsupported: invalid call
  Explanation: no such key

from user code:
   File "/home/me/train.py", line 4, in augment
    return image.no
'''
    failure = failure_from_exceptions([link("torch._dynamo.exc.Unsupported", inner, f"{SITE}torch/_utils.py:reraise")])
    (root,) = failure.exceptions
    assert root.message.startswith("invalid call\n  Explanation") and failure.kind is Kind.DYNAMO_ERROR
    assert [frame.function for frame in root.frames] == ["_worker_loop", "__getitem__"]


def test_chains_keep_causes_and_drop_what_was_merely_handled():
    cause = "The above exception was the direct cause of the following exception:"
    failure = failure_from_text(CHAINED.format(mark=cause))
    assert [exception.type for exception in failure.exceptions] == ["ValueError", "KeyError"]
    assert failure.exceptions[0].message == "second\n  with a second line"
    context = "During handling of the above exception, another exception occurred:"
    assert [exception.type for exception in failure_from_text(CHAINED.format(mark=context)).exceptions] == [
        "ValueError"
    ]


def test_a_compile_failure_that_the_user_re_raised_is_kept():
    text = CHAINED.replace("KeyError: 1", "torch._inductor.exc.InductorError: TypeError: no")
    failure = failure_from_text(text.format(mark="During handling of the above exception, another exception occurred:"))
    assert failure.kind is Kind.COMPILE_ERROR and failure.exceptions[-1].type == "TypeError"


@pytest.mark.parametrize("prefix", ["[rank1]: ", "W1121 03:19:34.250000 5240 torch/_dynamo/convert_frame.py:2415] "])
def test_prefixed_tracebacks(prefix):
    text = (RECORDED / "lowering_error.stderr.txt").read_text()
    plain = failure_from_text(text)
    prefixed = failure_from_text("".join(f"{prefix}{line}\n" for line in text.splitlines()))
    assert prefixed.exceptions == plain.exceptions


@pytest.mark.parametrize(
    "path", ['/my "proj"/a.py', "/it's; $x #1%/größe:b\\ c/a.py", "/one\ntwo: three/a.py", "/1\n2\n\n 3\n4/a.py"]
)
def test_the_paths_of_files_may_have_any_characters(path):
    text = (
        f'Traceback (most recent call last):\n  File "{path}", line 3, in <module>\n    f()\n'
        f'  File "{path}", line 1, in f\n    1 / 0\nZeroDivisionError: division by zero\n'
    )
    ((link,),) = chains(text)
    assert (link.type, link.message) == ("ZeroDivisionError", "division by zero")
    assert link.frames == (Frame(path, 3, "<module>", "f()"), Frame(path, 1, "f", "1 / 0"))


def test_a_launchers_own_error_does_not_hide_the_compilers():
    launcher = CHAINED.format(mark="").replace("ValueError", "torch.distributed.elastic.ChildFailedError")
    text = (RECORDED / "lowering_error.stderr.txt").read_text() + launcher
    assert failure_from_text(text).op == "aten.relu.default"
    assert len(failures_from_text(text)) > 1


PYTEST = """
____________________________ test_it ____________________________
test_a.py:9: in test_it
    torch.compile(f)(x)
/venv/lib/python3.11/site-packages/torch/_inductor/graph.py:77: in call_function
    raise LoweringException
E   torch._inductor.exc.InductorError: LoweringException: AssertionError: no such thing
E     target: aten.foo.default
E     args[0]: 1

=========================== short test summary info ===========================
"""


def test_pytests_short_form():
    failure = failure_from_text(PYTEST)
    assert (failure.kind, failure.op) == (Kind.COMPILE_ERROR, "aten.foo.default")
    assert failure.exceptions[-1].type == "AssertionError"
    assert [frame.function for frame in failure.exceptions[0].frames] == ["test_it", "call_function"]


def test_pytests_long_form_of_a_bare_assertion():
    failure = failure_from_text(
        "    def test():\n>       assert torch.equal(a, b)\nE       assert False\n\ntest_a.py:4: AssertionError\n"
    )
    assert failure.kind is Kind.ACCURACY


def test_pytests_long_form_names_the_frame_that_raises_last():
    text = (
        "    def test():\n>       f(1)\n\ntest_a.py:4: \n_ _ _\nwatcher.py:7: in call\n    return run()\n_ _ _\n\n"
        "    def wrapper():\n>       raise e\nE       ValueError: no\n\ntorch/_dynamo/eval_frame.py:9: ValueError\n"
    )
    (failure,) = failures_from_text(text)
    assert [frame.file for frame in failure.exceptions[-1].frames][1:] == ["watcher.py", "torch/_dynamo/eval_frame.py"]


def test_an_exception_without_traceback():
    failure = failure_from_text("InductorError: LoweringException: AssertionError: bad\n  target: aten.where.self\n")
    assert (failure.kind, failure.op, failure.exceptions[-1].type) == (
        Kind.COMPILE_ERROR,
        "aten.where.self",
        "AssertionError",
    )
    assert failure_from_text("all is well\n") is None


@pytest.mark.parametrize("record", ["ERROR:root:2 of 3 failed", "2026-01-02 03:04:05,678 train INFO epoch 2"])
def test_a_record_of_a_log_is_no_part_of_the_message_before_it(record):
    head = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\n'
    failure = failure_from_text(f"{head}ValueError: bad\n  more of it\n{record}\nlast words\n")
    assert failure.exceptions[-1].message == "bad\n  more of it"


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("malloc(): invalid size (unsorted)\n", "SIGABRT"),
        ("double free or corruption (!prev)\n", "SIGABRT"),
        (
            "terminate called after throwing an instance of 'std::out_of_range'\n  what():  vector::_M_range\n",
            "SIGABRT",
        ),
        (
            "Fatal Python error: Segmentation fault\n\nThread 0x01 (most recent call first):\n",
            "SIGSEGV",
        ),
    ],
)
def test_last_words_of_a_crash(text, signal):
    failure = failure_from_text("some output\n" + text)
    assert (failure.kind, failure.signal) == (Kind.CRASH, signal)


def test_faulthandlers_stack_is_turned_around():
    failure = failure_from_text((RECORDED / "abort.stderr.txt").read_text())
    assert failure.signal == "SIGABRT" and concerns_compiler(failure)
    assert failure.stack[0].function == "<module>" and failure.stack[-1].function == "<lambda>"
    hung = failure_from_timeout(text=(RECORDED / "hang.stderr.txt").read_text())
    assert hung.kind is Kind.TIMEOUT and hung.stack[-1].function == "endless"


def test_a_kill_is_the_out_of_memory_killer():
    assert failure_from_signal("SIGKILL").kind is Kind.OOM
    assert failure_from_signal("SIGSEGV", step="GraphLowering.run").step == "GraphLowering.run"


def test_concerns_compiler():
    plain = failure_from_exceptions([link("ValueError", "no", "/home/me/a.py:f", f"{SITE}torch/nn/functional.py:relu")])
    compiled = failure_from_exceptions([link("ValueError", "no", f"{SITE}torch/_dynamo/eval_frame.py:compile_wrapper")])
    assert not concerns_compiler(plain) and concerns_compiler(compiled)


FRAME = {"file": f"{SITE}torch/_inductor/graph.py", "line": 3, "function": "run", "code": "x"}


@pytest.mark.parametrize(
    ("reply", "status", "kind"),
    [
        ({"status": "pass", "seconds": 0.5}, Status.PASS, None),
        ({"status": "infra", "text": "died"}, Status.CANNOT_TELL, None),
        ({"status": "fail"}, Status.CANNOT_TELL, None),
        ({"status": "fail", "timed_out": True, "signal": "SIGKILL", "stack": [FRAME]}, Status.FAIL, Kind.TIMEOUT),
        ({"status": "fail", "signal": "SIGSEGV", "phase": "exit"}, Status.FAIL, Kind.CRASH),
        ({"status": "fail", "difference": {"kind": "nan", "where": "output 0"}}, Status.FAIL, Kind.ACCURACY),
        (
            {
                "status": "fail",
                "phase": "compile",
                "exceptions": [{"type": "TypeError", "message": "", "frames": [FRAME]}],
            },
            Status.FAIL,
            Kind.COMPILE_ERROR,
        ),
        (
            {"status": "invalid", "phase": "eager", "exceptions": [{"type": "TypeError", "message": "", "frames": []}]},
            Status.INVALID,
            Kind.RUNTIME_ERROR,
        ),
    ],
)
def test_replies(reply, status, kind):
    verdict = classify_reply({"id": 1, **reply})
    assert verdict.status is status
    assert (verdict.failure.kind if verdict.failure else None) is kind
    if reply.get("phase") and verdict.failure:
        assert verdict.failure.phase is Phase(reply["phase"])
