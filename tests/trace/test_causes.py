"""Which causes a smaller program must share."""

from pathlib import Path

import pytest

from repro_kit.failure.failure import ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.trace.dynamo_text import parse_guard
from repro_kit.trace.insights.causes import causes, kept_causes

HERE = Path(__file__).parent
RECOMPILED = """Recompiling function f in /me/a.py:3
    triggered by the following guard failure(s):
    - 0/1: self.stage.name == 'b'  # if self.stage.name == 'last':  # a.py:7 in f
    - User stack trace:
    -   File "/me/a.py", line 7, in f
    - 0/0: tensor 'x' size mismatch at index 0. expected 2, actual 3"""


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("tensor 'x' size mismatch at index 0. expected 2, actual 3", "size"),
        ("tensor 'self.weight' dtype mismatch. expected Float, actual Double", "dtype"),
        ("self.stage.name == 'stage0'", "value, str, attribute of a local"),
        ("G['config'].mode == 'train'", "value, str, attribute of a global"),
        ("G['step'] == 0  # if step == 100:  # a.py:20 in f", "value, int, global"),
        ("mode == 'train'", "value, str, local"),
        ("scales[0] == 2.0", "value, float, item of a local"),
        ("L['d']['a.b'] is True", "value, bool, item of a local"),
        ("mask is None", "value, NoneType, local"),
        ("not ___dict_contains('a', d)", "presence, local"),
    ],
)
def test_the_form_of_a_guard_says_where_a_value_is_and_of_which_type(text: str, form: str) -> None:
    assert parse_guard(text).form == form


@pytest.mark.parametrize("kind", ["RuntimeError", "torch._dynamo.exc.RecompileError"])
def test_an_exception_at_a_recompile_names_the_guards(tmp_path: Path, kind: str) -> None:
    failure = Failure(Kind.DYNAMO_ERROR, exceptions=(ExceptionLink(kind, RECOMPILED, ()),))
    assert kept_causes(failure, tmp_path) == {"value, str, attribute of a local", "size"}
    other = Failure(Kind.DYNAMO_ERROR, exceptions=(ExceptionLink(kind, "no kernel", ()),))
    assert kept_causes(other, HERE / "fixtures" / "recompile_limit_fullgraph.log") == frozenset()


def test_at_the_limit_the_guards_of_the_refused_compile_are_the_cause(tmp_path: Path) -> None:
    log = (HERE / "fixtures" / "recompile_limit_fullgraph.log").read_bytes()
    (tmp_path / "dedicated_log_torch_trace_1.log").write_bytes(log)
    link = ExceptionLink("torch._dynamo.exc.FailOnRecompileLimitHit", "Hard failure due to fullgraph=True", ())
    for compile_id in ("0/2", None):
        failure = Failure(Kind.DYNAMO_ERROR, exceptions=(link,), compile_id=compile_id)
        assert len(kept_causes(failure, tmp_path)) == 1
    refused_at_once = Failure(Kind.DYNAMO_ERROR, exceptions=(link,), compile_id="1/0")
    assert kept_causes(refused_at_once, tmp_path) == frozenset()
    assert kept_causes(Failure(Kind.RECOMPILES), tmp_path) and causes(Kind.RECOMPILES, tmp_path)
    assert kept_causes(failure, tmp_path / "none") == frozenset()
