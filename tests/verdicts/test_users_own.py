"""The last words on a failure that shows with nothing compiled as well."""

from repro_kit.case.stage_results import ObservedFailure
from repro_kit.errors import Exit
from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.verdicts.blame import as_wrong_result
from repro_kit.verdicts.not_the_compiler import stop_for_eager_failure


def said(message: str, kind: str = "RuntimeError", of: Kind = Kind.RUNTIME_ERROR) -> str:
    failure = Failure(of, exceptions=(ExceptionLink(kind, message),))
    ended = stop_for_eager_failure(ObservedFailure(failure, signature_of(failure), source="exception"))
    assert ended.exit_code is Exit.USER_BUG
    return ended.sentence


def test_the_compiler_is_not_to_blame():
    assert said("shapes differ").startswith(
        "The program fails without torch.compile too, so the compiler is not to blame: RuntimeError: shapes differ"
    )
    own_check = said("wrong: tensor(0.0010)", "AssertionError", Kind.ACCURACY)
    assert 'is not to blame: "AssertionError: wrong: tensor(0.0010)"' in own_check, "eager has no wrong result"


def test_the_names_of_a_compiled_module_are_no_failure_without_torch_compile():
    """The module is wrapped where nothing is compiled, too: without torch.compile, the script would not fail."""
    sentence = said('Missing key(s) in state_dict: "weight". Unexpected key(s) in state_dict: "_orig_mod.weight".')
    assert "without torch.compile" not in sentence
    assert "`_orig_mod` is what torch.compile(module) adds" in sentence and "module.compile()" in sentence


def test_a_compiled_module_that_is_printed_is_not_its_names():
    assert "without torch.compile too" in said("expected 3, got OptimizedModule(\n  (_orig_mod): Linear()\n)")


def test_a_higher_order_operator_that_refuses_its_function_in_eager_is_named():
    sentence = said("This higher order operator must be captured", "torch._dynamo.exc.UncapturedHigherOrderOpError")
    assert "A higher-order operator" in sentence and "change it as the message says" in sentence
    assert "not to blame" not in sentence
    explained = said("Data-dependent branching", "torch._dynamo.exc.Unsupported")  # by torch._dynamo.explain
    assert "A higher-order operator" not in explained


def test_what_torch_compile_itself_raises_is_not_said_to_fail_without_it() -> None:
    frames = (
        Frame("/home/me/train.py", 4, "<module>"),
        Frame("/venv/lib/site-packages/torch/__init__.py", 9, "compile"),
    )
    failure = Failure(Kind.DYNAMO_ERROR, exceptions=(ExceptionLink("InvalidBackend", "nosuch", frames),))
    sentence = stop_for_eager_failure(ObservedFailure(failure, signature_of(failure), source="exception")).sentence
    assert sentence.startswith("torch.compile(…) itself raises this, with compiling switched off too")
    assert "fails without torch.compile" not in sentence


def test_an_exported_program_that_torch_cannot_load_is_no_failure_of_the_program() -> None:
    frame = Frame("/case/compile_exported.py", 17, "<module>", "exported = torch.export.load(sys.argv[1])")
    failures = [
        Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("RuntimeError", "Unsupported version", (frame,)),)),
        Failure(Kind.RUNTIME_ERROR, exit_status=1, text="W1\nNothing was loaded: /x/a.pt2 has changed; collect it.\n"),
        Failure(Kind.RUNTIME_ERROR, exit_status=1, text="The exported program holds no example inputs; save it anew."),
    ]
    for failure in failures:
        ended = stop_for_eager_failure(ObservedFailure(failure, signature_of(failure), source="exit"))
        assert ended.exit_code is Exit.CANNOT_RUN and "cannot be run with this torch" in ended.sentence


def test_an_exception_of_compiled_code_is_no_wrong_result_but_that_of_a_check_is() -> None:
    def kind_of(line: str, *, compiled: bool = True) -> Kind:
        called = Frame("/venv/lib/site-packages/torch/_dynamo/eval_frame.py", 1166, "compile_wrapper", "result = fn()")
        frames = (Frame("/a.py", 9, "<module>", "step(x)"), *[called] * compiled, Frame("/a.py", 3, "step", line))
        failure = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("AttributeError", "no such", frames),))
        return as_wrong_result(ObservedFailure(failure, signature_of(failure), source="exception")).failure.kind

    assert kind_of("@torch.compile") is kind_of("y = table[i]") is Kind.RUNTIME_ERROR
    assert kind_of("raise ValueError(y)") is kind_of("assert y.sum() > 0") is Kind.ACCURACY
    assert kind_of("y = table[i]", compiled=False) is Kind.ACCURACY
