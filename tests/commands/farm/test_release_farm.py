"""Sixty nights of forty cases, of which the truth is known: what the farm says of them; and its parts, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import release_farm


@pytest.mark.parametrize(("seed", "torchs", "named"), [(1, 5, ""), (55, 4, "| case-11 (also case-35) |")])
def test_the_farm_says_what_happened_in_sixty_nights(tmp_path: Path, seed: int, torchs: int, named: str) -> None:
    replay = release_farm.replay(tmp_path / "farm", seed)
    assert replay.mistakes() == []
    (text,) = replay.written().values()
    assert text.startswith(
        f"# Release 2.16: {torchs + 3} regressions\n\n{torchs} of torch, 3 of the app or its packages, 0 of which"
    )
    assert named in text
    assert text.count("cases show nothing on") == 2 and "## Flaky" in text and "## They no longer say anything" in text
