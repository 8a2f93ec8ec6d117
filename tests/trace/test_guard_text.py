"""Guards as torch 2.13 words them: what each checks, and of what."""

from pathlib import Path

import pytest

from repro_kit.trace.dynamo_text import Guard, parse_guard, whole_source
from repro_kit.trace.insights import gather


@pytest.mark.parametrize(
    ("text", "kind", "source", "expected", "actual"),
    [
        (
            "expected type of 'mask' to be a tensor type, ' but found <class 'NoneType'>",
            Guard.TYPE,
            "mask",
            "a tensor type",
            "<class 'NoneType'>",
        ),
        (
            "___check_type_id(dims, 140182607487872), type=<class 'tuple'>  # x.reshape(dims)  # b.py:25 in apply",
            Guard.TYPE,
            "dims",
            "<class 'tuple'>",
            "",
        ),
        ("___check_obj_id(L['fn'], 94501)", Guard.IDENTITY, "L['fn']", "", ""),
        ("(x.size()[0] % 8) == 0  # if s % 8 == 0:  # c.py:6 in f", Guard.SIZE, "x.size()[0]", "0", ""),
        ("tensor 'x' dtype mismatch. expected Float, actual Double", Guard.DTYPE, "x", "Float", "Double"),
        ("tensor 'w' requires_grad mismatch. expected requires_grad=0", Guard.GRAD, "w", "False", "True"),
        ("list(dict.keys(d))[0] == 'bb'", Guard.PRESENCE, "d", "'bb'", ""),
        ("not history", Guard.PRESENCE, "history", "0", ""),
        ("not L['cfg'].steps", Guard.PRESENCE, "L['cfg'].steps", "0", ""),
        ("not ___dict_contains('a', d)", Guard.PRESENCE, "d", "", ""),
        ("p.a is p.b", Guard.ALIASING, "p.a", "p.b", ""),
        ("mask is None", Guard.VALUE, "mask", "None", ""),
        ("TYPE_MISMATCH(d)", Guard.TYPE, "d", "", ""),
        ("L['cfg'].mode == 'a'", Guard.VALUE, "L['cfg'].mode", "'a'", ""),
    ],
)
def test_a_guard_names_its_source_and_what_it_expects(
    text: str, kind: str, source: str, expected: str, actual: str
) -> None:
    guard = parse_guard(text)
    assert (guard.kind, guard.source, guard.expected, guard.actual) == (kind, source, expected, actual)


@pytest.mark.parametrize(
    ("source", "whole"),
    [
        ("x.size()[0]", "L['x'].size()[0]"),
        ("___stack0.size()[0]", "L['___stack0'].size()[0]"),
        ("___check_global_state", "___check_global_state"),
        ("G['f']", "G['f']"),
    ],
)
def test_a_source_without_its_scope_is_a_local(source: str, whole: str) -> None:
    assert whole_source(source) == whole


def test_a_guard_of_several_cached_compiles_counts_once_for_a_recompile_and_a_term_of_a_size_is_no_size(
    tmp_path: Path,
) -> None:
    (tmp_path / "log.txt").write_text(
        """Recompiling function f in /job/c.py:3
    triggered by the following guard failure(s):
    - 0/1: GLOBAL_STATE changed: grad_mode
    - 0/0: GLOBAL_STATE changed: grad_mode
Recompiling function f in /job/c.py:3
    triggered by the following guard failure(s):
    - 0/2: (x.size()[0] % 8) == 0  # if s % 8 == 0:  # c.py:6 in f
"""
    )
    insights = gather(tmp_path / "log.txt")
    (recompiled,) = insights.recompiles
    assert [(reason.guard.kind, reason.count) for reason in recompiled.reasons] == [("global state", 1), ("size", 1)]
    assert not insights.specializations
