"""Sixty nights of forty cases, of which the truth is known: what the farm says of them; and its parts, by hand."""

from __future__ import annotations

from pathlib import Path

import release_farm


def test_the_farm_says_what_happened_in_sixty_nights(tmp_path: Path) -> None:
    replay = release_farm.replay(tmp_path / "farm", 1)
    assert replay.mistakes() == []
    (text,) = replay.written().values()
    assert text.startswith(
        "# Release 2.16: 8 regressions\n\n5 of torch, 3 of the app or its packages, 0 of which it is not"
    )
    assert text.count("cases show nothing on") == 2 and "## Flaky" in text and "## They no longer say anything" in text
