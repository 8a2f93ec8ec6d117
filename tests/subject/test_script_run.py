"""What a run of the user's script prints, while it runs."""

import os
from pathlib import Path

import pytest

from repro_kit.subject.script_run import last_line


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"", ""),
        (b"one\ntwo\n\n", "two"),
        (b"10%|#         |\r20%|##        |", "20%|##        |"),
        (b"\x1b[31mred\x1b[0m \x1b]0;a title\x07text\x1b[2K", "red text"),
        (b"abc\x08xy\x07", "abxy"),
        ("größe 3 µs".encode() + b"\xff", "größe 3 µs"),
        (b"x" * 10_000, "x" * 4096),
    ],
)
def test_the_last_line_has_nothing_that_controls_a_terminal(printed: bytes, shown: str, tmp_path: Path) -> None:
    (tmp_path / "stdout.txt").write_bytes(printed)
    assert last_line(tmp_path) == shown


def test_it_is_of_the_stream_that_was_written_last(tmp_path: Path) -> None:
    for at, name in enumerate(("stderr.txt", "stdout.txt")):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (at, at))
    assert last_line(tmp_path) == "stdout.txt"
    assert last_line(tmp_path / "nothing") == ""
