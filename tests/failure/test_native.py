"""What a dying process prints: the stack of faulthandler, and the last words of C++."""

import subprocess
import sys

import pytest

from repro_kit.failure.tracebacks import faulthandler_stack, last_words

COLLECTING = """
import faulthandler, gc
def look(phase, info):
    faulthandler.dump_traceback()
def hang():
    gc.collect()
gc.callbacks.append(look)
hang()
"""


def test_a_process_that_collects_garbage_has_a_stack() -> None:
    ended = subprocess.run([sys.executable, "-c", COLLECTING], capture_output=True, text=True, check=True)
    assert "Garbage-collecting" in ended.stderr
    assert [frame.function for frame in faulthandler_stack(ended.stderr)] == ["<module>", "hang", "look"]


def test_lines_after_the_stack_are_no_part_of_it() -> None:
    text = """Current thread 0x00007f7f (most recent call first):
  File "a.py", line 2 in inner
  File "a.py", line 5 in outer

  File "b.py", line 1 in elsewhere
"""
    assert [frame.function for frame in faulthandler_stack(text)] == ["outer", "inner"]


@pytest.mark.parametrize("at", range(4))
def test_the_words_of_a_thread_may_stand_within_those_of_another(at: int) -> None:
    pieces = ["terminate called after throwing an instance of '", "int", "'\n"]  # libstdc++ writes each on its own
    text = "".join([*pieces[:at], "terminate called recursively\n", *pieces[at:]])
    assert last_words(text) == "terminate called after throwing an instance of 'int'"
