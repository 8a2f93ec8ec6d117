"""Every promise of docs/explanation/promises.md, provoked at the small size of `scripts/bench/trust.py`."""

import pytest

import trust

#: Its commands run in this process, and its scripts in forks.
IN_FORKS = ("blame",)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("subject", trust.subjects())
def test_promise_holds(subject, request):
    if subject in IN_FORKS:
        request.getfixturevalue("scripts_in_forks")
    rows = trust.measure(subject, "small")
    assert rows
    assert [(row.promise, row.broken) for row in rows if not row.kept] == []
